// A value of a pickle that is being read: a number by itself, anything larger by its number in a table.
#pragma once

#include <cstdint>

namespace plimsoll {

// Those from kConsumed on are told by their id alone; numbers and containers aren't.
enum class PickleKind : uint8_t {
  kNever,  // of a memo entry: nothing was written there
  kNone,
  kBool,
  kInt,
  kUnsigned,  // above the range of int64
  kFloat,
  kList,         // id: a container; tuples too
  kDict,         // id: a container
  kConsumed,     // a container that the sink has taken
  kString,       // id: in the reader's strings
  kPair,         // id: of two integers
  kObject = 16,  // and the kinds behind it: id: the sink's, of the first, second, ... type
};

struct PickleValue {
  static constexpr uint8_t kMostTypes = 16;

  PickleKind kind = PickleKind::kNone;
  uint32_t id = 0;
  union {
    int64_t integer = 0;        // of an object how many with consecutive ids
    uint64_t unsigned_integer;  // kUnsigned; of a container how often its place had been used before
    double number;
  };

  PickleValue() = default;
  PickleValue(PickleKind k, uint32_t i, int64_t n) : kind(k), id(i), integer(n) {}

  static PickleValue of_kind(PickleKind kind, uint32_t id = 0) { return {kind, id, 0}; }
  static PickleValue of_integer(int64_t integer) { return {PickleKind::kInt, 0, integer}; }
  // REQUIRES type < kMostTypes.
  static PickleValue object(uint8_t type, uint32_t id) {
    return {static_cast<PickleKind>(static_cast<uint8_t>(PickleKind::kObject) + type), id, 1};
  }
  bool is_number() const { return kind >= PickleKind::kNone && kind <= PickleKind::kFloat; }
  bool is_container() const { return kind == PickleKind::kList || kind == PickleKind::kDict; }
  bool is_object() const { return kind >= PickleKind::kObject; }
  bool is_object(uint8_t t) const { return is_object() && type() == t; }
  uint8_t type() const {  // REQUIRES is_object()
    return static_cast<uint8_t>(static_cast<uint8_t>(kind) - static_cast<uint8_t>(PickleKind::kObject));
  }
};

}  // namespace plimsoll
