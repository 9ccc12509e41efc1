#include "program/recorder.h"

#include <algorithm>
#include <cassert>

#include "program/op_table.h"

namespace plimsoll {

Value::Value(const Value& other) : recorder_(other.recorder_), id_(other.id_) {
  if (recorder_) recorder_->retain(id_);
}

Value& Value::operator=(const Value& other) {
  if (this == &other) return *this;
  Value copy(other);
  return *this = std::move(copy);
}

Value& Value::operator=(Value&& other) noexcept {
  if (this == &other) return *this;
  Recorder* const old_recorder = recorder_;
  const TensorId old_id = id_;
  recorder_ = std::exchange(other.recorder_, nullptr);
  id_ = other.id_;
  if (old_recorder) old_recorder->release(old_id);
  return *this;
}

TensorId Recorder::new_tensor(StorageId storage, const Layout& layout, DType dtype, bool requires_grad,
                              bool is_view) {
  program_.tensors.push_back({.storage = storage,
                              .dtype = dtype,
                              .requires_grad = requires_grad,
                              .is_view = is_view,
                              .layout = layout});
  tensor_references_.push_back(0);
  ++storage_references_[storage.value];
  return TensorId{static_cast<uint32_t>(program_.tensors.size() - 1)};
}

StorageId Recorder::new_storage(const Layout& layout, DType dtype) {
  program_.storages.push_back({.bytes = Bytes{layout.elements()} * bytes_of(dtype),
                               .category = category,
                               .tier = tier,
                               .owner = module});
  storage_references_.push_back(0);
  return StorageId{static_cast<uint32_t>(program_.storages.size() - 1)};
}

void Recorder::release(TensorId id) {
  if (--tensor_references_[id.value] > 0 || is_finished_) return;
  if (mode_ == Mode::kForward) {
    statement(StatementKind::kDrop, id.value);
    return;
  }
  release_storage(program_.tensors[id.value].storage, holder);
  for (const Listener& listener : listeners_)
    if (listener) listener(id);
}

size_t Recorder::listen(Listener f) {
  const auto free_place = std::ranges::find_if(listeners_, [](const Listener& l) { return !l; });
  if (free_place == listeners_.end()) {
    listeners_.push_back(std::move(f));
    return listeners_.size() - 1;
  }
  *free_place = std::move(f);
  return static_cast<size_t>(free_place - listeners_.begin());
}

void Recorder::release_storage(StorageId id, Holder last) {
  assert(storage_references_[id.value] > 0);
  if (--storage_references_[id.value] == 0) statement(StatementKind::kFree, id.value, last);
}

void Recorder::free_storage(StorageId id, Holder last) { statement(StatementKind::kFree, id.value, last); }

bool Recorder::result_requires_grad(OpKind kind, std::span<const TensorId> inputs, DType dtype) const {
  if (!is_grad_enabled || !is_floating(dtype) || !op_row(kind).is_differentiable) return false;
  for (TensorId input : inputs)
    if (program_.tensors[input.value].requires_grad) return true;
  return false;
}

uint32_t Recorder::begin_op(OpKind kind, std::span<const TensorId> inputs, const Attributes& attributes) {
  Op op{.kind = kind,
        .stream = stream,
        .is_recomputed = is_recomputed,
        .module = module,
        .backward_of = backward_of};
  op.first_input = static_cast<uint32_t>(program_.operands.size());
  op.input_count = static_cast<uint32_t>(inputs.size());
  program_.operands.insert(program_.operands.end(), inputs.begin(), inputs.end());
  op.first_output = static_cast<uint32_t>(program_.operands.size());
  op.attributes = program_.add_attributes(attributes);
  program_.ops.push_back(op);
  const auto id = static_cast<uint32_t>(program_.ops.size() - 1);
  statement(StatementKind::kOp, id);
  return id;
}

Value Recorder::persistent(const Layout& layout, DType dtype, Category c, ModuleId owner,
                           bool requires_grad) {
  const With<Category> with_category(category, c);
  const With<ModuleId> with_module(module, owner);
  const StorageId storage = new_storage(layout, dtype);
  retain_storage(storage);
  return value(new_tensor(storage, layout, dtype, requires_grad, false));
}

namespace {

std::vector<TensorId> ids_of(std::span<Value* const> values) {
  std::vector<TensorId> ids;
  ids.reserve(values.size());
  for (const Value* v : values)
    if (v->is_defined()) ids.push_back(v->id());
  return ids;
}

void let_go(std::span<Value* const> values) {
  for (Value* v : values) v->reset();
}

}  // namespace

Value Recorder::emit(OpKind kind, std::initializer_list<Value*> inputs, const Result& result,
                     const Attributes& a) {
  return std::move(emit_many(kind, {inputs.begin(), inputs.size()}, {&result, 1}, a)[0]);
}

std::vector<Value> Recorder::emit_many(OpKind kind, std::span<Value* const> inputs,
                                       std::span<const Result> results, const Attributes& attributes) {
  const std::vector<TensorId> ids = ids_of(inputs);
  const uint32_t op = begin_op(kind, ids, attributes);
  std::vector<Value> values;
  values.reserve(results.size());
  for (const Result& result : results) {
    const bool requires_grad = result_requires_grad(kind, ids, result.dtype);
    const TensorId id = new_tensor(new_storage(result.layout, result.dtype), result.layout, result.dtype,
                                   requires_grad, false);
    program_.operands.push_back(id);
    values.push_back(value(id));
  }
  program_.ops[op].output_count = static_cast<uint32_t>(results.size());
  call_after(kind);
  let_go(inputs);
  return values;
}

Value Recorder::emit_view(OpKind kind, Value& input, const Layout& layout, const Attributes& attributes,
                          std::optional<DType> dtype) {
  return std::move(emit_views(kind, input, {&layout, 1}, attributes, dtype)[0]);
}

std::vector<Value> Recorder::emit_views(OpKind kind, Value& input, std::span<const Layout> layouts,
                                        const Attributes& a, std::optional<DType> dtype) {
  const TensorId base = input.id();
  const uint32_t op = begin_op(kind, {&base, 1}, a);
  std::vector<Value> values;
  values.reserve(layouts.size());
  for (const Layout& layout : layouts) {
    const TensorInfo info = program_.tensors[base.value];
    const bool requires_grad = result_requires_grad(kind, {&base, 1}, info.dtype);
    const bool is_view = kind != OpKind::kDetach && kind != OpKind::kUnsafeView;
    const TensorId id =
        new_tensor(info.storage, layout, dtype.value_or(info.dtype), requires_grad, is_view || info.is_view);
    program_.operands.push_back(id);
    values.push_back(value(id));
  }
  program_.ops[op].output_count = static_cast<uint32_t>(layouts.size());
  input.reset();
  return values;
}

Value Recorder::emit_in_place(OpKind kind, std::span<Value* const> all, const Attributes& attributes) {
  const std::vector<TensorId> ids = ids_of(all);
  const uint32_t op = begin_op(kind, ids, attributes);
  const TensorInfo info = program_.tensors[ids[0].value];
  const bool requires_grad = result_requires_grad(kind, ids, info.dtype);
  const TensorId id = new_tensor(info.storage, info.layout, info.dtype, requires_grad, info.is_view);
  program_.operands.push_back(id);
  program_.ops[op].output_count = 1;
  Value result = value(id);
  let_go(all);
  return result;
}

void Recorder::emit_allocation(OpKind kind, std::span<const TensorId> tensors) {
  const uint32_t op = begin_op(kind, {}, {});
  program_.operands.insert(program_.operands.end(), tensors.begin(), tensors.end());
  program_.ops[op].output_count = static_cast<uint32_t>(tensors.size());
}

OpId Recorder::emit_effect(OpKind kind, std::span<const TensorId> inputs, const Attributes& attributes) {
  return OpId{begin_op(kind, inputs, attributes)};
}

void Recorder::replay(const Program& source, const Op& op, std::span<const TensorId> inputs,
                      std::vector<Value>& outputs) {
  const uint32_t id = begin_op(op.kind, inputs, source.attributes_of(op));
  program_.ops[id].workspace = op.workspace;
  const bool shares = shares_input_storage(op.kind);
  const bool wants_gradient = is_grad_enabled && std::ranges::any_of(inputs, [&](TensorId t) {
                                return program_.tensors[t.value].requires_grad;
                              });
  const OpRow& row = op_row(op.kind);
  for (size_t k = 0; k < op.output_count; ++k) {
    TensorInfo model = source.tensor(source.outputs(op)[k]);
    if (!wants_gradient && row.is_for_gradient(k))
      model.layout.sizes[static_cast<size_t>(model.layout.rank - 1)] = 0;
    const bool requires_grad = is_grad_enabled && model.requires_grad;
    StorageId storage;
    if (shares) {
      storage = program_.tensors[inputs[0].value].storage;
    } else {
      const With<Category> with_category(category, source.storage_of(source.outputs(op)[k]).category);
      storage = new_storage(model.layout, model.dtype);
    }
    const TensorId made = new_tensor(storage, model.layout, model.dtype, requires_grad, model.is_view);
    program_.operands.push_back(made);
    outputs.push_back(value(made));
  }
  program_.ops[id].output_count = op.output_count;
}

}  // namespace plimsoll
