#include "simulator/simulator.h"

#include <algorithm>
#include <cassert>
#include <set>
#include <unordered_map>
#include <utility>

#include "allocator/pinned_host_heap.h"
#include "base/block.h"

namespace plimsoll {
namespace {

// Products that go through cuBLAS; grouped ones have kernels of their own.
bool calls_cublas(OpKind kind) {
  return kind == OpKind::kMm || kind == OpKind::kAddmm || kind == OpKind::kBmm || kind == OpKind::kBaddbmm;
}

class Player {
 public:
  Player(const Program& program, Heap& heap, const SimulateOptions& options)
      : p_(program),
        heap_(heap),
        options_(options),
        pinned_({.settings = options.settings}),
        blocks_(program.storages.size()),
        is_live_(program.storages.size()) {}

  MemoryTimeline run() {
    if (options_.keeps_events) timeline_.events.reserve(p_.storages.size() * 2);
    for (const PhaseStep& step : p_.schedule) {
      begin_phase(step.phase);
      const Section& section = p_.sections[step.section];
      for (uint32_t i = section.first_statement; i < section.last_statement && !timeline_.oom; ++i)
        play_observed(p_.statements[i]);
      end_phase();
      if (timeline_.oom) break;
    }
    timeline_.is_live_at_end = std::move(is_live_);
    return std::move(timeline_);
  }

 private:
  PhaseMemory& phase() { return timeline_.phases.back(); }
  uint32_t phase_index() const { return static_cast<uint32_t>(timeline_.phases.size() - 1); }

  // Consecutive steps of one name are one phase.
  void begin_phase(const std::string& name) {
    if (!timeline_.phases.empty() && phase().phase == name) return;
    is_backward_ = name.starts_with("bwd");
    retries_before_ = heap_.stats().num_alloc_retries;
    timeline_.phases.push_back({.phase = name,
                                .live_start = live_,
                                .live_peak = live_,
                                .host_peak = host(),
                                .pinned_peak = pinned(),
                                .pageable_peak = pageable_,
                                .disk_peak = disk_,
                                .workspace_peak = live_});
    heap_.reset_peaks();
    if (options_.observer != nullptr) options_.observer->begin_phase(name);
  }
  void end_phase() {
    const HeapStats stats = heap_.stats();
    phase().live_end = live_;
    phase().allocated_peak = stats.allocated.peak;
    phase().active_peak = stats.active.peak;
    phase().reserved_peak = stats.reserved.peak;
    phase().allocated_end = stats.allocated.current;
    phase().active_end = stats.active.current;
    phase().reserved_end = stats.reserved.current;
    phase().host_end = host();
    phase().pinned_end = pinned();
    phase().pageable_end = pageable_;
    phase().disk_end = disk_;
    phase().library_workspace = library_workspace_;
    phase().alloc_retries = stats.num_alloc_retries - retries_before_;
  }

  void play_observed(const Statement& s) {
    play(s);
    if (options_.observer != nullptr && (s.kind == StatementKind::kOp || s.kind == StatementKind::kFree))
      options_.observer->after_statement();
  }

  void play(const Statement& s) {
    if (s.kind == StatementKind::kFree) return free(StorageId{s.index});
    if (s.kind != StatementKind::kOp) return;
    op_ = OpId{s.index};
    const Op& op = p_.ops[s.index];
    if (options_.observer != nullptr) options_.observer->begin_op(op_);
    if (options_.library_workspace.value > 0 && calls_cublas(op.kind)) take_library_workspace(op.stream);
    if (class_of(op.kind) == OpClass::kView || class_of(op.kind) == OpClass::kInPlace) return;
    for (TensorId t : p_.outputs(op)) alloc(p_.tensor(t).storage, op.stream);
    if (op.workspace.value > 0) take_workspace(op);
  }

  void alloc(StorageId id, Stream stream) {
    const Storage& storage = p_.storage(id);
    if (is_live_[id.value] || timeline_.oom || storage.bytes.value == 0) return;  // empty tensors own nothing
    if (storage.tier == Tier::kDisk) return alloc_on_disk(id);
    if (storage.tier != Tier::kGpu) return alloc_on_host(id);
    tell_category(storage.category);
    const Allocation block = heap_.alloc(storage.bytes, static_cast<HeapStream>(stream));
    if (!block) return fail(block.error(), id);
    begin_life(id);
    blocks_[id.value] = *block;
    live_ += round_to_block(storage.bytes);
    if (live_ <= phase().live_peak) return;
    phase().live_peak = live_;
    phase().peak_op = op_;
    if (options_.keeps_events) phase().peak_event = timeline_.events.size() - 1;
    phase().workspace_peak = std::max(phase().workspace_peak, live_);
  }

