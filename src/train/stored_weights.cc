#include "train/stored_weights.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace plimsoll {
namespace {

std::optional<at::ScalarType> readable_type(const StoredType& type) {
  if (type.dtype == DType::kFloat32) return at::kFloat;
  if (type.dtype == DType::kBFloat16) return at::kBFloat16;
  if (type.dtype == DType::kFloat16) return at::kHalf;
  return std::nullopt;
}

std::vector<std::string> names_of(const ParameterTensor& p) {
  std::vector<std::string> names{p.name};
  names.insert(names.end(), p.tied_names.begin(), p.tied_names.end());
  const size_t dot = p.name.find('.');
  const std::string_view body = std::string_view(p.name).substr(0, dot);
  if (body == "model" || body == "transformer") names.push_back(p.name.substr(dot + 1));
  return names;
}

const ModelTensor* find_any(const ModelWeights& weights, const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (const ModelTensor* found = weights.find(name)) return found;
  return nullptr;
}

// Old checkpoints hold the causal masks and rotary frequencies too.
bool is_known_buffer(std::string_view name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") || name.ends_with(".inv_freq");
}

Result<bool> are_equal(const ModelWeights& weights, const ModelTensor& a, const ModelTensor& b) {
  constexpr uint64_t kAtOnce = uint64_t{1} << 20;
  if (a.stored.type != b.stored.type || a.stored.shape != b.stored.shape) return false;
  std::vector<std::byte> of_a(kAtOnce), of_b(kAtOnce);
  for (uint64_t at = 0; at < a.stored.bytes(); at += kAtOnce) {
    const uint64_t count = std::min(kAtOnce, a.stored.bytes() - at);
    PLIMSOLL_CHECK(weights.read(a, at, std::span(of_a).first(count)));
    PLIMSOLL_CHECK(weights.read(b, at, std::span(of_b).first(count)));
    if (!std::equal(of_a.begin(), of_a.begin() + static_cast<std::ptrdiff_t>(count), of_b.begin()))
      return false;
  }
  return true;
}

// Under other names of the parameter, as files of torch.save() had them.
Result<void> check_copies(const ModelWeights& weights, const ModelTensor& first,
                          const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const ModelTensor* const copy = weights.find(name);
    if (copy == nullptr || copy == &first) continue;
    PLIMSOLL_TRY(is_equal, are_equal(weights, first, *copy));
    if (is_equal) continue;
    return fail(
        {.position = {.file = weights.file_of(*copy), .key = name},
         .message = fmt::format("differs from {}, with which it is one parameter by the configuration",
                                first.stored.name),
         .expected = "equal tensors, or one of them",
         .hint = "a model with a head of its own has model.overrides.tie_word_embeddings = false"});
  }
  return {};
}

Result<void> check_all(const ModelWeights& weights, const Architecture& a) {
  std::set<std::string_view> known;
  std::vector<std::vector<std::string>> names;
  names.reserve(a.parameters.size());
  for (const ParameterTensor& p : a.parameters) {
    names.push_back(names_of(p));
    const ModelTensor* const found = find_any(weights, names.back());
    if (found == nullptr)
      return fail({.position = {.file = weights.name()},
                   .message = fmt::format("the weights hold no tensor {}", fmt::join(names.back(), " or ")),
                   .expected = fmt::format("the {} tensors of {}", a.parameters.size(), a.class_name)});
    const std::string& file = weights.file_of(*found);
    if (found->stored.shape != p.shape)
      return fail({.position = {.file = file, .key = found->stored.name},
                   .message = fmt::format("has shape [{}]", fmt::join(found->stored.shape, ", ")),
                   .expected = fmt::format("[{}], as the configuration says", fmt::join(p.shape, ", "))});
    if (!readable_type(found->stored.type))
      return fail({.position = {.file = file, .key = found->stored.name},
                   .message = fmt::format("is of type {}", found->stored.type.name),
                   .expected = "F32, BF16 or F16"});
    PLIMSOLL_CHECK(check_copies(weights, *found, names.back()));
    for (const std::string& name : names.back()) known.insert(name);
  }
  for (const ModelTensor& t : weights.tensors())
    if (!known.contains(t.stored.name) && !is_known_buffer(t.stored.name))
      return fail({.position = {.file = weights.file_of(t), .key = t.stored.name},
                   .message = "is no tensor of the model",
                   .expected = fmt::format("those of {}, as the configuration says", a.class_name)});
  return {};
}

}  // namespace

Result<runtime::WeightSource> stored_weights(const ModelWeights& weights, const Architecture& architecture) {
  PLIMSOLL_CHECK(check_all(weights, architecture));
  return [&weights](const ParameterTensor& p, size_t, at::Tensor& to) -> Result<void> {
    const ModelTensor& tensor = *find_any(weights, names_of(p));
    const at::ScalarType type = *readable_type(tensor.stored.type);
    at::Tensor read =
        type == at::kFloat && to.is_contiguous() ? to : at::empty(p.shape, to.options().dtype(type));
    PLIMSOLL_CHECK(weights.read(
        tensor, 0, {static_cast<std::byte*>(read.mutable_data_ptr()), static_cast<size_t>(read.nbytes())}));
    if (!read.is_same(to)) to.copy_(read);
    return {};
  };
}

}  // namespace plimsoll
