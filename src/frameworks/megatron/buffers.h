// Where each parameter lies in the contiguous buffers of parameters and gradients, and which part of a bucket
// each data-parallel rank's optimizer owns.
//
//   reverse registration order ->  | last ... | first |  buckets, each a multiple of the ranks with the
//                                                        distributed optimizer
//
// Source: megatron/core/distributed/param_and_grad_buffer.py, distributed_data_parallel.py,
// megatron/core/optimizer/{distrib_optimizer,param_layout}.py.
#pragma once

#include <vector>

#include "frameworks/megatron/stage.h"

namespace plimsoll::megatron {

struct BufferRange {
  int64_t first = 0, last = 0;  // elements, half open
  int64_t size() const { return last - first; }
};

struct BufferLayout {
  std::vector<BufferRange> parameters;  // as the parameters were given
  std::vector<BufferRange> buckets;
  int64_t elements() const { return buckets.empty() ? 0 : buckets.back().last; }
};

// `has_buckets`: gradients are reduced while the backward runs; otherwise everything is one bucket.
// `ranks`: of the parameters' data-parallel group.
BufferLayout buffer_layout(const std::vector<StageParameter>& parameters, const ResolvedJob& job,
                           bool has_buckets, int64_t ranks);

// The part of each parameter that one of `ranks` owns, relative to the buffer; empty where it owns none.
std::vector<BufferRange> owned_ranges(const BufferLayout& layout, int64_t rank, int64_t ranks);

}  // namespace plimsoll::megatron
