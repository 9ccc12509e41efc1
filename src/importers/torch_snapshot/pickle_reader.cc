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

template <typename T>
T little_endian(const uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  static_assert(std::endian::native == std::endian::little);
  return value;
}

double big_endian_double(const uint8_t* bytes) {
  uint64_t bits = 0;
  for (int i = 0; i < 8; ++i) bits = (bits << 8U) | bytes[i];
  return std::bit_cast<double>(bits);
}

}  // namespace

PickleReader::PickleReader(ByteSource& source, std::string file, StringTable& strings, PickleSink& sink)
    : source_(source), file_(std::move(file)), strings_(strings), sink_(sink) {}

tl::unexpected<Error> PickleReader::fail_here(std::string message, std::string expected,
                                              std::string hint) const {
  return fail({.position = {.file = file_, .byte = opcode_at_},
               .message = std::move(message),
               .expected = std::move(expected),
               .hint = std::move(hint)});
}
bool PickleReader::fail_with(std::string message, std::string expected, std::string hint) {
  if (!error_) error_ = fail_here(std::move(message), std::move(expected), std::move(hint)).value();
  return false;
}
bool PickleReader::ends_early() {
  if (source_.error()) {
    error_ = source_.error();
    return false;
  }
  opcode_at_ = source_.offset() + source_.available();
  return fail_with("the pickle ends early", "more bytes, up to the opcode STOP",
                   "was the file copied whole?");
}

Result<PickleValue> PickleReader::read() {
  uint64_t next_progress = kProgressEvery;
  while (true) {
    opcode_at_ = source_.offset();
    if (!fetch(1)) return tl::unexpected(*error_);
    const uint8_t opcode = *source_.take(1);
    if (opcode_at_ == 0 && opcode != static_cast<uint8_t>(PickleOpcode::kProto))
      return fail_here("is no pickle of protocol 2 to 5", "the opcode PROTO as the first byte",
                       "write it with torch.cuda.memory._dump_snapshot(\"snapshot.pickle\")");
    if (opcode == static_cast<uint8_t>(PickleOpcode::kStop)) break;
    if (!step(opcode)) return tl::unexpected(*error_);
    if (opcode_at_ >= next_progress && on_progress) {
      on_progress(source_.consumed_of_file());
      next_progress = opcode_at_ + kProgressEvery;
    }
  }
  if (stack_.size() != 1 || !marks_.empty())
    return fail_here(fmt::format("the pickle stops with {} values instead of one", stack_.size()));
  return stack_[0];
}

bool PickleReader::step(uint8_t opcode) {
  switch (static_cast<PickleOpcode>(opcode)) {
    case PickleOpcode::kMark:
      if (marks_.size() >= kMostNested)
        return fail_with("values are nested too deeply", fmt::format("at most {} levels", kMostNested));
      marks_.push_back(stack_.size());
      return true;
    case PickleOpcode::kEmptyDict:
      return push_container(PickleKind::kDict);
    case PickleOpcode::kEmptyList:
    case PickleOpcode::kEmptyTuple:
      return push_container(PickleKind::kList);
    case PickleOpcode::kAppend:
      return append(std::max<size_t>(stack_.size(), 1) - 1);
    case PickleOpcode::kSetItem:
      return set_items(std::max<size_t>(stack_.size(), 2) - 2);
    case PickleOpcode::kAppends: {
      size_t begin = 0;
      return pop_mark(begin) && append(begin);
    }
    case PickleOpcode::kSetItems: {
      size_t begin = 0;
      return pop_mark(begin) && set_items(begin);
    }
    case PickleOpcode::kTuple: {
      size_t begin = 0;
      return pop_mark(begin) && make_tuple(begin);
    }
    case PickleOpcode::kTuple1:
    case PickleOpcode::kTuple2:
    case PickleOpcode::kTuple3: {
      const size_t count = opcode - static_cast<size_t>(PickleOpcode::kTuple1) + 1;
      if (stack_.size() < count) return fail_with("a tuple of values that are not there");
      return make_tuple(stack_.size() - count);
    }
    case PickleOpcode::kBinGet:
    case PickleOpcode::kLongBinGet:
    case PickleOpcode::kBinPut:
    case PickleOpcode::kLongBinPut:
    case PickleOpcode::kMemoize:
      return step_memo(opcode);
    case PickleOpcode::kShortBinUnicode:
    case PickleOpcode::kBinUnicode:
    case PickleOpcode::kBinUnicode8:
      return step_text(opcode);
    default:
      return step_number(opcode);
  }
}

