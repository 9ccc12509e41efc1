#include "importers/torch_snapshot/pickle_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "importers/torch_snapshot/pickle_opcodes.h"

namespace plimsoll {
namespace {

constexpr size_t kBatch = 1000;  // Python writes the items of larger containers in batches of so many
constexpr uint64_t kProgressEvery = uint64_t{8} << 20;  // bytes

uint64_t from_big_endian(uint64_t bytes) {
  static_assert(std::endian::native == std::endian::little);
  uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value = (value << 8U) | ((bytes >> (8 * i)) & 0xffU);
  return value;
}

}  // namespace

template <typename T>
T PickleReader::take() {
  T value;
  std::memcpy(&value, source_.take(sizeof(T)), sizeof(T));
  static_assert(std::endian::native == std::endian::little);
  return value;
}

PickleReader::PickleReader(ByteSource& source, std::string file, StringTable& strings, PickleSink& sink)
    : source_(source), file_(std::move(file)), strings_(strings), sink_(sink) {}

tl::unexpected<Error> PickleReader::fail_here(std::string message, std::string expected,
                                              std::string hint) const {
  return fail({.position = {.file = file_, .byte = opcode_at_},
               .message = std::move(message),
               .expected = expected.empty() ? "a pickle that Python or torch wrote" : std::move(expected),
               .hint = std::move(hint)});
}
bool PickleReader::fail_with(std::string message, std::string expected, std::string hint) {
  if (source_.is_overrun()) return ends_early();
  if (!error_) error_ = fail_here(std::move(message), std::move(expected), std::move(hint)).value();
  return false;
}
bool PickleReader::ends_early() {
  error_ = source_.error();
  if (error_) return false;
  opcode_at_ = source_.end_offset();
  error_ =
      fail_here("the pickle ends early", "more bytes, up to the opcode STOP", "was the file copied whole?")
          .value();
  return false;
}

bool PickleReader::begin() {
  source_.ensure(ByteSource::kMargin);
  constexpr auto kProto = static_cast<uint8_t>(PickleOpcode::kProto);
  if (take<uint8_t>() == kProto) return step_rare(kProto);
  return fail_with("is no pickle of protocol 2 to 5", "the opcode PROTO as the first byte",
                   "write it with torch.cuda.memory._dump_snapshot(\"snapshot.pickle\")");
}

Result<PickleValue> PickleReader::read() {
  if (!begin()) return tl::unexpected(*error_);
  uint64_t next_progress = kProgressEvery;
  while (true) {
    move_values();
    source_.ensure(ByteSource::kMargin);
    opcode_at_ = source_.offset();
    const uint8_t opcode = *source_.take(1);
    if (opcode == static_cast<uint8_t>(PickleOpcode::kStop)) break;
    if (stack_.is_full() && !make_room()) return tl::unexpected(*error_);
    if (!step(opcode)) return tl::unexpected(*error_);
    if (source_.is_overrun()) return ends_early(), tl::unexpected(*error_);
    if (opcode_at_ >= next_progress && on_progress) {
      on_progress(source_.consumed_of_file());
      next_progress = opcode_at_ + kProgressEvery;
    }
  }
  if (stack_.size() != 1 || !marks_.empty())
    return fail_here(fmt::format("the pickle stops with {} values", stack_.size()), "one value",
                     "was the file copied whole?");
  return stack_[0];
}

// Opcodes in the order of how often a trace has them.
inline bool PickleReader::step(uint8_t opcode) {
  switch (static_cast<PickleOpcode>(opcode)) {
    case PickleOpcode::kBinGet:
      return get(take<uint8_t>());
    case PickleOpcode::kLongBinGet:
      return get(take<uint32_t>());
    case PickleOpcode::kMemoize:
      return put(containers_.memo().next());
    case PickleOpcode::kBinPut:
      return put(take<uint8_t>());
    case PickleOpcode::kLongBinPut:
      return put(take<uint32_t>());
    case PickleOpcode::kBinInt1:
      return push(PickleKind::kInt, 0, take<uint8_t>());
    case PickleOpcode::kBinInt2:
      return push(PickleKind::kInt, 0, take<uint16_t>());
    case PickleOpcode::kBinInt:
      return push(PickleKind::kInt, 0, take<int32_t>());
    case PickleOpcode::kLong1:
      return push_long(take<uint8_t>());
    case PickleOpcode::kMark:
      return push_mark();
    case PickleOpcode::kEmptyDict:
      return push_container(PickleKind::kDict);
    case PickleOpcode::kEmptyList:
    case PickleOpcode::kEmptyTuple:
      return push_container(PickleKind::kList);
    case PickleOpcode::kShortBinUnicode:
      return push_string(take<uint8_t>());
    default:
      return step_container(opcode);
  }
}

bool PickleReader::step_container(uint8_t opcode) {
  size_t begin = 0;
  switch (static_cast<PickleOpcode>(opcode)) {
    case PickleOpcode::kSetItems:
      return pop_mark(begin) && set_items(begin);
    case PickleOpcode::kAppends:
      return pop_mark(begin) && append(begin);
    case PickleOpcode::kTuple:
      return pop_mark(begin) && make_tuple(begin);
    case PickleOpcode::kAppend:
      return append(std::max<size_t>(stack_.size(), 1) - 1);
    case PickleOpcode::kSetItem:
      return set_items(std::max<size_t>(stack_.size(), 2) - 2);
    case PickleOpcode::kTuple1:
    case PickleOpcode::kTuple2:
    case PickleOpcode::kTuple3: {
      const size_t count = opcode - static_cast<size_t>(PickleOpcode::kTuple1) + 1;
      if (stack_.size() < count) return fail_with("a tuple of values that are not there");
      return make_tuple(stack_.size() - count);
    }
    default:
      return step_rare(opcode);
  }
}

bool PickleReader::step_rare(uint8_t opcode) {
  switch (static_cast<PickleOpcode>(opcode)) {
    case PickleOpcode::kBinUnicode:
      return push_string(take<uint32_t>());
    case PickleOpcode::kBinUnicode8:
      return push_string(take<uint64_t>());
    case PickleOpcode::kBinFloat:
      return push(PickleKind::kFloat, 0, static_cast<int64_t>(from_big_endian(take<uint64_t>())));
    case PickleOpcode::kNewTrue:
      return push(PickleKind::kBool, 0, 1);
    case PickleOpcode::kNewFalse:
      return push(PickleKind::kBool, 0, 0);
    case PickleOpcode::kNone:
      return push(PickleKind::kNone, 0, 0);
    case PickleOpcode::kProto: {
      const auto protocol = take<uint8_t>();
      const bool is_read = protocol >= 2 && protocol <= 5;
      return is_read || fail_with(fmt::format("pickle protocol {}", protocol), "protocol 2 to 5");
    }
    case PickleOpcode::kFrame:
      take<uint64_t>();  // a hint for buffering
      return true;
    default:
      return refuse(opcode);
  }
}

bool PickleReader::push_mark() {
  if (marks_.size() >= kMostNested)
    return fail_with("values are nested too deeply", fmt::format("at most {} levels", kMostNested));
  marks_.push_back(stack_.size());
  return true;
}

bool PickleReader::refuse(uint8_t opcode) {
  const std::string_view name = name_of_opcode(opcode);
  if (name.empty()) return fail_with(fmt::format("byte {:#04x} is no opcode of pickle", opcode));
  if (runs_code(opcode))
    return fail_with(fmt::format("opcode {} is refused: a pickle can run code with it", name),
                     "a memory snapshot, which holds plain data only",
                     "nothing was run; do not open this file with pickle.load or torch.load");
  return fail_with(fmt::format("opcode {} is not used by memory snapshots", name),
                   "dicts, lists, tuples, strings, numbers, booleans and None");
}

bool PickleReader::push_string(uint64_t length) {
  if (length > ByteSource::kWindow)
    return fail_with(fmt::format("a string of {} bytes", length),
                     fmt::format("at most {} bytes", ByteSource::kWindow));
  if (!fetch(length)) return false;
  const uint32_t id = strings_.add({reinterpret_cast<const char*>(source_.take(length)), length});
  if (strings_.size() > kMostStrings)
    return fail_with("too many different strings", fmt::format("at most {}", kMostStrings));
  return push(PickleKind::kString, id, 0);
}

// Two's complement, little-endian, of any length.
bool PickleReader::push_long(size_t length) {
  if (!fetch(length)) return false;
  const uint8_t* const bytes = source_.take(length);
  const bool is_negative = length > 0 && (bytes[length - 1] & 0x80U) != 0;
  uint64_t value = is_negative ? ~uint64_t{0} : 0;
  bool fits = true;
  for (size_t i = length; i-- > 0;) {
    if (i >= 8 && bytes[i] != (is_negative ? 0xff : 0)) fits = false;
    value = (value << 8U) | bytes[i];
  }
  if (length > 8 && is_negative != (static_cast<int64_t>(value) < 0) && is_negative) fits = false;
  if (!fits) return fail_with("a number beyond 64 bits");
  const bool is_signed = is_negative || static_cast<int64_t>(value) >= 0;
  return push(is_signed ? PickleKind::kInt : PickleKind::kUnsigned, 0, static_cast<int64_t>(value));
}

bool PickleReader::make_room() {
  if (stack_.size() + containers_.held_values() >= kMostValues)
    return fail_with("too many values at a time", fmt::format("at most {}", kMostValues));
  stack_.grow();
  return true;
}

bool PickleReader::push_container(PickleKind kind) {
  if (containers_.size() >= kMostContainers)
    return fail_with("too many dicts and lists that are no part of a snapshot",
                     fmt::format("at most {} at a time", kMostContainers));
  stack_.push(containers_.add(kind));
  return true;
}

bool PickleReader::make_tuple(size_t begin) {
  const std::span<const PickleValue> values = stack_.from(begin);
  const bool is_pair =
      values.size() == 2 && values[0].kind == PickleKind::kInt && values[1].kind == PickleKind::kInt;
  if (is_pair) return make_pair(begin);
  if (!push_container(PickleKind::kList)) return false;
  const PickleValue tuple = stack_.back();
  if (!add_to_list(*containers_.find(tuple), values)) return false;
  stack_.drop_to(begin);
  stack_.push(tuple);
  return true;
}

// Most are as the one before.
bool PickleReader::make_pair(size_t begin) {
  if (!is_last_pair(stack_[begin], stack_[begin + 1])) {
    const std::pair<int64_t, int64_t> pair(stack_[begin].integer, stack_[begin + 1].integer);
    const auto [known, is_new] = pair_ids_.try_emplace(pair, static_cast<uint32_t>(pairs_.size()));
    if (is_new) pairs_.push_back(pair);
    if (pairs_.size() > kMostPairs)
      return fail_with("too many different pairs", fmt::format("at most {}", kMostPairs));
    last_pair_ = known->second;
  }
  stack_.drop_to(begin);
  return push(PickleKind::kPair, last_pair_, 0);
}

bool PickleReader::pop_mark(size_t& begin) {
  if (marks_.empty()) return fail_with("a batch of items without its MARK");
  begin = marks_.back();
  marks_.pop_back();
  return begin <= stack_.size() || fail_with("a MARK above the values it marks");
}

bool PickleReader::append(size_t begin) {
  const bool has_list = begin > 0 && stack_[begin - 1].kind == PickleKind::kList;
  PickleContainer* const list = has_list ? containers_.find(stack_[begin - 1]) : nullptr;
  if (!list) return fail_with("items for a list that is not there");
  const std::span<const PickleValue> items = stack_.from(begin);
  const bool is_whole = list->items.empty() && !list->range && !items.empty() && items.size() < kBatch;
  if (is_whole) {
    if (const std::optional<PickleValue> object = sink_.take_list(items)) {
      stack_.drop_to(begin);
      become(begin - 1, *object);
      return true;
    }
  }
  if (!add_to_list(*list, items)) return false;
  stack_.drop_to(begin);
  return true;
}

// From now on the object stands for the container on the stack, wherever the pickle uses it again. A run of
// sequenced objects is one value: the writer in C++ has all events of a trace on the stack.
void PickleReader::become(size_t at, const PickleValue& object) {
  const PickleValue container = stack_[at];
  const bool is_sequenced = sink_.is_sequenced(object.type());
  if (!is_sequenced) containers_.replace(container, object);
  containers_.release(container);
  stack_[at] = object;
  const size_t first_of_batch = marks_.empty() ? 0 : marks_.back();
  if (!is_sequenced || at <= first_of_batch || !joins(stack_[at - 1], object)) return;
  ++stack_[at - 1].integer;
  stack_.drop_to(at);
}
bool PickleReader::joins(const PickleValue& last, const PickleValue& object) const {
  return last.kind == object.kind && last.id + last.integer == object.id;
}

bool PickleReader::add_to_list(PickleContainer& list, std::span<const PickleValue> values) {
  if (values.empty()) return true;
  const bool is_sequence = values[0].is_object() && sink_.is_sequenced(values[0].type());
  if (is_sequence ? !list.items.empty() : list.range.has_value())
    return fail_with("a list of different things");
  if (!is_sequence) {
    containers_.add_items(list, values);
    has_long_lists_ = has_long_lists_ || list.items.size() >= kBatch;
    return true;
  }
  if (!list.range) list.range = ObjectRange{.type = values[0].type(), .first = values[0].id, .count = 0};
  for (const PickleValue& v : values) {
    if (!v.is_object(list.range->type) || v.id != list.range->first + list.range->count)
      return fail_with("entries that are used twice, or out of their order");
    list.range->count += static_cast<uint32_t>(v.integer);
  }
  return true;
}

// A list that was too long to be told when its first batch came is whole once a dict has it.
void PickleReader::take_long_lists(size_t begin) {
  for (size_t value = begin + 1; value < stack_.size(); value += 2) {
    const PickleValue list = stack_[value];
    const std::span<const PickleValue> members =
        list.kind == PickleKind::kList ? items(list) : std::span<const PickleValue>();
    if (members.size() < kBatch) continue;
    PickleContainer& container = *containers_.find(list);
    if (container.is_refused) continue;
    const std::optional<PickleValue> object = sink_.take_list(members);
    container.is_refused = !object;
    if (!object) continue;
    containers_.replace(list, *object);
    containers_.release(list);
    stack_[value] = *object;
  }
}

// The writer in C++ has none between the marks of an empty dict.
bool PickleReader::set_items(size_t begin) {
  const bool is_even = stack_.size() >= begin && (stack_.size() - begin) % 2 == 0;
  const bool has_dict = is_even && begin > 0 && stack_[begin - 1].kind == PickleKind::kDict;
  PickleContainer* const container = has_dict ? containers_.find(stack_[begin - 1]) : nullptr;
  if (!container) return fail_with("items for a dict that is not there");
  const std::span<const PickleValue> items = stack_.from(begin);
  std::optional<PickleValue> object;
  if (items.empty()) return true;
  if (has_long_lists_) take_long_lists(begin);
  if (container->items.empty() && items.size() < 2 * kBatch) {
    const Result<std::optional<PickleValue>> taken = sink_.take_dict(*this, items);
    if (!taken) {
      error_ = taken.error();
      return false;
    }
    object = *taken;
  }
  if (object) {
    containers_.release(items);
    stack_.drop_to(begin);
    become(begin - 1, *object);
  } else {
    containers_.add_items(*container, items);
    stack_.drop_to(begin);
  }
  return true;
}

inline bool PickleReader::get(uint64_t index) {
  if (!containers_.memo().has(index)) return fail_with(fmt::format("memo entry {} was never written", index));
  stack_.push(containers_.get(index));
  return true;
}

inline bool PickleReader::put(uint64_t index) {
  if (stack_.empty()) return fail_with("nothing to remember");
  const PickleMemo& memo = containers_.memo();
  // All writers count up; what they pass over takes memory too.
  if (index > memo.next() + (PickleMemo::kPiece - memo.skipped()))
    return fail_with(fmt::format("memo entry {} far beyond the {} before it", index, memo.next()));
  const PickleValue& v = stack_.back();
  if (memo.numbers() >= kMostPairs || v.id >= PickleMemo::kMostIds)
    return fail_with("too many different things to remember");
  const bool is_taken = v.is_object() && sink_.is_sequenced(v.type());
  containers_.put(index, is_taken ? PickleValue::of_kind(PickleKind::kConsumed) : v);
  return true;
}

}  // namespace plimsoll
