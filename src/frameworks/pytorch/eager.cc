#include "frameworks/pytorch/eager.h"

#include <cassert>

#include "frameworks/pytorch/tensor_parallel.h"
#include "program/dims.h"

namespace plimsoll::pytorch {
DType buffer_dtype(const BufferTensor& buffer, DType model_dtype) {
  if (buffer.has_model_dtype) return model_dtype;
  if (buffer.is_complex) return DType::kComplex64;
  if (buffer.element_bytes == 1) return DType::kBool;
  if (buffer.element_bytes == 2) return DType::kBFloat16;
  return buffer.element_bytes == 8 ? DType::kInt64 : DType::kFloat32;
}

Eager::Eager(Recorder& recorder, const Architecture& architecture, const std::vector<bool>& trainable,
             EagerOptions options)
    : recorder_(recorder), architecture_(architecture), options_(options), autocast_(options.autocast) {
  Program& program = recorder_.program();
  for (size_t i = 0; i < architecture.parameters.size(); ++i) {
    const ParameterTensor& p = architecture.parameters[i];
    const DType dtype = p.is_float32 && !options_.has_one_dtype ? DType::kFloat32 : options_.parameter_dtype;
    const Value value = recorder_.persistent(Layout::contiguous(p.shape), dtype, Category::kParameter,
                                             program.module(p.name), trainable[i]);
    program.parameters.push_back(value.id());
    parameters_.emplace(p.name, value);
    for (const std::string& tied : p.tied_names) parameters_.emplace(tied, value);
  }
  for (const BufferTensor& b : architecture.buffers) {
    const Value value =
        recorder_.persistent(Layout::contiguous(b.shape), buffer_dtype(b, options_.loaded_dtype),
                             Category::kBuffer, program.module(b.name));
    buffer_ids_.push_back(value.id());
    buffers_.emplace(b.name, value);
  }
}

Eager::Module::Module(Eager& eager, std::string_view name)
    : eager_(eager),
      old_length_(eager.path_.size()),
      module_(eager.recorder_.module, eager.recorder_.module) {
  if (!eager.path_.empty()) eager.path_ += '.';
  eager.path_ += name;
  eager.recorder_.module = eager.recorder_.program().module(eager.path_);
}
Eager::Module::~Module() { eager_.path_.resize(old_length_); }

Value Eager::find(const std::unordered_map<std::string, Value>& table, std::string_view name) const {
  std::string full = path_;
  if (!full.empty()) full += '.';
  full += name;
  const auto found = table.find(full);
  return found == table.end() ? Value() : found->second;
}
Value Eager::parameter(std::string_view name) const { return find(parameters_, name); }
Value Eager::buffer(std::string_view name) const { return find(buffers_, name); }

Value Eager::made_once(std::string_view name, const Layout& layout, DType dtype) {
  const Module scope(*this, name);
  Value value = recorder_.persistent(layout, dtype, Category::kActivation, recorder_.module);
  made_once_ids_.push_back(value.id());
  return value;
}

Value Eager::linear(std::string_view module, const Value& x) {
  const Module scope(*this, module);
  Value weight = parameter("weight");
  assert(weight && "a linear module without weight");
  const LinearSplit split = options_.tensor_parallel > 1 ? split_of(module) : LinearSplit::kNone;
  Value input = split == LinearSplit::kColumns ? ops::with_partial_gradient(x) : x;
  Value output = linear_op(std::move(input), std::move(weight), parameter("bias"));
  return split == LinearSplit::kRows ? ops::functional_all_reduce(std::move(output)) : output;
}

Value Eager::conv1d(std::string_view module, const Value& x) {
  const Module scope(*this, module);
  std::vector<int64_t> sizes(x.layout().shape().begin(), x.layout().shape().end());
  Value weight = parameter("weight");
  sizes.back() = weight.size(1);
  Value flat = ops::view(x, {-1, x.size(-1)});
  return ops::view(addmm(parameter("bias"), std::move(flat), std::move(weight)), sizes);
}

Value Eager::embedding(std::string_view module, const Value& ids) {
  const Module scope(*this, module);
  return ops::embedding(parameter("weight"), ids);
}

Value Eager::layer_norm(std::string_view module, const Value& x) {
  const Module scope(*this, module);
  return layer_norm_op(x, parameter("weight"), parameter("bias"));
}

Value Eager::dropout(std::string_view module, const Value& x, double probability) {
  const Module scope(*this, module);
  return ops::dropout(x, dropout_probability(probability));
}

// Arguments are cast from the last to the first, as the compiler of PyTorch's wheels orders them.
Value Eager::linear_op(Value x, Value weight, Value bias) {
  const Arguments held{&x, &weight, &bias};
  const Value low_bias = bias ? low_precision(bias) : Value();
  const Value low_weight = low_precision(weight);
  const Value low_x = low_precision(x);
  return ops::linear(low_x, low_weight, low_bias);
}
Value Eager::matmul(Value a, Value b) {
  const Arguments held{&a, &b};
  const Value low_b = low_precision(b);
  const Value low_a = low_precision(a);
  return ops::matmul(low_a, low_b);
}
Value Eager::bmm(Value a, Value b) {
  const Arguments held{&a, &b};
  const Value low_b = low_precision(b);
  const Value low_a = low_precision(a);
  return ops::bmm(low_a, low_b);
}
Value Eager::baddbmm(Value c, Value a, Value b, double alpha) {
  const Arguments held{&c, &a, &b};
  const Value low_b = low_precision(b);
  const Value low_a = low_precision(a);
  const Value low_c = low_precision(c);
  return ops::baddbmm(low_c, low_a, low_b, alpha);
}
Value Eager::addmm(Value bias, Value a, Value b) {
  const Arguments held{&bias, &a, &b};
  const Value low_b = low_precision(b);
  const Value low_a = low_precision(a);
  const Value low_bias = low_precision(bias);
  return ops::addmm(low_bias, low_a, low_b);
}
Value Eager::layer_norm_op(Value x, Value weight, Value bias) {
  const Arguments held{&x, &weight, &bias};
  const Value full_bias = bias ? full_precision(bias) : Value();
  const Value full_weight = weight ? full_precision(weight) : Value();
  const Value full_x = full_precision(x);
  return ops::layer_norm(full_x, full_weight, full_bias);
}
Value Eager::softmax(Value x, int dim, std::optional<DType> dtype) {
  return ops::softmax(std::move(x), dim, dtype || !autocast_ ? dtype : DType::kFloat32);
}
Value Eager::log_softmax(Value x, int dim) {
  return ops::log_softmax(std::move(x), dim, autocast_ ? std::optional(DType::kFloat32) : std::nullopt);
}
Value Eager::pow(Value x, double exponent) {
  const Arguments held{&x};
  return ops::pow(full_precision(x), exponent);
}
Value Eager::sum(Value x, int dim, bool keep_dims) {
  const bool widens = autocast_ && is_half(x.dtype());
  const std::optional<DType> dtype = widens ? std::optional(DType::kFloat32) : std::nullopt;
  const uint32_t mask = dim_mask({dim}, x.rank());
  return ops::sum_mask(std::move(x), mask, keep_dims, dtype);
}
Value Eager::rsqrt(Value x) {
  const Arguments held{&x};
  return ops::unary(OpKind::kRsqrt, full_precision(x));
}

Value Eager::cat(std::vector<Value> parts, int dim) {
  return ops::cat(std::move(parts), dim);  // on none of autocast's lists: it promotes by itself
}

Value Eager::full_precision(Value x) {
  if (!autocast_ || !is_half(x.dtype())) return x;
  return ops::cast(std::move(x), DType::kFloat32);
}

void Eager::require_grad(const Value& x) {
  bool& requires_grad = recorder_.program().tensors[x.id().value].requires_grad;
  if (!requires_grad) leaves_.insert(x.id().value);
  requires_grad = true;
}

void Eager::clear_autocast_cache() {
  cache_.clear();
  cached_leaves_.clear();
}

// Source: cached_cast in aten/src/ATen/autocast_mode.cpp; the copy is made with a graph even under no_grad.
Value Eager::low_precision(Value x) {
  if (!autocast_ || x.dtype() == *autocast_ || !is_floating(x.dtype())) return x;
  const uint32_t key = x.id().value;
  const bool is_other_leaf = leaves_.contains(key);
  const bool is_parameter = recorder_.program().storage_of(x.id()).category == Category::kParameter &&
                            x.requires_grad() && !x.info().is_view;
  if (!is_parameter && !is_other_leaf) return ops::cast(std::move(x), *autocast_);
  if (const auto found = cache_.find(key); found != cache_.end()) return found->second;
  if (is_other_leaf) cached_leaves_.push_back(x);
  Value copy = ops::cast(std::move(x), *autocast_);
  cache_.emplace(key, copy);
  return copy;
}

}  // namespace plimsoll::pytorch
