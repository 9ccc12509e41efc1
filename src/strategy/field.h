// One field of the job file: where it stands, what it may hold, and how it reads and writes a Job. The table
// of all fields (`job_fields()`) is the only description of the job file's form: the reader, `--set`, the
// writer, the help and docs/job_file.md come from it.
//
// Invariant: setting what `get` returned leaves the job as it was.
//
//   const Field* field = find_field("batch.sequence");
//   Result<void> done = set_field(job, *field, int64_t{4096}, {.file = "job.toml"});
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "strategy/job.h"

namespace plimsoll {

enum class FieldKind { kBoolean, kInteger, kNumber, kChoice, kText, kTextList };

using FieldValue = std::variant<bool, int64_t, double, std::string, std::vector<std::string>>;

struct FieldRange {
  double lowest = 0;  // inclusive; integers stay exact below 2^53
  double highest = 0;
  bool is_lowest_excluded = false;
};

// What a person reads about a field.
struct FieldText {
  std::string_view path;  // "batch.sequence"
  std::string_view unit;  // "tokens"; empty: none
  std::string_view help;
  // What is used when the field isn't given, where that depends on the rest of the job; empty: the value that
  // a new Job has.
  std::string_view default_text;
  std::string_view reason;  // why that is the default: the words of the report's "assumed"
};

struct Field {
  FieldText text;
  FieldKind kind = FieldKind::kText;
  std::vector<std::string> choices;  // kChoice, as they are written; "every-N" is a pattern
  std::optional<FieldRange> range;   // kInteger and kNumber
  std::string_view form;             // kText: what it has to be, "a regular expression"; empty: any text
  // The value has the alternative of `kind` and is in `range`; a failure has neither place nor expectation.
  std::function<Result<void>(Job&, const FieldValue&)> set;
  std::function<std::optional<FieldValue>(const Job&)> get;  // empty: an optional that holds nothing
  std::function<void(Job&)> reset;                           // to the value of a new Job

  std::string_view section() const;  // "batch"; empty for a field outside the sections
  std::string_view key() const;      // "sequence"
  std::string expected() const;      // "an integer from 1 to 1048576, in tokens"
};

inline constexpr std::string_view kOverridesPath = "model.overrides";  // a free table, not in job_fields()

const std::vector<Field>& job_fields();  // in the order of the job file; never changes
const Field* find_field(std::string_view path);

// Checks kind and range, sets, and records the field as given. Resets instead: the word "default" (for any
// field but texts and lists) and an empty text. `position.key` is filled in.
Result<void> set_field(Job& job, const Field& field, FieldValue value, SourcePosition position);

// Reads a value of the field's kind from the text of a flag: "4096", "true", "mm, addmm".
Result<FieldValue> field_value_from_text(const Field& field, std::string_view text, SourcePosition position);

std::string to_plain_text(const FieldValue& value);  // "4096", "true", "mm, addmm"
// The setting that takes a value back: "batch.sequence=default"; of a list the values that it has by default.
std::string reset_setting(const Field& field);

// The error for a key that is not in the table, with the nearest ones.
Error unknown_field(std::string_view path, SourcePosition position);

}  // namespace plimsoll
