// Host memory of one rank's process: a first ledger.
//
// Does not model: reading the weights, data loading, the page cache, page-locked copies of batches, files.
#pragma once

#include <string>
#include <vector>

#include "model/architecture.h"
#include "simulator/simulator.h"
#include "strategy/job.h"

namespace plimsoll {

// Python, PyTorch with its CUDA libraries, and Transformers, once each has been used. An estimate.
inline constexpr Bytes kProcessBaseline{int64_t{2} << 30};

struct SaveStaging {
  Bytes bytes;  // held on the host while the checkpoint is written
  std::string note;
};

// Single process and DDP: save_pretrained copies the tensors of one file, at most 50 GB, to the host
// (safetensors keeps them all until the file is written). FSDP2: each rank writes its own shards, one tensor
// after another (torch.distributed.checkpoint, FileSystemWriter). What was loaded and given up since (a tied
// head of its own, what is sharded) isn't written.
SaveStaging save_staging(const Program& program, const MemoryTimeline& timeline, const ResolvedJob& job);

}  // namespace plimsoll
