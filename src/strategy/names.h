// The names that job files, flags and reports use for the choices of strategy/job.h. A value may have several
// names; the first is the one that is written. '-' and '_' mean the same, so that both command-line and
// Python spellings are read; so do capital and small letters.
//
//   name_of(Precision::kAutocastBFloat16);             // "amp-bf16"
//   from_name<Precision>("amp_bf16");                  // kAutocastBFloat16
//   written_names<Precision>();                        // {"fp32", "bf16", ...}
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strategy/job.h"

namespace plimsoll {

template <typename Enum>
struct EnumName {
  Enum value;
  std::string_view name;
};

// One specialization per enum, in names.cc; every value is there.
template <typename Enum>
std::span<const EnumName<Enum>> enum_names();

bool is_same_name(std::string_view a, std::string_view b);  // '-' equals '_', 'A' equals 'a'

template <typename Enum>
std::optional<Enum> from_name(std::string_view name) {
  for (const auto& entry : enum_names<Enum>())
    if (is_same_name(entry.name, name)) return entry.value;
  return std::nullopt;
}

template <typename Enum>
std::string_view written_name(Enum value) {
  for (const auto& entry : enum_names<Enum>())
    if (entry.value == value) return entry.name;
  return "?";
}

template <typename Enum>
std::vector<std::string> written_names() {
  std::vector<std::string> names;
  for (const auto& entry : enum_names<Enum>())
    if (written_name(entry.value) == entry.name) names.emplace_back(entry.name);
  return names;
}

std::string_view name_of(Framework value);
std::string_view name_of(Precision value);
std::string_view name_of(TaskChoice value);
std::string_view name_of(DataParallelEngine value);
std::string_view name_of(AttentionImplementation value);
std::string_view name_of(SdpaBackend value);
std::string_view name_of(ExpertsImplementation value);
std::string_view name_of(LossKind value);
std::string_view name_of(OffloadTarget value);
std::string_view name_of(TorchtitanRelease value);
std::string_view name_of(ReshardPolicy value);
std::string_view name_of(Float8Recipe value);
std::string_view name_of(ZeroGrad value);
std::string_view name_of(UseCache value);

// "adamw", "adamw-fused", "sgd-momentum" ...: kind and implementation in one word, foreach is not said.
std::string name_of(const Optimizer& optimizer);
std::optional<Optimizer> optimizer_from_name(std::string_view name);
std::vector<std::string> optimizer_names();

// "none", "full" (non-reentrant), "full-reentrant", "every-2", "every-2-reentrant", "selective". A name does
// not carry `kept_ops`: reading gives the default list.
std::string name_of(const Recompute& recompute);
std::optional<Recompute> recompute_from_name(std::string_view name);
std::vector<std::string> recompute_names();  // with every-N for the pattern

inline constexpr int64_t kMaxEveryNth = 16384;

}  // namespace plimsoll
