// Laws of the order of training: every window once an epoch, and the same batch however it is cut.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "corpus/mix.h"
#include "corpus/sampler.h"

namespace plimsoll {
namespace {

RC_GTEST_PROP(SamplerLaw, AnEpochIsEveryWindowOnce, ()) {
  const int64_t windows = *rc::gen::inRange<int64_t>(1, 2000);
  const int64_t batch = *rc::gen::inRange<int64_t>(1, 2 * windows + 1);
  const auto seed = *rc::gen::arbitrary<uint64_t>();
  auto sampler = Sampler::make({.seed = seed, .windows = windows, .global_batch = batch});
  RC_ASSERT(sampler.has_value());
  const int64_t epoch = *rc::gen::inRange<int64_t>(0, 5);
  std::vector<bool> is_seen(static_cast<size_t>(windows), false);
  for (int64_t sample = epoch * windows; sample < (epoch + 1) * windows; ++sample) {
    RC_ASSERT(sampler->epoch(sample / batch, sample % batch) == epoch);
    const int64_t window = sampler->window(sample / batch, sample % batch);
    RC_ASSERT(window >= 0 && window < windows);
    RC_ASSERT(!is_seen[static_cast<size_t>(window)]);
    is_seen[static_cast<size_t>(window)] = true;
  }
}

RC_GTEST_PROP(SamplerLaw, LargePermutationsDontCollide, ()) {
  const int64_t size = int64_t{1} << *rc::gen::inRange(20, 62) | *rc::gen::inRange(0, 1 << 20);
  const auto key = *rc::gen::arbitrary<uint64_t>();
  std::set<int64_t> indices, images;
  for (const uint64_t any : *rc::gen::arbitrary<std::vector<uint64_t>>())
    indices.insert(static_cast<int64_t>(mix(any) % static_cast<uint64_t>(size)));
  for (const int64_t index : indices) images.insert(permuted(key, size, index));
  RC_ASSERT(images.size() == indices.size());
  for (const int64_t image : images) RC_ASSERT(image >= 0 && image < size);
}

RC_GTEST_PROP(SamplerLaw, ABatchIsTheSameForEveryCut, ()) {
  const int64_t ranks = *rc::gen::inRange<int64_t>(1, 9), micro_batch = *rc::gen::inRange<int64_t>(1, 5);
  const int64_t accumulation = *rc::gen::inRange<int64_t>(1, 5);
  const int64_t batch = ranks * micro_batch * accumulation;
  const auto shape = BatchShape::make({.global_batch = batch, .ranks = ranks, .micro_batch = micro_batch});
  RC_ASSERT(shape.has_value());
  RC_ASSERT(shape->accumulation == accumulation);
  std::vector<int64_t> rows;
  for (int64_t rank = 0; rank < ranks; ++rank)
    for (int64_t step = 0; step < accumulation; ++step)
      for (int64_t row = 0; row < micro_batch; ++row) rows.push_back(shape->row(rank, step, row));
  std::sort(rows.begin(), rows.end());
  for (int64_t row = 0; row < batch; ++row) RC_ASSERT(rows[static_cast<size_t>(row)] == row);
}

RC_GTEST_PROP(SamplerLaw, ResumedIsUninterrupted, ()) {
  const SamplerOptions options{.seed = *rc::gen::arbitrary<uint64_t>(),
                               .windows = *rc::gen::inRange<int64_t>(1, 1000),
                               .global_batch = *rc::gen::inRange<int64_t>(1, 50),
                               .shuffled = *rc::gen::arbitrary<bool>()};
  const auto whole = Sampler::make(options);
  auto resumed = Sampler::make(options);
  const int64_t steps = *rc::gen::inRange<int64_t>(0, 100), more = *rc::gen::inRange<int64_t>(0, 100);
  resumed->seek(whole->position_after(steps));
  const int64_t row = *rc::gen::inRange<int64_t>(0, options.global_batch);
  RC_ASSERT(resumed->window(more, row) == whole->window(steps + more, row));
}

}  // namespace
}  // namespace plimsoll
