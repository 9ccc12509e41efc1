#include "runtime/communication/texts.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>

namespace plimsoll::runtime {
namespace {

// Communicators carry numbers: an all-gather moves their bits as they are.
Result<std::string> gather_bytes(Communicator& communicator, const std::string& own) {
  const auto words = static_cast<int64_t>((own.size() + sizeof(float) - 1) / sizeof(float));
  at::Tensor part = at::zeros({words}, at::TensorOptions(at::kFloat));
  at::Tensor whole = at::zeros({words * communicator.size()}, at::TensorOptions(at::kFloat));
  std::memcpy(part.mutable_data_ptr(), own.data(), own.size());
  PLIMSOLL_CHECK(communicator.all_gather(whole, part)->wait());
  return std::string(static_cast<const char*>(whole.const_data_ptr()), whole.nbytes());
}

}  // namespace

Result<std::vector<std::string>> gather_texts(Communicator& communicator, const std::string& own) {
  const auto ranks = static_cast<size_t>(communicator.size());
  uint64_t size = own.size();
  std::string size_bytes(sizeof size, '\0');
  std::memcpy(size_bytes.data(), &size, sizeof size);
  PLIMSOLL_TRY(all_sizes, gather_bytes(communicator, size_bytes));
  std::vector<uint64_t> sizes(ranks);
  std::memcpy(sizes.data(), all_sizes.data(), all_sizes.size());
  const uint64_t longest = *std::ranges::max_element(sizes);
  std::vector<std::string> texts(ranks);
  if (longest == 0) return texts;
  std::string padded = own;
  padded.resize((longest + sizeof(float) - 1) / sizeof(float) * sizeof(float), '\0');
  PLIMSOLL_TRY(all, gather_bytes(communicator, padded));
  for (size_t r = 0; r < ranks; ++r) texts[r] = all.substr(r * padded.size(), sizes[r]);
  return texts;
}

Result<void> meet(Communicator& communicator) {
  at::Tensor one = at::zeros({1}, at::TensorOptions(at::kFloat));
  return communicator.all_reduce(one)->wait();
}

}  // namespace plimsoll::runtime
