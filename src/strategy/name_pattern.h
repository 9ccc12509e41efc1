// A regular expression on parameter names, as Python's `re.search`: a match anywhere in the name.
//
//   PLIMSOLL_TRY(pattern, NamePattern::parse("^model.*(q|v)_proj"));
//   PatternEffort effort;
//   pattern.is_in("model.layers.0.self_attn.q_proj.weight", effort);   // true
//
// Read: literals, `.`, classes and escapes of them, groups, `|`, the quantifiers `* + ? {m,n}`, lazy too,
// anchors, word boundaries, looking ahead and behind. Errors: bad syntax, and what of Python isn't read (back
// references, flags, conditions, possessive quantifiers, atomic groups), by name and place. A pattern is
// bytes; classes such as \w are ASCII's.
//
// Matched from the set of all places at once instead of trying one way after the other, so that few nested
// repetitions cost little; those that would cost much are bounded by PatternEffort.
// Source: re of Python 3.11, the same answers where it reads them (name_pattern_test.cc).
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace plimsoll {

// How much a pattern may still do, over all names.
struct PatternEffort {
  int64_t steps_left = 20'000'000;

  bool is_spent() const { return steps_left <= 0; }
};

class NamePattern {
 public:
  static constexpr size_t kMaxPatternBytes = 256;
  static constexpr size_t kMaxNameBytes = 511;

  static Result<NamePattern> parse(std::string_view text);

  // Of no meaning when the effort is spent. REQUIRES name.size() <= kMaxNameBytes.
  bool is_in(std::string_view name, PatternEffort& effort) const;

 private:
  friend class NamePatternParser;
  using Places = std::bitset<kMaxNameBytes + 1>;  // between the bytes of a name
  using NodeId = uint32_t;

  enum class Kind : uint8_t {
    kByte,      // one of `bytes`
    kSequence,  // of the children
    kEither,    // one of the children
    kRepeat,    // the child, from `least` to `most` times
    kStart,
    kEnd,
    kWordBoundary,
    kAhead,  // the child matches from here
    kBehind  // the child matches up to here
  };
  struct Node {
    Kind kind = Kind::kSequence;
    bool is_negated = false;  // kWordBoundary, kAhead, kBehind
    uint32_t least = 0, most = 0;
    std::bitset<256> bytes;
    std::vector<NodeId> children;
  };
  class Match;

  std::vector<Node> nodes_;
  NodeId root_ = 0;
};

}  // namespace plimsoll
