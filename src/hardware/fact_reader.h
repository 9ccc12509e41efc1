// Reads a catalog file's values by key, converts them to their unit, and remembers what was read, so that
// what was not read is refused as unknown. The first mistake sticks: later reads give zeros, and finish()
// tells it.
//
//   FactReader in(document);
//   gpu.usable_memory = in.required<Bytes>("memory.usable_gib", {0.25, 4096});
//   gpu.host.pcie_lanes = in.required_count("pcie.lanes", {1, 16});
//   PLIMSOLL_CHECK(in.finish());
//
// A number is written { value = 79.19, source = "oom" }, or with estimate = true besides. Its source is a key
// of the file's table [sources], and every entry there is used. The ending of a key is its unit: _bytes,
// _mib, _gib (binary), _gb, _gb_per_s, _tflop_per_s (decimal). REQUIRES keys of quantities to end in a unit
// of the type.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "hardware/fact.h"
#include "hardware/rates.h"
#include "hardware/toml_document.h"

namespace plimsoll {

// Of a number in its key's unit, both ends included: beyond is a slip of the pen.
struct Range {
  double least = 0;
  double most = 0;
};

class FactReader {
 public:
  explicit FactReader(TomlDocument document) : document_(std::move(document)) {}

  const std::string& file() const { return document_.file; }

  bool has_section(std::string_view name);
  std::string required_text(const std::string& key);
  std::optional<std::string> optional_text(const std::string& key);
  std::vector<std::string> texts(const std::string& key);  // none when absent
  bool flag(const std::string& key);                       // false when absent

  // One of a closed set of words: value_of(text) gives an optional, `words` lists them for the message.
  template <typename Parse>
  auto required_word(const std::string& key, const Parse& value_of, const std::string& words) {
    const auto value = value_of(required_text(key));
    if (!value) refuse(key, "is not a word known here", words);
    return value.value_or(typename std::decay_t<decltype(value)>::value_type{});
  }

  int64_t required_count(const std::string& key, Range range);
  std::optional<int64_t> optional_count(const std::string& key, Range range);

  // Type is Bytes, BytesPerSecond or FlopsPerSecond.
  template <typename Type>
  Type required(const std::string& key, Range range);
  template <typename Type>
  std::optional<Type> optional(const std::string& key, Range range);

  // Makes the reader fail at that key unless it has failed before.
  void refuse(const std::string& key, std::string message, std::string expected, std::string hint = "");

  std::vector<Fact> facts() const { return facts_; }
  // The first mistake, or an unknown key, or a source that no number names.
  Result<bool> finish();

 private:
  const TomlValue* find(const std::string& key);  // marks the key as known
  std::optional<double> number(const std::string& key, Range range);
  std::optional<double> plain_number(const std::string& key);
  std::string source_of(const std::string& key);
  void require(const std::string& key);
  void refuse_unknown_keys();
  std::string hint_for(const std::string& unknown) const;

  TomlDocument document_;
  std::set<std::string, std::less<>> known_;  // keys asked for, present or not
  std::set<std::string, std::less<>> used_sources_;
  std::vector<Fact> facts_;
  std::optional<Error> error_;
};

}  // namespace plimsoll
