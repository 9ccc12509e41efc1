// A value that may be missing, in the space of the value: one of its values means that there is none. For
// members of records that there are millions of; reads like std::optional and converts from and to it.
//
//   PackedOptional<Nanoseconds{std::numeric_limits<int64_t>::min()}> time;
//   if (time) print(time->value);
#pragma once

#include <optional>
#include <type_traits>

namespace plimsoll {

template <auto kNone>
class PackedOptional {
 public:
  using Value = std::remove_const_t<decltype(kNone)>;

  constexpr PackedOptional() = default;
  constexpr PackedOptional(Value value) : value_(value) {}                         // NOLINT: as std::optional
  constexpr PackedOptional(std::nullopt_t) {}                                      // NOLINT
  constexpr PackedOptional(std::optional<Value> v) : value_(v.value_or(kNone)) {}  // NOLINT
  constexpr operator std::optional<Value>() const {                                // NOLINT
    return *this ? std::optional<Value>(value_) : std::nullopt;
  }

  constexpr explicit operator bool() const { return value_ != kNone; }
  constexpr bool has_value() const { return value_ != kNone; }
  constexpr const Value& operator*() const { return value_; }  // REQUIRES has_value()
  constexpr const Value* operator->() const { return &value_; }

  friend constexpr bool operator==(const PackedOptional&, const PackedOptional&) = default;

 private:
  Value value_ = kNone;
};

}  // namespace plimsoll
