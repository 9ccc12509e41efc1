// The values of one dict of a snapshot by key, with their types checked.
#pragma once

#include <fmt/format.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "base/units.h"
#include "importers/torch_snapshot/pickle_reader.h"
#include "importers/torch_snapshot/snapshot_keys.h"

namespace plimsoll {

class SnapshotFields {
 public:
  SnapshotFields(PickleReader& reader, std::span<const PickleValue> items) : reader_(reader) {
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      const PickleValue& key = items[i];
      if (key.kind == PickleKind::kString && key.id < values_.size()) values_[key.id] = &items[i + 1];
    }
  }

  PickleReader& reader() const { return reader_; }
  const PickleValue* find(SnapshotKey key) const { return values_[static_cast<size_t>(key)]; }
  bool has(SnapshotKey key) const { return find(key) != nullptr; }

  // A pointer or a stream: any 64 bits.
  Result<uint64_t> address(SnapshotKey key) const {
    const PickleValue* const v = find(key);
    if (v && (v->kind == PickleKind::kInt || v->kind == PickleKind::kUnsigned)) return v->unsigned_integer;
    return wrong(key, "an integer");
  }
  Result<int64_t> integer(SnapshotKey key) const {
    const PickleValue* const v = find(key);
    if (v && v->kind == PickleKind::kInt) return v->integer;
    return wrong(key, "an integer");
  }
  Result<Bytes> bytes(SnapshotKey key) const {
    const PickleValue* const v = find(key);
    if (v && v->kind == PickleKind::kInt && v->integer >= 0 && v->integer < kMaxQuantity)
      return Bytes{v->integer};
    return wrong(key, fmt::format("a number of bytes from 0 to {}", kMaxQuantity - 1));
  }
  Result<uint32_t> string_id(SnapshotKey key) const {
    const PickleValue* const v = find(key);
    if (v && v->kind == PickleKind::kString) return v->id;
    return wrong(key, "a string");
  }
  Result<std::string_view> string(SnapshotKey key) const {
    PLIMSOLL_TRY(id, string_id(key));
    return reader_.string(PickleValue::of_kind(PickleKind::kString, id));
  }
  // What older layouts don't have.
  Result<uint64_t> stream() const {
    return has(SnapshotKey::kStream) ? address(SnapshotKey::kStream) : Result<uint64_t>(0);
  }
  Result<int64_t> device() const {
    return has(SnapshotKey::kDevice) ? integer(SnapshotKey::kDevice) : Result<int64_t>(0);
  }
  Result<std::optional<Nanoseconds>> time() const {
    if (!has(SnapshotKey::kTime)) return std::optional<Nanoseconds>();
    PLIMSOLL_TRY(microseconds, integer(SnapshotKey::kTime));
    return std::optional(Nanoseconds{microseconds} * 1000);
  }
  bool is_true(SnapshotKey key) const {
    const PickleValue* const v = find(key);
    return v && v->kind == PickleKind::kBool && v->integer != 0;
  }

 private:
  tl::unexpected<Error> wrong(SnapshotKey key, std::string_view expected) const {
    const std::string_view name = kSnapshotKeys[static_cast<size_t>(key)];
    const PickleValue* const value = find(key);
    const std::string what = !value                            ? "is missing"
                             : value->kind == PickleKind::kInt ? fmt::format("is {}", value->integer)
                             : value->kind == PickleKind::kUnsigned
                                 ? fmt::format("is {}", value->unsigned_integer)
                                 : "has another type";
    return reader_.fail_here(fmt::format("\"{}\" {}", name, what), std::string(expected));
  }

  PickleReader& reader_;
  std::array<const PickleValue*, static_cast<size_t>(SnapshotKey::kCount)> values_{};
};

}  // namespace plimsoll
