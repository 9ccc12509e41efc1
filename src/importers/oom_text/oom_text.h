// Reads the text of PyTorch's out-of-memory errors out of a log, as people paste it: with a traceback around
// it, wrapped, from several ranks. Knows the sentences of PyTorch 1.0 to 2.13, of CUDA, HIP,
// XPU, NPU and MPS.
//
//   PLIMSOLL_TRY(messages, read_oom_text(text, "train.log"));
//   messages[0].tried;
//
// Errors: a text without such a message, a figure that is no size, too many messages. Bounded: kMostMessages
// different ones, sentences of a message within kLongestMessage bytes. Source:
// c10/cuda/CUDACachingAllocator.cpp, c10/xpu/XPUCachingAllocator.cpp, aten/src/ATen/mps/MPSAllocator.mm,
// c10/cuda/CUDAMallocAsyncAllocator.cpp in their versions:
//   1.0   Tried to allocate A (GPU 0; B total capacity; C already allocated; D free; E cached)
//   1.5   ... D free; [F allowed; ]G reserved in total by PyTorch)
//   2.1   Tried to allocate A. GPU 0 has a total capac[i]ty of B of which D is free. [Process P has H memory
//   in
//         use. ]*[Including non-PyTorch memory, this process has I memory in use. ][F allowed; ]Of the
//         allocated memory C is allocated by PyTorch, [with J allocated in private pools (e.g., CUDA Graphs),
//         ]and K is reserved by PyTorch but unallocated.
//   MPS   (MPS allocated: A, other allocations: B, max allowed: C). Tried to allocate D on private pool.
//   async (out of memory) Currently allocated : A Requested : B Device limit : C Free (according to CUDA): D
//         PyTorch limit (set by user-supplied memory fraction) : E
// Errors that give no account of memory are memory_failures.h's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "trace/out_of_memory_message.h"

namespace plimsoll {

inline constexpr size_t kMostOomMessages = 4096;
inline constexpr size_t kLongestOomMessage = 8192;

// Whether a message begins in these bytes.
bool sniff_oom_text(std::string_view text);
// Different messages in their order; equal ones are counted. None where each is cut before its size.
Result<std::vector<OutOfMemoryMessage>> read_oom_text(std::string_view text, const std::string& file);

}  // namespace plimsoll
