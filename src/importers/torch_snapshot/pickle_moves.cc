// The opcodes that only put values on the stack and into the memo: nine of ten of a trace.
#include <algorithm>
#include <cstring>

#include "importers/torch_snapshot/pickle_opcodes.h"
#include "importers/torch_snapshot/pickle_reader.h"

namespace plimsoll {
namespace {

template <typename T>
T operand(const uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

constexpr size_t kLongestWord = 8;

// Of LONG1: two's complement. REQUIRES 0 < length <= kLongestWord; so many bytes can be read.
int64_t signed_word(const uint8_t* bytes, size_t length) {
  const size_t unused = 8 * (kLongestWord - length);
  return static_cast<int64_t>(operand<uint64_t>(bytes) << unused) >> unused;
}

bool is_whole_in_memo(const PickleValue& v) {
  return v.is_container() || v.kind == PickleKind::kString || v.kind == PickleKind::kPair;
}

}  // namespace

// Passes opcodes while they are of these, within all limits, and bytes and places on the stack are at hand.
// Whatever else comes, errors too, is left to step(). The places in the bytes and on the stack are locals, so
// that they stay in registers: as members, each opcode would wait for the writes of the one before.
void PickleReader::move_values() {
  const uint8_t* const begin = source_.next_bytes();
  const uint8_t* at = begin;
  PickleValue* const bottom = stack_.bottom();
  PickleValue* top = bottom + stack_.size();
  const PickleMemo& memo = containers_.memo();
  const uint32_t* const first_entries = memo.first_entries();
  const auto push = [&](PickleKind kind, uint32_t id, int64_t integer) {
    top->kind = kind;
    top->id = id;
    top->integer = integer;
    ++top;
  };
  // No opcode here has more than kMargin bytes or pushes more than one value.
  size_t passed = std::min(source_.available() / ByteSource::kMargin, stack_.room());
  for (size_t steps = passed; steps > 0 && passed > 0; --steps, at += passed) {
    passed = 0;
    if (*at == static_cast<uint8_t>(PickleOpcode::kBinGet)) {  // half of all
      if (!PickleMemo::take_whole(first_entries[at[1]], *top)) break;
      ++top;
      passed = 2;
      continue;
    }
    switch (static_cast<PickleOpcode>(*at)) {
      case PickleOpcode::kMemoize:
        if (top == bottom || !is_whole_in_memo(top[-1])) break;
        containers_.put(memo.next(), top[-1]);
        passed = 1;
        break;
      case PickleOpcode::kLongBinGet:
        if (memo.get_whole(operand<uint32_t>(at + 1), *top)) ++top, passed = 5;
        break;
      case PickleOpcode::kBinInt1:
        push(PickleKind::kInt, 0, at[1]);
        passed = 2;
        break;
      case PickleOpcode::kBinInt2:
        push(PickleKind::kInt, 0, operand<uint16_t>(at + 1));
        passed = 3;
        break;
      case PickleOpcode::kBinInt:
        push(PickleKind::kInt, 0, operand<int32_t>(at + 1));
        passed = 5;
        break;
      case PickleOpcode::kLong1:
        if (at[1] == 0 || at[1] > kLongestWord) break;
        push(PickleKind::kInt, 0, signed_word(at + 2, at[1]));
        passed = 2 + size_t{at[1]};
        break;
      case PickleOpcode::kShortBinUnicode:
        if (2 + size_t{at[1]} > ByteSource::kMargin || strings_.size() >= kMostStrings) break;
        push(PickleKind::kString, strings_.add({reinterpret_cast<const char*>(at + 2), at[1]}), 0);
        passed = 2 + size_t{at[1]};
        break;
      case PickleOpcode::kTuple2:
        if (top - bottom < 2 || !is_last_pair(top[-2], top[-1])) break;
        top -= 2;
        push(PickleKind::kPair, last_pair_, 0);
        passed = 1;
        break;
      case PickleOpcode::kMark:
        if (marks_.size() >= kMostNested) break;
        marks_.push_back(static_cast<size_t>(top - bottom));
        passed = 1;
        break;
      case PickleOpcode::kEmptyDict:
      case PickleOpcode::kEmptyList:
        if (containers_.size() >= kMostContainers) break;
        *top++ = containers_.add(*at == static_cast<uint8_t>(PickleOpcode::kEmptyDict) ? PickleKind::kDict
                                                                                       : PickleKind::kList);
        passed = 1;
        break;
      default:
        break;
    }
  }
  source_.take(static_cast<size_t>(at - begin));
  stack_.set_top(top);
}

}  // namespace plimsoll
