// A value of a pickle that is being read: a number by itself, anything larger by its number in a table.
#pragma once

#include <cstdint>

namespace plimsoll {

enum class PickleKind : uint8_t {
  kNone,
  kBool,
  kInt,
  kUnsigned,  // above the range of int64
  kFloat,
  kString,   // id: in the reader's strings
  kPair,     // id: of two integers
  kList,     // id: a container; tuples too
  kDict,     // id: a container
  kObject,   // id, type: the sink's
  kConsumed  // a container that the sink has taken
};

struct PickleValue {
  PickleKind kind = PickleKind::kNone;
  uint8_t type = 0;  // kObject
  uint32_t id = 0;
  union {
    int64_t integer = 0;
    uint64_t unsigned_integer;  // kUnsigned; of a container how often its place had been used before
    double number;
  };

  static PickleValue of_kind(PickleKind kind, uint32_t id = 0) {
    PickleValue v;
    v.kind = kind;
    v.id = id;
    return v;
  }
  static PickleValue of_integer(int64_t integer) {
    PickleValue v = of_kind(PickleKind::kInt);
    v.integer = integer;
    return v;
  }
  static PickleValue object(uint8_t type, uint32_t id) {
    PickleValue v = of_kind(PickleKind::kObject, id);
    v.type = type;
    return v;
  }
  bool is_container() const { return kind == PickleKind::kList || kind == PickleKind::kDict; }
  bool is_object(uint8_t t) const { return kind == PickleKind::kObject && type == t; }
};

}  // namespace plimsoll
