// Makes allocation traces of the dicts of a snapshot as they are read: a frame, a trace entry, a block, a
// segment, an annotation each becomes an entry of a table, the outermost dict the snapshot itself.
//
// Invariant: entries of a list have consecutive numbers, so that a list of them is a range.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "importers/torch_snapshot/pickle_reader.h"
#include "importers/torch_snapshot/snapshot_fields.h"
#include "importers/torch_snapshot/torch_snapshot.h"
#include "trace/hash_index.h"

namespace plimsoll {

class SnapshotBuilder final : public PickleSink {
 public:
  // Adds its keys to the still empty table.
  explicit SnapshotBuilder(StringTable& strings);

  Result<std::optional<PickleValue>> take_dict(PickleReader& reader,
                                               std::span<const PickleValue> items) override;
  std::optional<PickleValue> take_list(std::span<const PickleValue> items) override;
  bool is_sequenced(uint8_t type) const override { return type >= kEvent; }
  // REQUIRES the reader has ended with this value.
  Result<TorchSnapshot> finish(const PickleReader& reader, const PickleValue& root);

 private:
  enum Type : uint8_t { kFrame, kStack, kPastBlock, kRoot, kEvent, kBlock, kSegment, kAnnotation };
  struct PastBlock {  // entry of `history`, before PyTorch 2.1
    Bytes requested;
    std::optional<StackId> stack;
  };
  using Fields = SnapshotFields;
  using Taken = Result<std::optional<PickleValue>>;

  Taken take_frame(const Fields& f);
  Taken take_event(const Fields& f);
  Taken take_past_block(const Fields& f);
  Taken take_block(const Fields& f);
  Taken take_segment(const Fields& f);
  Taken take_annotation(const Fields& f);
  Taken take_root(const Fields& f);

  Result<PoolIndex> pool_of(const Fields& f, SnapshotKey key);
  Result<void> check_range(const Fields& f, std::string_view what, uint64_t address, Bytes bytes);
  Result<void> take_blocks(const Fields& f, TraceSegment& segment) const;
  Result<void> take_frames(const Fields& f, std::optional<StackId>& stack);
  AllocationAction action_of(uint32_t string_id);
  Result<void> place_segments(const PickleReader& reader, const PickleValue& list);
  Result<void> place_traces(const PickleReader& reader, const PickleValue& lists);
  static Result<void> check_used_once(const std::vector<ObjectRange>& traces, const PickleReader& reader);
  void place_events(ObjectRange range, int64_t device);
  void place_annotations(const PickleReader& reader, const PickleValue& list);
  void place_named_moments(ObjectRange events, AllocationTrace& trace);
  void count_host_memory(const Fields& f);
  void read_settings(const PickleReader& reader, const PickleValue& dict);
  Result<AllocationTrace*> device(int64_t index, const PickleReader& reader);
  void count(const std::string& what, int64_t times = 1) { imperfections_[what] += times; }

  StringTable& strings_;
  uint32_t empty_string_ = 0;
  StackTable stacks_;
  std::vector<FrameId> frames_;  // of the stack that is being added
  std::vector<AllocationEvent> events_;
  Bytes all_bytes_;  // of events and segments
  std::vector<EventMetadata> metadata_;
  std::vector<size_t> named_moments_;  // events of kind user_defined, in PyTorch 2.4
  std::vector<TraceBlock> blocks_;
  std::vector<TraceSegment> segments_;
  std::vector<int64_t> segment_devices_;
  std::vector<TraceAnnotation> annotations_;
  std::vector<int64_t> annotation_devices_;
  std::vector<PastBlock> past_blocks_;
  std::vector<PoolId> pools_ = {{}};
  HashIndex pool_index_;  // of the private ones
  RecordedSettings settings_;
  std::map<int64_t, AllocationTrace> devices_;
  std::map<std::string, int64_t> imperfections_;
};

}  // namespace plimsoll
