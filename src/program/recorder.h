// Writes a Program statement by statement, and counts who holds each tensor, as Python and autograd do.
//
//   Program program;
//   Recorder recorder(program, Recorder::Mode::kForward);
//   Value x = recorder.input({b, s, h}, DType::kBFloat16);
//   Value y = ops::silu(ops::linear(x, weight));   // program/ops.h
//   // y's last handle goes away: the recorder writes `drop` (forward) or, for the storage's last tensor,
//   `free` (complete)
//
// A Value is one reference, like a Python local: copying it is another reference, letting go of the last one
// is a statement of the program. Ops take Values by value and let go of them once the op is written, as a
// call lets go of its arguments. Not thread-safe. A Value must not outlive its Recorder.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "program/program.h"

namespace plimsoll {

class Recorder;

class Value {
 public:
  Value() = default;
  Value(const Value& other);
  Value(Value&& other) noexcept : recorder_(std::exchange(other.recorder_, nullptr)), id_(other.id_) {}
  Value& operator=(const Value& other);
  Value& operator=(Value&& other) noexcept;
  ~Value() { reset(); }

  bool is_defined() const { return recorder_ != nullptr; }
  explicit operator bool() const { return is_defined(); }
  void reset();  // lets go

  TensorId id() const { return id_; }
  Recorder& recorder() const { return *recorder_; }
  const TensorInfo& info() const;
  const Layout& layout() const { return info().layout; }
  DType dtype() const { return info().dtype; }
  bool requires_grad() const { return info().requires_grad; }
  int rank() const { return layout().rank; }
  int64_t size(int dim) const { return layout().size(dim); }

 private:
  friend class Recorder;
  Value(Recorder* recorder, TensorId id) : recorder_(recorder), id_(id) {}
  Recorder* recorder_ = nullptr;
  TensorId id_;
};

class Recorder {
 public:
  enum class Mode { kForward, kComplete };
  Recorder(Program& program, Mode mode) : program_(program), mode_(mode) {}
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  Program& program() { return program_; }
  Mode mode() const { return mode_; }

  // ---- tensors ----
  struct Result {
    Layout layout;
    DType dtype = DType::kFloat32;
  };
  // A tensor that no op makes: a parameter, a buffer, an input. Its storage lives until `free_storage` or for
  // ever.
  Value persistent(const Layout& layout, DType dtype, Category category, ModuleId owner,
                   bool requires_grad = false);
  // Writes an op with one new storage per result. Lets go of the inputs afterwards.
  Value emit(OpKind kind, std::initializer_list<Value*> inputs, const Result& result,
             const Attributes& attributes = {});
  std::vector<Value> emit_many(OpKind kind, std::span<Value* const> inputs, std::span<const Result> results,
                               const Attributes& attributes = {});
  // Writes an op whose result shares the first input's storage; its dtype too unless another is given.
  Value emit_view(OpKind kind, Value& input, const Layout& layout, const Attributes& attributes = {},
                  std::optional<DType> dtype = std::nullopt);
  std::vector<Value> emit_views(OpKind kind, Value& input, std::span<const Layout> layouts,
                                const Attributes& a = {}, std::optional<DType> dtype = std::nullopt);
  // Writes an op that changes its first input; the result is the same storage.
  Value emit_in_place(OpKind kind, std::span<Value* const> inputs, const Attributes& attributes = {});
  Value emit_in_place(OpKind kind, std::initializer_list<Value*> inputs, const Attributes& attributes = {}) {
    return emit_in_place(kind, std::span<Value* const>(inputs.begin(), inputs.size()), attributes);
  }
  // Writes an op that gives memory to storages made by `persistent`; free_storage takes it back.
  void emit_allocation(OpKind kind, std::span<const TensorId> tensors);
  // Writes an op that only reads (a collective into existing buffers, an optimizer's update).
  OpId emit_effect(OpKind kind, std::span<const TensorId> inputs, const Attributes& attributes = {});
  // The same op as `op` of `source` on other inputs, with results laid out as there; outputs are appended.
  void replay(const Program& source, const Op& op, std::span<const TensorId> inputs,
              std::vector<Value>& outputs);
  void set_workspace(Bytes bytes) { program_.ops.back().workspace = bytes; }

