#include "program/passes/offload_activations.h"

#include <algorithm>
#include <cassert>
#include <optional>

#include "program/passes/edit.h"

namespace plimsoll {
namespace {

class OffloadActivations {
 public:
  OffloadActivations(Program& program, const ActivationOffload& options)
      : p_(program), options_(options), insertions_(program), lives_(program.storages.size()) {}

  void offload(const std::vector<BlockSpans>& blocks) {
    if (blocks.size() < 2) return;
    blocks_ = &blocks;
    find_lives();
    std::vector<Move> moves;
    for (uint32_t s = 0; s < lives_.size(); ++s)
      if (const auto block = block_of(StorageId{s}))
        moves.push_back({.storage = StorageId{s}, .block = *block});
    for (Move& move : moves) copy_out(move);
    for (const Move& move : moves) give_back(move);
  }
  void finish() { insertions_.apply(); }

 private:
  struct Move {
    StorageId storage;
    size_t block = 0;  // after whose forward it leaves
    std::optional<TensorId> host;
  };
  // Statements, of one micro-batch.
  struct Life {
    std::optional<TensorId> made;  // by the op that gives it memory
    uint32_t born = 0, last_in_forward = 0;
    std::optional<uint32_t> first_in_backward, freed;
  };

  void find_lives() {
    lives_.assign(p_.storages.size(), Life{});
    for (uint32_t i = first(); i < last(); ++i) {
      const Statement& s = p_.statements[i];
      if (s.kind == StatementKind::kFree) lives_[s.index].freed = i;
      if (s.kind != StatementKind::kOp) continue;
      const Op& op = p_.ops[s.index];
      for (TensorId t : p_.inputs(op)) note_use(t, i);
      for (TensorId t : p_.outputs(op)) {
        if (!shares_input_storage(op.kind)) note_birth(t, i);
        note_use(t, i);
      }
    }
  }
  // What comes before the blocks makes the first one's input, and may let go of it after their backward.
  uint32_t first() const { return section_of(blocks_->front().forward_begin).first_statement; }
  uint32_t last() const { return section_of(backward_begin()).last_statement; }
  const Section& section_of(uint32_t statement) const {
    const auto found = std::ranges::find_if(p_.sections, [&](const Section& s) {
      return s.first_statement <= statement && statement < s.last_statement;
    });
    assert(found != p_.sections.end());
    return *found;
  }
  uint32_t backward_begin() const {
    uint32_t begin = blocks_->back().backward_begin;
    for (const BlockSpans& block : *blocks_) begin = std::min(begin, block.backward_begin);
    return begin;
  }

  void note_birth(TensorId t, uint32_t statement) {
    Life& life = lives_[p_.tensor(t).storage.value];
    life.made = t;
    life.born = statement;
  }
  void note_use(TensorId t, uint32_t statement) {
    Life& life = lives_[p_.tensor(t).storage.value];
    if (statement < backward_begin())
      life.last_in_forward = statement;
    else if (!life.first_in_backward)
      life.first_in_backward = statement;
  }

  // The block after whose forward the storage leaves; empty: it stays.
  std::optional<size_t> block_of(StorageId id) const {
    const Life& life = lives_[id.value];
    const Storage& s = p_.storage(id);
    const bool is_kept =
        life.made && life.born < backward_begin() && life.freed && *life.freed >= backward_begin();
    if (!is_kept || s.category != Category::kActivation || s.tier != Tier::kGpu || s.bytes < options_.least)
      return std::nullopt;
    for (size_t b = 0; b + 1 < blocks_->size(); ++b) {
      const BlockSpans& block = (*blocks_)[b];
      const bool is_read_last =
          life.last_in_forward >= block.forward_begin && life.last_in_forward < block.forward_end;
      const bool is_back_in_time =
          !life.first_in_backward || *life.first_in_backward >= (*blocks_)[b + 1].backward_begin;
      if (is_read_last && is_back_in_time) return b;
    }
    return std::nullopt;
  }

  bool is_read_again(const Move& m) const { return lives_[m.storage.value].first_in_backward.has_value(); }

  void copy_out(Move& m) {
    if (!is_read_again(m)) return;
    const TensorId device = *lives_[m.storage.value].made;
    m.host = on_host(device);
    insertions_.op(
        (*blocks_)[m.block].forward_end,
        {.kind = OpKind::kCopyToHost, .stream = Stream::kCopyOut, .module = p_.storage(m.storage).owner},
        {device}, {*m.host});
  }

  // A free of what is being copied waits for the copy: all copies are under way before the first.
  void give_back(const Move& m) {
    const BlockSpans &own = (*blocks_)[m.block], &next = (*blocks_)[m.block + 1];
    if (!is_read_again(m)) {
      insertions_.remove(*lives_[m.storage.value].freed);
      insertions_.free(own.forward_end, m.storage, Holder::kSaved);
      return;
    }
    const TensorId device = *lives_[m.storage.value].made;
    const ModuleId module = p_.storage(m.storage).owner;
    insertions_.free(next.forward_end, m.storage, Holder::kSaved);
    insertions_.op(next.backward_begin, {.kind = OpKind::kResize, .module = module}, {}, {device});
    insertions_.op(next.backward_begin,
                   {.kind = OpKind::kCopyInPlace, .stream = Stream::kCopyIn, .module = module},
                   {device, *m.host}, {written(device)});
    insertions_.free(own.backward_end, p_.tensor(*m.host).storage, Holder::kSaved);
  }

  TensorId on_host(TensorId device) {
    Storage storage = p_.storage_of(device);
    storage.tier = options_.to;
    p_.storages.push_back(storage);
    TensorInfo info = p_.tensor(device);
    info.storage = StorageId{static_cast<uint32_t>(p_.storages.size() - 1)};
    info.requires_grad = false;
    p_.tensors.push_back(info);
    return TensorId{static_cast<uint32_t>(p_.tensors.size() - 1)};
  }
  TensorId written(TensorId device) {
    TensorInfo info = p_.tensor(device);
    info.requires_grad = false;
    p_.tensors.push_back(info);
    return TensorId{static_cast<uint32_t>(p_.tensors.size() - 1)};
  }

  Program& p_;
  const ActivationOffload& options_;
  Insertions insertions_;
  const std::vector<BlockSpans>* blocks_ = nullptr;
  std::vector<Life> lives_;  // by storage
};

}  // namespace

Result<void> offload_activations(Program& program, std::span<const std::vector<BlockSpans>> micro_batches,
                                 const ActivationOffload& options) {
  assert(program.is_complete);
  OffloadActivations pass(program, options);
  for (const std::vector<BlockSpans>& blocks : micro_batches) pass.offload(blocks);
  pass.finish();
  return {};
}

}  // namespace plimsoll
