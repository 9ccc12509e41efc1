// Reads the data-only part of Python's pickle, protocols 2 to 5, as a stream and without running anything:
// dicts, lists, tuples, strings, numbers, booleans, None. Any other opcode ends the reading with an error
// that names it and its byte, before anything behind it is read.
//
// What a dict or list becomes is the sink's to say, as soon as it has its items: an object of the sink's own
// stands for it from then on, and its own memory is used again. So millions of small dicts need no
// more than what the sink keeps of them.
//
//   class Sink : public PickleSink { ... };
//   PickleReader reader(source, "snapshot.pickle", sink);
//   PLIMSOLL_TRY(root, reader.read());
//
// Bounded: nesting, values in flight, containers alive, distinct strings (kMost...). Not done: dicts that get
// items after they have become part of something, memo entries of a container that the sink has taken.
// Source: Lib/pickletools.py of Python 3.12; torch/csrc/jit/serialization/pickler.cpp (the writer in C++).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "importers/byte_source.h"
#include "importers/torch_snapshot/pickle_containers.h"
#include "importers/torch_snapshot/pickle_stack.h"
#include "importers/torch_snapshot/pickle_value.h"
#include "importers/torch_snapshot/string_table.h"

namespace plimsoll {

class PickleReader;

class PickleSink {
 public:
  virtual ~PickleSink() = default;
  // A dict's keys and values, alternating. The object that stands for it, or nothing: it stays a dict.
  virtual Result<std::optional<PickleValue>> take_dict(PickleReader& reader,
                                                       std::span<const PickleValue> items) = 0;
  // The same of a list's items. A list that it leaves isn't asked about again, however long it becomes.
  virtual std::optional<PickleValue> take_list(std::span<const PickleValue> items) = 0;
  // Whether objects of this type come in lists of consecutive ids, and are never used twice.
  virtual bool is_sequenced(uint8_t type) const = 0;
};

class PickleReader {
 public:
  static constexpr size_t kMostNested = 1000;
  static constexpr size_t kMostValues = size_t{1} << 25;      // in flight, or in containers
  static constexpr size_t kMostContainers = size_t{1} << 20;  // alive at a time
  static constexpr size_t kMostStrings = size_t{1} << 24;
  static constexpr size_t kMostPairs = size_t{1} << 20;  // different ones, and numbers in the memo

  // All must outlive the reader. The strings may already hold what the sink looks for.
  PickleReader(ByteSource& source, std::string file, StringTable& strings, PickleSink& sink);

  Result<PickleValue> read();

  // For the sink:
  std::string_view string(const PickleValue& v) const { return strings_.text(v.id); }
  std::span<const PickleValue> items(const PickleValue& list_or_dict) const {  // of a stale one none
    const PickleContainer* const container = find(list_or_dict);
    return container ? std::span<const PickleValue>(container->items) : std::span<const PickleValue>();
  }
  std::optional<ObjectRange> objects(const PickleValue& list) const {  // of a list of sequenced objects
    const PickleContainer* const container = find(list);
    return container ? container->range : std::nullopt;
  }
  std::pair<int64_t, int64_t> pair(const PickleValue& v) const { return pairs_[v.id]; }
  std::optional<double> share_read() const { return source_.share_read(); }  // of the file
  // An error at the byte that is being read.
  tl::unexpected<Error> fail_here(std::string message, std::string expected = {},
                                  std::string hint = {}) const;

  // Called now and then with the bytes read.
  std::function<void(uint64_t)> on_progress;

 private:
  const PickleContainer* find(const PickleValue& v) const {
    return v.is_container() ? containers_.find(v) : nullptr;
  }
  bool begin();
  void move_values();
  bool step(uint8_t opcode);
  bool step_container(uint8_t opcode);
  bool step_rare(uint8_t opcode);
  bool refuse(uint8_t opcode);
  bool fail_with(std::string message, std::string expected = {}, std::string hint = {});
  bool ends_early();
  bool fetch(size_t count) { return (!source_.is_overrun() && source_.ensure(count)) || ends_early(); }

  // An operand: the next bytes as a little-endian number. At most kMargin of them in one step, opcode
  // included; those behind the end of the bytes are zero, which is found when the step is done.
  template <typename T>
  T take();

  bool make_room();
  bool push(PickleKind kind, uint32_t id, int64_t integer) { return stack_.push(kind, id, integer), true; }
  bool push_string(uint64_t length);
  bool push_long(size_t length);
  bool push_container(PickleKind kind);
  bool push_mark();
  bool make_tuple(size_t begin);
  bool make_pair(size_t begin);
  bool is_last_pair(const PickleValue& first, const PickleValue& second) const {
    return first.kind == PickleKind::kInt && second.kind == PickleKind::kInt && !pairs_.empty() &&
           pairs_[last_pair_] == std::pair(first.integer, second.integer);
  }
  bool get(uint64_t index);
  bool put(uint64_t index);
  bool pop_mark(size_t& begin);
  bool append(size_t begin);
  bool set_items(size_t begin);
  void take_long_lists(size_t begin);
  void become(size_t at, const PickleValue& object);
  bool joins(const PickleValue& last, const PickleValue& object) const;
  bool add_to_list(PickleContainer& list, std::span<const PickleValue> values);

  ByteSource& source_;
  std::string file_;
  StringTable& strings_;
  PickleSink& sink_;
  uint64_t opcode_at_ = 0;
  PickleStack stack_;
  std::vector<size_t> marks_;
  PickleContainers containers_;
  std::vector<std::pair<int64_t, int64_t>> pairs_;
  std::map<std::pair<int64_t, int64_t>, uint32_t> pair_ids_;
  uint32_t last_pair_ = 0;
  bool has_long_lists_ = false;  // of kBatch items or more
  std::optional<Error> error_;
};

}  // namespace plimsoll
