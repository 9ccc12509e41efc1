#include "estimate/host_use.h"

#include <algorithm>

namespace plimsoll {
namespace {

constexpr Bytes kLargestFile{50'000'000'000};  // max_shard_size of Transformers 5.24
constexpr Bytes kCopiedAhead{10'000'000};      // per_thread_copy_ahead of FileSystemWriter

}  // namespace

SaveStaging save_staging(const Program& program, const MemoryTimeline& timeline, const ResolvedJob& job) {
  Bytes sum, largest;
  for (size_t i = 0; i < program.storages.size(); ++i) {
    const Storage& storage = program.storages[i];
    if (!timeline.is_live_at_end[i] || storage.category != Category::kParameter || storage.tier != Tier::kGpu)
      continue;
    sum += storage.bytes;
    largest = std::max(largest, storage.bytes);
  }
  if (job.engine == DataParallelEngine::kFsdp2)
    return {
        .bytes = largest + kCopiedAhead,
        .note =
            "save: a sharded checkpoint (torch.distributed.checkpoint), each rank writes its own shards one "
            "after another; a full state dict, gathered on rank 0, would need more"};
  return {
      .bytes = std::min(sum, kLargestFile),
      .note =
          "save: save_pretrained copies the parameters of one file (at most 50 GB) to the host, nothing new "
          "on the GPU; optimizer states are written one after another"};
}

}  // namespace plimsoll
