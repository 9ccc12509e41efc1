// The opcodes of Python's pickle. Source: Lib/pickletools.py of Python 3.12.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace plimsoll {

enum class PickleOpcode : uint8_t {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kBinFloat = 'G',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinUnicode = 'X',
  kAppend = 'a',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kSetItems = 'u',
  kEmptyTuple = ')',
  kEmptyList = ']',
  kEmptyDict = '}',
  kProto = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kMemoize = 0x94,
  kFrame = 0x95
};

// Its name in pickletools; empty for a byte that is no opcode.
std::string_view name_of_opcode(uint8_t opcode);
// Whether a pickle may call what it names by it, or build an object of a class.
bool runs_code(uint8_t opcode);

}  // namespace plimsoll
