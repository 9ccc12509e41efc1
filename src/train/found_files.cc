#include "train/found_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "train/checksum.h"

namespace plimsoll {

Result<std::string> found_text(const Corpus& corpus) {
  constexpr int64_t kWindowsRead = 8;
  const int64_t count = std::min(corpus.windows(), kWindowsRead);
  std::vector<int64_t> window(static_cast<size_t>(corpus.window_tokens()));
  uint32_t sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t stride = std::max<int64_t>(1, (corpus.windows() - 1) / std::max<int64_t>(1, count - 1));
    PLIMSOLL_CHECK(corpus.read(std::min(i * stride, corpus.windows() - 1), window));
    sum = checksum(std::as_bytes(std::span(window)), sum);
  }
  return fmt::format("{} tokens, fingerprint {:016x}, sample {}", corpus.tokens(), corpus.fingerprint(),
                     checksum_text(sum));
}

Result<std::string> found_text(const ModelWeights& weights) {
  constexpr uint64_t kBytesRead = 512;  // of each tensor
  std::vector<std::byte> first(kBytesRead);
  uint32_t sum = 0;
  for (const ModelTensor& tensor : weights.tensors()) {
    const StoredTensor& stored = tensor.stored;
    const std::string head =
        fmt::format("{} {} {}\n", stored.name, stored.type.name, fmt::join(stored.shape, ","));
    sum = checksum(std::as_bytes(std::span(head)), sum);
    const std::span<std::byte> to = std::span(first).first(std::min(kBytesRead, stored.bytes()));
    PLIMSOLL_CHECK(weights.read(tensor, 0, to));
    sum = checksum(to, sum);
  }
  return fmt::format("{} tensors of {} bytes, sample {}", weights.tensors().size(), weights.bytes(),
                     checksum_text(sum));
}

}  // namespace plimsoll