  void tell_category(Category category) {
    if (options_.observer != nullptr) options_.observer->before_alloc(category);
  }

  void begin_life(StorageId id) {
    is_live_[id.value] = true;
    if (options_.keeps_events) record(true, id);
  }

  void free(StorageId id) {
    if (!is_live_[id.value]) return;
    is_live_[id.value] = false;
    if (options_.keeps_events) record(false, id);
    const Storage& storage = p_.storage(id);
    switch (storage.tier) {
      case Tier::kGpu:
        heap_.free(blocks_[id.value]);
        live_ -= round_to_block(storage.bytes);
        break;
      case Tier::kHostPinned:
        pinned_.free(blocks_[id.value]);
        break;
      case Tier::kHost:
        pageable_ -= storage.bytes;
        break;
      case Tier::kDisk:
        disk_ -= storage.bytes;
        break;
    }
  }

  Bytes pinned() const { return pinned_.stats().reserved.current; }
  Bytes host() const { return pageable_ + pinned(); }

  void alloc_on_disk(StorageId id) {
    disk_ += p_.storage(id).bytes;
    begin_life(id);
    phase().disk_peak = std::max(phase().disk_peak, disk_);
  }

  void alloc_on_host(StorageId id) {
    const Storage& storage = p_.storage(id);
    if (storage.tier == Tier::kHostPinned) {
      const Allocation block = pinned_.alloc(storage.bytes, kDefaultStream);
      if (!block) return fail(block.error(), id);
      blocks_[id.value] = *block;
    } else {
      pageable_ += storage.bytes;
    }
    begin_life(id);
    phase().host_peak = std::max(phase().host_peak, host());
    phase().pinned_peak = std::max(phase().pinned_peak, pinned());
    phase().pageable_peak = std::max(phase().pageable_peak, pageable_);
  }

  void take_workspace(const Op& op) {
    phase().workspace_peak = std::max(phase().workspace_peak, live_ + op.workspace);
    if (!options_.workspaces_in_heap || timeline_.oom) return;
    tell_category(Category::kWorkspace);
    const Allocation block = heap_.alloc(op.workspace, static_cast<HeapStream>(op.stream));
    if (!block) return fail(block.error());
    heap_.free(*block);
  }

  void take_library_workspace(Stream stream) {
    if (!with_workspace_.emplace(is_backward_, stream).second) return;
    tell_category(Category::kWorkspace);
    const Allocation block = heap_.alloc(options_.library_workspace, static_cast<HeapStream>(stream));
    if (!block) return fail(block.error());
    library_workspace_ += round_to_block(options_.library_workspace);
  }

  void fail(const OutOfMemory& details, std::optional<StorageId> storage = std::nullopt) {
    timeline_.oom = OomEvent{.phase = phase_index(), .op = op_, .storage = storage, .details = details};
  }

  void record(bool is_alloc, StorageId id) {
    timeline_.events.push_back({.is_alloc = is_alloc, .storage = id, .op = op_, .phase = phase_index()});
  }

  const Program& p_;
  Heap& heap_;
  const SimulateOptions& options_;
  PinnedHostHeap pinned_;
  std::vector<BlockId> blocks_;
  std::vector<bool> is_live_;
  MemoryTimeline timeline_;
  Bytes live_, pageable_, disk_, library_workspace_;
  OpId op_;
  bool is_backward_ = false;
  int64_t retries_before_ = 0;
  std::set<std::pair<bool, Stream>> with_workspace_;  // by thread and stream
};

}  // namespace

MemoryTimeline simulate(const Program& program, Heap& heap, const SimulateOptions& options) {
  assert(program.is_complete);
  return Player(program, heap, options).run();
}

std::vector<LiveStorage> live_at(const MemoryTimeline& timeline, size_t event) {
  std::unordered_map<uint32_t, LiveStorage> live;
  for (size_t i = 0; i <= event && i < timeline.events.size(); ++i) {
    const MemoryEvent& e = timeline.events[i];
    if (e.is_alloc) {
      live[e.storage.value] = {.storage = e.storage, .born_op = e.op, .born_phase = e.phase, .born_event = i};
    } else {
      live.erase(e.storage.value);
    }
  }
  std::vector<LiveStorage> result;
  for (const auto& [id, storage] : live) result.push_back(storage);
  std::ranges::sort(result, {}, &LiveStorage::born_event);
  return result;
}

}  // namespace plimsoll