bool PickleReader::step_number(uint8_t opcode) {
  const auto boolean = [&](bool value) {
    PickleValue v = PickleValue::of_kind(PickleKind::kBool);
    v.integer = value ? 1 : 0;
    return push(v);
  };
  switch (static_cast<PickleOpcode>(opcode)) {
    case PickleOpcode::kBinInt1:
      return fetch(1) && push_int(*source_.take(1));
    case PickleOpcode::kBinInt2:
      return fetch(2) && push_int(little_endian<uint16_t>(source_.take(2)));
    case PickleOpcode::kBinInt:
      return fetch(4) && push_int(little_endian<int32_t>(source_.take(4)));
    case PickleOpcode::kLong1:
      return fetch(1) && push_long(*source_.take(1));
    case PickleOpcode::kBinFloat: {
      if (!fetch(8)) return false;
      PickleValue v = PickleValue::of_kind(PickleKind::kFloat);
      v.number = big_endian_double(source_.take(8));
      return push(v);
    }
    case PickleOpcode::kNewTrue:
      return boolean(true);
    case PickleOpcode::kNewFalse:
      return boolean(false);
    case PickleOpcode::kNone:
      return push({});
    case PickleOpcode::kProto: {
      if (!fetch(1)) return false;
      const uint8_t protocol = *source_.take(1);
      const bool is_read = protocol >= 2 && protocol <= 5;
      return is_read || fail_with(fmt::format("pickle protocol {}", protocol), "protocol 2 to 5");
    }
    case PickleOpcode::kFrame:
      if (fetch(8)) source_.take(8);  // a hint for buffering
      return !error_;
    default:
      return refuse(opcode);
  }
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

bool PickleReader::step_text(uint8_t opcode) {
  uint64_t length = 0;
  switch (static_cast<PickleOpcode>(opcode)) {
    case PickleOpcode::kShortBinUnicode:
      if (!fetch(1)) return false;
      length = *source_.take(1);
      break;
    case PickleOpcode::kBinUnicode:
      if (!fetch(4)) return false;
      length = little_endian<uint32_t>(source_.take(4));
      break;
    default:
      if (!fetch(8)) return false;
      length = little_endian<uint64_t>(source_.take(8));
  }
  return push_string(length);
}

bool PickleReader::push_string(uint64_t length) {
  if (length > ByteSource::kWindow)
    return fail_with(fmt::format("a string of {} bytes", length),
                     fmt::format("at most {} bytes", ByteSource::kWindow));
  if (!fetch(length)) return false;
  const uint32_t id = strings_.add({reinterpret_cast<const char*>(source_.take(length)), length});
  if (strings_.size() > kMostStrings)
    return fail_with("too many different strings", fmt::format("at most {}", kMostStrings));
  return push(PickleValue::of_kind(PickleKind::kString, id));
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
  if (is_negative || static_cast<int64_t>(value) >= 0) return push_int(static_cast<int64_t>(value));
  PickleValue v = PickleValue::of_kind(PickleKind::kUnsigned);
  v.unsigned_integer = value;
  return push(v);
}

bool PickleReader::push(const PickleValue& v) {
  if (stack_.size() + containers_.held_values() >= kMostValues)
    return fail_with("too many values at a time", fmt::format("at most {}", kMostValues));
  stack_.push_back(v);
  return true;
}
bool PickleReader::push_int(int64_t value) { return push(PickleValue::of_integer(value)); }

bool PickleReader::push_container(PickleKind kind) {
  if (containers_.size() >= kMostContainers)
    return fail_with("too many dicts and lists that are no part of a snapshot",
                     fmt::format("at most {} at a time", kMostContainers));
  return push(containers_.add(kind));
}

bool PickleReader::make_tuple(size_t begin) {
  const std::span<const PickleValue> values(stack_.data() + begin, stack_.size() - begin);
  const bool is_pair =
      values.size() == 2 && values[0].kind == PickleKind::kInt && values[1].kind == PickleKind::kInt;
  if (is_pair) {
    const std::pair<int64_t, int64_t> pair(values[0].integer, values[1].integer);
    const auto [known, is_new] = pair_ids_.try_emplace(pair, static_cast<uint32_t>(pairs_.size()));
    if (is_new) pairs_.push_back(pair);
    stack_.resize(begin);
    return push(PickleValue::of_kind(PickleKind::kPair, known->second));
  }
  if (!push_container(PickleKind::kList)) return false;
  const PickleValue tuple = stack_.back();
  const std::span<const PickleValue> members(stack_.data() + begin, stack_.size() - 1 - begin);
  if (!add_to_list(*containers_.find(tuple), members)) return false;
  stack_.resize(begin);
  return push(tuple);
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
  const std::span<const PickleValue> items(stack_.data() + begin, stack_.size() - begin);
  const bool is_whole = list->items.empty() && !list->range && !items.empty() && items.size() < kBatch;
  if (is_whole) {
    if (const std::optional<PickleValue> object = sink_.take_list(items)) {
      stack_.resize(begin);
      become(begin - 1, *object);
      return true;
    }
  }
  if (!add_to_list(*list, {stack_.data() + begin, stack_.size() - begin})) return false;
  stack_.resize(begin);
  return true;
}

// From now on the object stands for the container on the stack, wherever the pickle uses it again.
void PickleReader::become(size_t at, const PickleValue& object) {
  const PickleValue container = stack_[at];
  if (!sink_.is_sequenced(object.type)) containers_.replace(container, object);
  containers_.release({&container, 1});
  stack_[at] = object;
}

bool PickleReader::add_to_list(PickleContainer& list, std::span<const PickleValue> values) {
  if (values.empty()) return true;
  const uint8_t type = values[0].type;
  const bool is_sequence = values[0].kind == PickleKind::kObject && sink_.is_sequenced(type);
  if (is_sequence ? !list.items.empty() : list.range.has_value())
    return fail_with("a list of different things");
  if (!is_sequence) {
    containers_.add_items(list, values);
    return true;
  }
  if (!list.range) list.range = ObjectRange{.type = type, .first = values[0].id, .count = 0};
  for (const PickleValue& v : values) {
    if (!v.is_object(list.range->type) || v.id != list.range->first + list.range->count)
      return fail_with("entries that are used twice, or out of their order");
    ++list.range->count;
  }
  return true;
}

bool PickleReader::set_items(size_t begin) {
  const bool is_even = stack_.size() >= begin + 2 && (stack_.size() - begin) % 2 == 0;
  const bool has_dict = is_even && begin > 0 && stack_[begin - 1].kind == PickleKind::kDict;
  PickleContainer* const container = has_dict ? containers_.find(stack_[begin - 1]) : nullptr;
  if (!container) return fail_with("items for a dict that is not there");
  const std::span<const PickleValue> items(stack_.data() + begin, stack_.size() - begin);
  std::optional<PickleValue> object;
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
    become(begin - 1, *object);
  } else {
    containers_.add_items(*container, items);
  }
  stack_.resize(begin);
  return true;
}

