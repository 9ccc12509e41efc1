// Makes the entries of job_fields(): each binds a FieldText to a member of Job.
//
//   integer({.path = "batch.sequence", .unit = "tokens"}, {1, 1 << 27}, at(&Job::batch,
//   &BatchChoice::sequence))
//
// An `std::optional` member is empty when the field isn't given.
#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include "strategy/field.h"
#include "strategy/name_pattern.h"
#include "strategy/names.h"

namespace plimsoll::field_builders {

template <typename Section, typename Value>
auto at(Section Job::*section, Value Section::*member) {
  return [section, member](auto& job) -> auto& { return job.*section.*member; };
}
template <typename Value>
auto at(Value Job::*member) {
  return [member](auto& job) -> auto& { return job.*member; };
}

template <typename Value>
std::optional<Value> as_optional(const Value& value) {
  return value;
}
template <typename Value>
std::optional<Value> as_optional(const std::optional<Value>& value) {
  return value;
}

template <typename Access>
void reset_member(Job& job, Access access) {
  const Job fresh;
  access(job) = access(fresh);
}

// A field whose member has the very type of the value, or is an optional of it.
template <typename Value, typename Access>
Field plain(FieldText text, FieldKind kind, Access access) {
  return {.text = text,
          .kind = kind,
          .set = [access](Job& job, const FieldValue& value) -> Result<void> {
            access(job) = std::get<Value>(value);
            return {};
          },
          .get = [access](const Job& job) -> std::optional<FieldValue> {
            const std::optional<Value> value = as_optional(access(job));
            return value ? std::optional<FieldValue>(*value) : std::nullopt;
          },
          .reset = [access](Job& job) { reset_member(job, access); }};
}

template <typename Access>
Field boolean(FieldText text, Access access) {
  return plain<bool>(text, FieldKind::kBoolean, access);
}
template <typename Access>
Field words(FieldText text, Access access) {
  return plain<std::string>(text, FieldKind::kText, access);
}
// A regular expression on names.
template <typename Access>
Field pattern(FieldText text, Access access) {
  Field field = words(text, access);
  field.form = "a regular expression, for example q_proj|v_proj";
  field.set = [access](Job& job, const FieldValue& value) -> Result<void> {
    PLIMSOLL_CHECK(NamePattern::parse(std::get<std::string>(value)));
    access(job) = std::get<std::string>(value);
    return {};
  };
  return field;
}
template <typename Access>
Field word_list(FieldText text, Access access) {
  return plain<std::vector<std::string>>(text, FieldKind::kTextList, access);
}
template <typename Access>
Field integer(FieldText text, FieldRange range, Access access) {
  Field field = plain<int64_t>(text, FieldKind::kInteger, access);
  field.range = range;
  return field;
}
template <typename Access>
Field number(FieldText text, FieldRange range, Access access) {
  Field field = plain<double>(text, FieldKind::kNumber, access);
  field.range = range;
  return field;
}

// A choice among names. `read` gives an optional of the member's type, `write` the name of a value.
template <typename Access, typename Read, typename Write>
Field named(FieldText text, std::vector<std::string>&& choices, Access access, Read read, Write write) {
  return {.text = text,
          .kind = FieldKind::kChoice,
          .choices = std::move(choices),
          .set = [access, read](Job& job, const FieldValue& value) -> Result<void> {
            const std::string& name = std::get<std::string>(value);
            const auto found = read(name);
            if (!found) return fail({.message = "\"" + name + "\" is not one of the choices"});
            access(job) = *found;
            return {};
          },
          .get = [access, write](const Job& job) -> std::optional<FieldValue> {
            const auto value = write(access(job));
            return value.empty() ? std::nullopt : std::optional<FieldValue>(std::string(value));
          },
          .reset = [access](Job& job) { reset_member(job, access); }};
}

// A choice among the values of an enum of strategy/names.h.
template <typename Enum, typename Access>
Field choice(FieldText text, Access access) {
  return named(
      text, written_names<Enum>(), access, [](std::string_view name) { return from_name<Enum>(name); },
      [](const auto& member) {
        const std::optional<Enum> value = as_optional(member);
        return value ? written_name(*value) : std::string_view{};
      });
}

}  // namespace plimsoll::field_builders
