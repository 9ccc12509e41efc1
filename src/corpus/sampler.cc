#include "corpus/sampler.h"

#include <fmt/format.h>

#include <bit>
#include <cassert>

#include "corpus/mix.h"

namespace plimsoll {
namespace {

// One pass through the network: halves of `half_bits` each.
uint64_t scramble(uint64_t key, int half_bits, uint64_t value) {
  constexpr uint64_t kRounds = 8;
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  uint64_t left = value >> half_bits, right = value & mask;
  for (uint64_t round = 0; round < kRounds; ++round) {
    const uint64_t next = left ^ (mix(key ^ mix(right << 8 | round)) & mask);
    left = right;
    right = next;
  }
  return left << half_bits | right;
}

}  // namespace

int64_t permuted(uint64_t key, int64_t size, int64_t index) {
  assert(size > 0 && index >= 0 && index < size);
  const auto bits = static_cast<int>(std::bit_width(static_cast<uint64_t>(size) - 1));
  const int half_bits = (bits + 1) / 2;
  if (half_bits == 0) return 0;
  auto value = static_cast<uint64_t>(index);
  do {
    value = scramble(key, half_bits, value);
  } while (value >= static_cast<uint64_t>(size));
  return static_cast<int64_t>(value);
}

Result<Sampler> Sampler::make(const SamplerOptions& options) {
  constexpr int64_t kMost = int64_t{1} << 62;
  if (options.windows < 1 || options.windows > kMost)
    return fail({.position = {},
                 .message = fmt::format("there are {} windows to train on", options.windows),
                 .expected = "1 to 2^62"});
  constexpr int64_t kLargestBatch = int64_t{1} << 40;
  if (options.global_batch < 1 || options.global_batch > kLargestBatch)
    return fail({.position = {},
                 .message = fmt::format("the global batch is {}", options.global_batch),
                 .expected = fmt::format("1 to {} rows", kLargestBatch)});
  return Sampler(options);
}

int64_t Sampler::sample(int64_t step, int64_t row) const {
  assert(step >= 0 && row >= 0 && row < options_.global_batch);
  return position_ + step * options_.global_batch + row;
}

int64_t Sampler::epoch(int64_t step, int64_t row) const { return sample(step, row) / options_.windows; }

int64_t Sampler::window(int64_t step, int64_t row) const {
  const int64_t index = sample(step, row) % options_.windows;
  if (!options_.shuffled) return index;
  const uint64_t key = mix(mix(options_.seed) + static_cast<uint64_t>(epoch(step, row)));
  return permuted(key, options_.windows, index);
}

Result<BatchShape> BatchShape::make(const BatchShapeOptions& options) {
  const auto refuse = [&] {
    return fail(
        {.position = {},
         .message = fmt::format("a global batch of {} can't be cut into {} ranks x micro-batches of {}",
                                options.global_batch, options.ranks, options.micro_batch),
         .expected = "global batch = ranks x micro-batch x accumulation, all from 1 on"});
  };
  constexpr int64_t kMost = int64_t{1} << 40;
  for (const int64_t factor : {options.global_batch, options.ranks, options.micro_batch})
    if (factor < 1 || factor > kMost) return refuse();
  if (options.global_batch % options.ranks != 0) return refuse();
  const int64_t rows_of_rank = options.global_batch / options.ranks;
  if (rows_of_rank % options.micro_batch != 0) return refuse();
  return BatchShape{.ranks = options.ranks,
                    .micro_batch = options.micro_batch,
                    .accumulation = rows_of_rank / options.micro_batch};
}

}  // namespace plimsoll
