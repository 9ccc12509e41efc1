// Typed, bounded access to a configuration's keys. A key that is wrong doesn't stop the reading: the reader
// remembers the problem and hands out a harmless value, so that a family reads as a list of assignments and
// all missing keys are reported at once.
//
//   const int64_t hidden = config.size({"n_embd", "hidden_size"}, kMaxHidden);  // two names of one key
//   const bool bias = config.flag("attention_bias", false);
//   if (hidden % heads != 0) config.contradiction("num_attention_heads", "...", "a divisor of hidden_size");
//   if (auto error = config.problem()) return fail(*error);
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/config_value.h"

namespace plimsoll {

// Largest sizes that are believed; beyond them a configuration is refused.
inline constexpr int64_t kMaxHidden = int64_t{1} << 20;
inline constexpr int64_t kMaxIntermediate = int64_t{1} << 23;
inline constexpr int64_t kMaxLayers = 1024;
inline constexpr int64_t kMaxVocab = int64_t{1} << 24;
inline constexpr int64_t kMaxHeads = int64_t{1} << 16;
inline constexpr int64_t kMaxHeadDim = int64_t{1} << 14;
inline constexpr int64_t kMaxExperts = int64_t{1} << 14;
inline constexpr int64_t kMaxPosition = int64_t{1} << 30;

// One key under its names, the preferred first.
struct KeyNames {
  KeyNames(const char* name) : names{name} {}  // NOLINT: meant to convert
  KeyNames(std::initializer_list<std::string_view> all) : names(all) {}
  std::vector<std::string_view> names;
};

class ConfigReader {
 public:
  // REQUIRES object outlives the reader. `prefix` goes before keys in messages: "text_config.".
  ConfigReader(const ConfigValue::Object& object, std::string file, std::string prefix = "");

  bool is_there(std::string_view key) const { return find(key) != nullptr; }  // perhaps null
  bool has(std::string_view key) const;                                       // there and not null

  // Required: an integer from 1 to largest. What is returned after a problem is 1.
  int64_t size(const KeyNames& key, int64_t largest);
  // As `size`, but the key may be null (then empty); it must be there.
  std::optional<int64_t> nullable_size(const KeyNames& key, int64_t largest);
  // Absent or null: empty; otherwise as `size`.
  std::optional<int64_t> optional_size(const KeyNames& key, int64_t largest);
  // As `optional_size`, with 0 allowed; absent or null: `otherwise`.
  int64_t count(const KeyNames& key, int64_t otherwise, int64_t largest);
  // Required, 0 allowed.
  int64_t required_count(const KeyNames& key, int64_t largest);
  bool flag(const KeyNames& key, bool otherwise);
  std::optional<double> number(const KeyNames& key);
  double number(const KeyNames& key, double otherwise) { return number(key).value_or(otherwise); }
  // As `number`: above 0, and from 0 to 1.
  std::optional<double> positive(const KeyNames& key);
  double positive(const KeyNames& key, double otherwise) { return positive(key).value_or(otherwise); }
  double probability(const KeyNames& key, double otherwise);
  std::optional<std::string> text(const KeyNames& key);
  std::optional<std::vector<std::string>> texts(const KeyNames& key);
  std::optional<std::vector<int64_t>> integers(const KeyNames& key);
  const ConfigValue::Object* object(const KeyNames& key);           // absent or null: nullptr
  const ConfigValue::Object* required_object(const KeyNames& key);  // nullptr after a problem
  void ignore(const KeyNames& key);                                 // known, says nothing about shapes
  // The key may only have `only`, or be absent: anything else isn't supported.
  void require_flag(const KeyNames& key, bool only, std::string_view why);

  // Problems that the family finds. Contradictions count only when every key by itself is right.
  void missing(std::string_view key);
  void wrong(std::string_view key, std::string message, std::string expected = "", std::string hint = "");
  void contradiction(std::string_view key, std::string message, std::string expected = "");
  void absorb(const ConfigReader& nested);  // takes over a nested reader's wrong value
  bool has_problem() const { return wrong_ || contradiction_ || !missing_.empty(); }
  // A wrong value before missing keys before contradictions. `family` goes into the hint.
  std::optional<Error> problem(std::string_view family) const;

  // Keys that nobody asked for and whose value isn't null, false, 0 or empty, in the file's order.
  std::vector<std::string> unread_keys() const;
  bool was_asked_for(std::string_view key) const;  // or ignored; without prefix
  const std::string& file() const { return file_; }

 private:
  const ConfigMember* find(std::string_view key) const;
  const ConfigMember* take(const KeyNames& key);  // marks as read; null counts as absent
  std::optional<double> number(const KeyNames& key, bool (*is_right)(double), std::string_view expected);
  std::optional<int64_t> integer(const ConfigMember& member, int64_t smallest, int64_t largest);
  void wrong_type(const ConfigMember& member, std::string expected);
  SourcePosition position_of(std::string_view key) const;

  const ConfigValue::Object& object_;
  std::string file_;
  std::string prefix_;
  std::vector<bool> is_read_;  // one per member
  std::vector<std::string> missing_;
  std::optional<Error> wrong_;
  std::optional<Error> contradiction_;
};

}  // namespace plimsoll
