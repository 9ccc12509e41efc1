#include "frameworks/megatron/writer.h"

#include <fmt/format.h>

#include "frameworks/megatron/chunk_state.h"

namespace plimsoll::megatron {

Writer::Writer(Forward& forward, const Architecture& architecture, const ResolvedJob& job, const Stage& stage,
               const Chunk& chunk)
    : f_(forward),
      a_(architecture),
      job_(job),
      stage_(stage),
      chunk_(chunk),
      r_(forward.program, Recorder::Mode::kForward) {
  for (const StageParameter& p : parameters_of(a_, job_, chunk_)) {
    Value value = r_.persistent(Layout::contiguous(p.shape), dtype(), Category::kParameter,
                                f_.program.module(p.name), true);
    f_.program.parameters.push_back(value.id());
    parameters_[p.name] = std::move(value);
  }
}

DType Writer::dtype() const { return dtype_of(settings().precision); }

Writer::Checkpoint::Checkpoint(Writer& writer, std::string_view name, const Value& hidden, const Value& mask)
    : writer_(writer) {
  Program& p = writer.f_.program;
  Region region{.kind = RegionKind::kBlock,
                .module = p.module(name),
                .arguments = {hidden.id()},
                .checkpoint = plimsoll::Checkpoint::kReentrant};
  if (mask) {  // saved whether the call reads it or not
    region.arguments.push_back(mask.id());
    region.keywords.push_back(mask.id());
  }
  p.regions.push_back(std::move(region));
  region_ = RegionId{static_cast<uint32_t>(p.regions.size() - 1)};
  writer.checkpoint_begins_ = static_cast<uint32_t>(p.statements.size());
  writer.r_.begin(region_);
}
Writer::Checkpoint::~Checkpoint() {
  writer_.r_.end(region_);
  writer_.checkpoint_begins_.reset();
}
void Writer::Checkpoint::set_result(const Value& hidden) const {
  writer_.f_.program.regions[region_.value].results = {hidden.id()};
}

Value Writer::parameter(std::string_view name) const {
  const auto found = parameters_.find(path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name));
  return found == parameters_.end() ? Value() : found->second;
}

Value Writer::made_once(std::string_view name, const Layout& layout, DType dtype) {
  Value& value = made_[std::string(name)];
  if (!value) {
    value = r_.persistent(layout, dtype, Category::kBuffer, f_.program.module(name));
    f_.made_once.push_back({.statement = next_statement(), .tensor = value.id()});
  }
  return value;
}

Value Writer::global_buffer(const Layout& layout) {
  if (global_buffer_ && global_buffer_.layout().elements() >= layout.elements()) return global_buffer_;
  made_.erase("global_memory_buffer.mpu");
  global_buffer_ = made_once("global_memory_buffer.mpu", layout, dtype());
  return global_buffer_;
}

void Writer::keep(const Value& value) {
  // Within a checkpoint the call is repeated in the backward, and what it holds with it.
  if (checkpoint_begins_) return;
  f_.kept.push_back({.statement = static_cast<uint32_t>(f_.program.statements.size()), .tensor = value.id()});
}

Value Writer::dummy_gradient() { return dummy_gradient_of(parameter("weight")); }

Value Writer::dummy_gradient_of(const Value& weight) {
  if (!settings().fuses_weight_gradients) return {};
  const std::string name = fmt::format("dummy_wgrad.{}x{}", weight.size(0), weight.size(1));
  return made_once(name, Layout::contiguous(weight.layout().shape()), weight.dtype());
}

void Writer::made_once(MadeOnce::Kind kind, std::optional<OpKind> after) {
  if (!made_by_libraries_.insert(kind).second) return;
  const Program& p = f_.program;
  uint32_t statement = next_statement();
  const auto is_it = [&](const Statement& s) {
    return s.kind == StatementKind::kOp && p.ops[s.index].kind == *after;
  };
  if (checkpoint_begins_) after.reset();
  while (after && statement > 0 && !is_it(p.statements[statement - 1])) --statement;
  f_.made_once.push_back({.kind = kind, .statement = statement});
}

}  // namespace plimsoll::megatron
