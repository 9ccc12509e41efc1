// Bounds on what a job may say: far beyond any real job, and small enough that products of two stay exact in
// 64 bits. They keep hostile input from costing time or memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace plimsoll {

inline constexpr int64_t kMaxRanks = int64_t{1} << 20;
inline constexpr int64_t kMaxSequence = int64_t{1} << 27;                // tokens
inline constexpr int64_t kMaxMicroBatch = int64_t{1} << 20;              // sequences
inline constexpr int64_t kMaxAccumulation = int64_t{1} << 20;            // micro-batches
inline constexpr int64_t kMaxGlobalBatch = int64_t{1} << 40;             // sequences
inline constexpr int64_t kMaxTokensPerForward = (int64_t{1} << 31) - 1;  // per rank: kernels count in 32 bits
inline constexpr int64_t kMaxLossChunks = 4096;
inline constexpr double kMaxBucketMebibytes = 1 << 20;
inline constexpr double kMaxClipNorm = 1e12;
inline constexpr int64_t kMaxSteps = int64_t{1} << 40;
inline constexpr int64_t kMaxThreads = 4096;
inline constexpr int64_t kMaxOffloadSize = int64_t{1} << 40;  // bytes

inline constexpr size_t kMaxJobFileBytes = size_t{1} << 20;
inline constexpr size_t kMaxTextBytes = 4096;       // of a text field
inline constexpr size_t kMaxListItems = 256;        // of a list field
inline constexpr size_t kMaxOverrides = 256;        // keys of model.overrides
inline constexpr size_t kMaxOverrideBytes = 65536;  // of one value as JSON
inline constexpr int kMaxOverrideDepth = 32;

}  // namespace plimsoll
