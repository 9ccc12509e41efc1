// What the keys of a torchtitan configuration mean for memory: one row a key.
#pragma once

#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace plimsoll::torchtitan_keys {

enum class KeyKind {
  kField,     // is the value of `field`
  kGroup,     // decides together with others, see torchtitan_config.cc
  kOnly,      // changes memory in a way that is not modelled, unless it has one of `words`
  kHarmless,  // no byte of the step depends on it
};

struct KeyRow {
  std::string_view key;  // "training.seq_len"; one that ends in '.' stands for its whole table
  KeyKind kind = KeyKind::kHarmless;
  std::string_view field;                                            // of the job
  std::vector<std::pair<std::string_view, std::string_view>> words;  // of the configuration, of the job
  std::string_view unset;                                            // the word that means "not given"
};

std::span<const KeyRow> key_rows();
// The row of a key; nullptr: not known.
const KeyRow* find_key(std::string_view key);

// The model that a name and a flavor stand for, as settings of the job; empty: not known.
struct FlavorRow {
  std::string_view name, flavor;
  std::vector<std::string_view> settings;
};
std::span<const FlavorRow> flavor_rows();

}  // namespace plimsoll::torchtitan_keys
