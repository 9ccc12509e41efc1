// The strings that a snapshot's dicts are told by, with fixed numbers in the reader's string table.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace plimsoll {

enum class SnapshotKey : uint32_t {
  kAction,
  kAddr,
  kDeviceFree,
  kSize,
  kStream,
  kTime,
  kFrames,
  kCompileContext,
  kUserMetadata,
  kPoolId,
  kName,
  kFilename,
  kLine,
  kAddress,
  kRequestedSize,
  kState,
  kHistory,
  kRealSize,
  kDevice,
  kTotalSize,
  kSegmentType,
  kSegmentPoolId,
  kIsExpandable,
  kBlocks,
  kStage,
  kSegments,
  kDeviceTraces,
  kAllocatorSettings,
  kExternalAnnotations,
  kHostSegments,
  kHostTraces,
  kCount
};

// In the order of SnapshotKey.
inline constexpr std::array<std::string_view, static_cast<size_t>(SnapshotKey::kCount)> kSnapshotKeys = {
    "action",
    "addr",
    "device_free",
    "size",
    "stream",
    "time_us",
    "frames",
    "compile_context",
    "user_metadata",
    "pool_id",
    "name",
    "filename",
    "line",
    "address",
    "requested_size",
    "state",
    "history",
    "real_size",
    "device",
    "total_size",
    "segment_type",
    "segment_pool_id",
    "is_expandable",
    "blocks",
    "stage",
    "segments",
    "device_traces",
    "allocator_settings",
    "external_annotations",
    "host_segments",
    "host_traces"};

}  // namespace plimsoll
