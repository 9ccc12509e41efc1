#include "frameworks/megatron/buffers.h"

#include <algorithm>
#include <numeric>

#include "base/block.h"

namespace plimsoll::megatron {
namespace {

// Source: pad_param_start and pad_bucket_end of param_layout.py.
constexpr int64_t kParameterAlignment = 64;
constexpr int64_t kBucketAlignment = 128;
// Source: DistributedDataParallel.__init__.
constexpr int64_t kSmallestBucket = 40'000'000;
constexpr int64_t kBucketPerRank = 1'000'000;

class LayoutBuilder {
 public:
  LayoutBuilder(const ResolvedJob& job, int64_t ranks, std::optional<int64_t> bucket_size)
      : is_distributed_(job.megatron->has_distributed_optimizer),
        bucket_alignment_(std::lcm(ranks, kBucketAlignment)),
        bucket_size_(bucket_size) {}

  BufferRange place(const StageParameter& p) {
    if (is_distributed_) next_ = round_up(next_, kParameterAlignment);
    const bool is_alone = is_distributed_ && p.is_shared;
    if (is_alone && has_parameters_) end_bucket();
    const BufferRange range{.first = next_, .last = next_ + p.elements()};
    next_ = range.last;
    has_parameters_ = true;
    const bool is_full = bucket_size_ && next_ - bucket_first_ >= *bucket_size_;
    if (is_full || is_alone) end_bucket();
    return range;
  }
  std::vector<BufferRange> buckets() {
    if (has_parameters_) end_bucket();
    return std::move(buckets_);
  }

 private:
  void end_bucket() {
    if (is_distributed_) next_ = round_up(next_, bucket_alignment_);
    buckets_.push_back({.first = bucket_first_, .last = next_});
    bucket_first_ = next_;
    has_parameters_ = false;
  }

  bool is_distributed_;
  int64_t bucket_alignment_;
  std::optional<int64_t> bucket_size_;
  int64_t next_ = 0, bucket_first_ = 0;
  bool has_parameters_ = false;
  std::vector<BufferRange> buckets_;
};

}  // namespace

BufferLayout buffer_layout(const std::vector<StageParameter>& parameters, const ResolvedJob& job,
                           bool has_buckets, int64_t ranks) {
  std::optional<int64_t> size;
  if (has_buckets) size = std::max(kSmallestBucket, kBucketPerRank * job.mesh.data * job.mesh.context);
  LayoutBuilder builder(job, ranks, size);
  BufferLayout layout{.parameters = std::vector<BufferRange>(parameters.size())};
  for (size_t i = parameters.size(); i-- > 0;) layout.parameters[i] = builder.place(parameters[i]);
  layout.buckets = builder.buckets();
  return layout;
}

std::vector<BufferRange> owned_ranges(const BufferLayout& layout, int64_t rank, int64_t ranks) {
  std::vector<BufferRange> owned(layout.parameters.size());
  for (const BufferRange& bucket : layout.buckets) {
    const int64_t part = bucket.size() / ranks, first = bucket.first + rank * part;
    for (size_t i = 0; i < owned.size(); ++i) {
      const BufferRange& p = layout.parameters[i];
      if (p.first < bucket.first || p.last > bucket.last) continue;
      owned[i] = {.first = std::max(p.first, first), .last = std::min(p.last, first + part)};
      if (owned[i].last <= owned[i].first) owned[i] = {};
    }
  }
  return owned;
}

}  // namespace plimsoll::megatron