  Value value(TensorId id) { return Value(this, retain(id)); }  // one more reference
  const TensorInfo& info(TensorId id) const { return program_.tensors[id.value]; }

  // ---- holders ----
  uint32_t tensor_references(TensorId id) const { return tensor_references_[id.value]; }
  uint32_t storage_references(StorageId id) const { return storage_references_[id.value]; }
  void retain_storage(StorageId id) { ++storage_references_[id.value]; }
  void release_storage(StorageId id, Holder holder);
  // Storages that strategies allocate and free by hand (resize_): writes the statement, the references stay.
  void free_storage(StorageId id, Holder holder);
  // Graphs that hear of every tensor's last reference going away, until they stop listening.
  using Listener = std::function<void(TensorId)>;
  size_t listen(Listener f);
  void stop_listening(size_t listener) { listeners_[listener] = nullptr; }

  // Is called once, right after the next op of that kind is written: what a library makes at its first call.
  void after_next(OpKind kind, std::function<void()> f) { after_next_ = {kind, std::move(f)}; }

  // ---- context of what is written next ----
  ModuleId module;
  Category category = Category::kActivation;
  Tier tier = Tier::kGpu;
  Stream stream = Stream::kCompute;
  Holder holder = Holder::kLocal;
  std::optional<OpKind> backward_of;
  bool is_grad_enabled = true;
  bool is_recomputed = false;

  // The program is complete: letting go of what is still held writes nothing more.
  void finish() { is_finished_ = true; }

  void begin(RegionId region) { statement(StatementKind::kBegin, region.value); }
  void end(RegionId region) { statement(StatementKind::kEnd, region.value); }

 private:
  friend class Value;
  TensorId retain(TensorId id) {
    ++tensor_references_[id.value];
    return id;
  }
  void release(TensorId id);
  void statement(StatementKind kind, uint32_t index, Holder h = Holder::kLocal) {
    program_.statements.push_back({.kind = kind, .holder = h, .index = index});
  }
  TensorId new_tensor(StorageId storage, const Layout& layout, DType dtype, bool requires_grad, bool is_view);
  StorageId new_storage(const Layout& layout, DType dtype);
  void call_after(OpKind kind) {
    if (!after_next_.second || after_next_.first != kind) return;
    const std::function<void()> f = std::exchange(after_next_.second, nullptr);
    f();
  }
  uint32_t begin_op(OpKind kind, std::span<const TensorId> inputs, const Attributes& attributes);
  bool result_requires_grad(OpKind kind, std::span<const TensorId> inputs, DType dtype) const;

  Program& program_;
  Mode mode_;
  bool is_finished_ = false;
  std::vector<uint32_t> tensor_references_;
  std::vector<uint32_t> storage_references_;  // live tensors of the storage and explicit holders
  std::pair<OpKind, std::function<void()>> after_next_;
  std::vector<Listener> listeners_;  // empty ones have stopped
};

// Sets a field of a Recorder for a scope: With module(recorder.module, program.module("model.norm"));
template <typename T>
class With {
 public:
  With(T& field, T value) : field_(field), saved_(std::exchange(field, std::move(value))) {}
  ~With() { field_ = std::move(saved_); }
  With(const With&) = delete;
  With& operator=(const With&) = delete;

 private:
  T& field_;
  T saved_;
};

// Value parameters that a function doesn't pass on: lets go of them when the function returns. Without it
// that moment is the compiler's choice, at the return or at the end of the caller's expression ([expr.call]).
class Arguments {
 public:
  Arguments(std::initializer_list<Value*> values) : values_(values) {}
  ~Arguments() {
    for (Value* value : values_) value->reset();
  }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

 private:
  std::vector<Value*> values_;
};

// Most Values that end hold nothing any more: they were moved from.
inline void Value::reset() {
  if (Recorder* const recorder = std::exchange(recorder_, nullptr)) recorder->release(id_);
}
inline const TensorInfo& Value::info() const { return recorder_->info(id_); }

}  // namespace plimsoll