std::span<const PickleValue> PickleReader::items(const PickleValue& v) const {
  const PickleContainer* const container = v.is_container() ? containers_.find(v) : nullptr;
  return container ? std::span<const PickleValue>(container->items) : std::span<const PickleValue>();
}
std::optional<ObjectRange> PickleReader::objects(const PickleValue& v) const {
  const PickleContainer* const container = v.is_container() ? containers_.find(v) : nullptr;
  return container ? container->range : std::nullopt;
}

bool PickleReader::step_memo(uint8_t opcode) {
  switch (static_cast<PickleOpcode>(opcode)) {
    case PickleOpcode::kBinGet:
      return fetch(1) && get(*source_.take(1));
    case PickleOpcode::kLongBinGet:
      return fetch(4) && get(little_endian<uint32_t>(source_.take(4)));
    case PickleOpcode::kBinPut:
      return fetch(1) && put(*source_.take(1));
    case PickleOpcode::kLongBinPut:
      return fetch(4) && put(little_endian<uint32_t>(source_.take(4)));
    default:
      return put(containers_.next_memo());
  }
}

bool PickleReader::get(uint64_t index) {
  const std::optional<PickleValue> found = containers_.get(index);
  if (!found) return fail_with(fmt::format("memo entry {} was never written", index));
  return push(*found);
}

bool PickleReader::put(uint64_t index) {
  if (stack_.empty()) return fail_with("nothing to remember");
  if (index > containers_.next_memo() + PickleMemo::kPiece)  // all writers count up
    return fail_with(
        fmt::format("memo entry {} far beyond the {} before it", index, containers_.next_memo()));
  const PickleValue& v = stack_.back();
  const bool is_taken = v.kind == PickleKind::kObject && sink_.is_sequenced(v.type);
  containers_.put(index, is_taken ? PickleValue::of_kind(PickleKind::kConsumed) : v);
  return true;
}

}  // namespace plimsoll
