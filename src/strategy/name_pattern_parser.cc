// Reads the text of a NamePattern. The grammar is that of Python's re/_parser.py.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include "strategy/name_pattern.h"

namespace plimsoll {
namespace {

using ByteSet = std::bitset<256>;

constexpr uint32_t kWithoutEnd = std::numeric_limits<uint32_t>::max();
constexpr uint32_t kMostTimes = 1'000'000;  // more can't matter: names are shorter

ByteSet set_of(std::string_view bytes) {
  ByteSet set;
  for (const char c : bytes) set.set(static_cast<uint8_t>(c));
  return set;
}
ByteSet range_of(uint8_t first, uint8_t last) {
  ByteSet set;
  for (size_t byte = first; byte <= last; ++byte) set.set(byte);
  return set;
}

const ByteSet kDigits = range_of('0', '9');
const ByteSet kSpaces = set_of(" \t\n\r\f\v");
const ByteSet kWords = kDigits | range_of('a', 'z') | range_of('A', 'Z') | set_of("_");

// \d and the like.
std::optional<ByteSet> class_of(char c) {
  switch (c) {
    case 'd':
      return kDigits;
    case 'D':
      return ~kDigits;
    case 's':
      return kSpaces;
    case 'S':
      return ~kSpaces;
    case 'w':
      return kWords;
    case 'W':
      return ~kWords;
    default:
      return std::nullopt;
  }
}

bool is_letter_or_digit(char c) { return kWords[static_cast<uint8_t>(c)] && c != '_'; }

}  // namespace

class NamePatternParser {
 public:
  explicit NamePatternParser(std::string_view text) : text_(text) {}

  Result<NamePattern> parse() {
    if (text_.size() > NamePattern::kMaxPatternBytes)
      return wrong(fmt::format("is longer than {} bytes", NamePattern::kMaxPatternBytes));
    PLIMSOLL_TRY(root, either());
    if (at_ < text_.size()) return wrong_here("a ) that nothing opens");
    pattern_.root_ = root;
    return std::move(pattern_);
  }

 private:
  using Kind = NamePattern::Kind;
  using Node = NamePattern::Node;
  using NodeId = NamePattern::NodeId;
  struct Repetition {
    uint32_t least = 0, most = 0;
  };

  static tl::unexpected<Error> wrong(std::string message) {
    return fail(
        {.message = std::move(message), .expected = "a regular expression, for example q_proj|v_proj"});
  }
  tl::unexpected<Error> wrong_here(const std::string& what) const { return wrong_at(at_, what); }
  static tl::unexpected<Error> wrong_at(size_t at, const std::string& what) {
    return wrong(fmt::format("is not a regular expression: {} at character {}", what, at + 1));
  }

  bool at_end() const { return at_ == text_.size(); }
  bool accept(std::string_view what) {
    if (!text_.substr(at_).starts_with(what)) return false;
    at_ += what.size();
    return true;
  }
  NodeId add(Node node) {
    pattern_.nodes_.push_back(std::move(node));
    return static_cast<NodeId>(pattern_.nodes_.size() - 1);
  }
  NodeId add_bytes(const ByteSet& bytes) { return add({.kind = Kind::kByte, .bytes = bytes}); }

  Result<NodeId> either() {
    Node node{.kind = Kind::kEither};
    do {
      PLIMSOLL_TRY(child, sequence());
      node.children.push_back(child);
    } while (accept("|"));
    return node.children.size() == 1 ? node.children[0] : add(std::move(node));
  }

  Result<NodeId> sequence() {
    Node node{.kind = Kind::kSequence};
    while (!at_end() && text_[at_] != '|' && text_[at_] != ')') {
      PLIMSOLL_TRY(child, repeated_atom());
      node.children.push_back(child);
    }
    return add(std::move(node));
  }

  Result<NodeId> repeated_atom() {
    const size_t start = at_;
    if (repetition()) return wrong_at(start, "nothing to repeat");
    PLIMSOLL_TRY(item, atom());
    const size_t quantifier = at_;
    const std::optional<Repetition> times = repetition();
    if (!times) return item;
    const Kind kind = pattern_.nodes_[item].kind;
    if (kind == Kind::kStart || kind == Kind::kEnd || kind == Kind::kWordBoundary)
      return wrong_at(quantifier, "nothing to repeat");
    if (times->least > times->most) return wrong_at(quantifier, "a least number above the most");
    const bool is_lazy = accept("?");  // the same matches, found in another order
    if (!is_lazy && accept("+")) return wrong_at(quantifier, "a possessive quantifier, which isn't read,");
    const size_t again = at_;
    if (repetition()) return wrong_at(again, "a second quantifier");
    return add({.kind = Kind::kRepeat, .least = times->least, .most = times->most, .children = {item}});
  }

  // A brace that is no quantifier is a literal.
  std::optional<Repetition> repetition() {
    if (accept("*")) return Repetition{.least = 0, .most = kWithoutEnd};
    if (accept("+")) return Repetition{.least = 1, .most = kWithoutEnd};
    if (accept("?")) return Repetition{.least = 0, .most = 1};
    const size_t start = at_;
    if (!accept("{")) return std::nullopt;
    const std::optional<uint32_t> least = count();
    const bool has_comma = accept(",");
    const std::optional<uint32_t> most = has_comma ? count() : least;
    if (!accept("}") || (!least && !has_comma)) {
      at_ = start;
      return std::nullopt;
    }
    return Repetition{.least = least.value_or(0), .most = most.value_or(kWithoutEnd)};
  }
  std::optional<uint32_t> count() {
    std::optional<uint32_t> number;
    for (; !at_end() && kDigits[static_cast<uint8_t>(text_[at_])]; ++at_)
      number = std::min(kMostTimes, number.value_or(0) * 10 + static_cast<uint32_t>(text_[at_] - '0'));
    return number;
  }

  Result<NodeId> atom() {
    if (accept("(")) return group();
    if (accept("[")) return byte_class();
    if (accept("\\")) return escape();
    if (accept("^")) return add({.kind = Kind::kStart});
    if (accept("$")) return add({.kind = Kind::kEnd});
    if (accept(".")) return add_bytes(~set_of("\n"));
    return add_bytes(set_of(text_.substr(at_++, 1)));
  }

  Result<NodeId> group() {
    const size_t start = at_ - 1;
    std::optional<Node> look;
    if (accept("?=")) look = Node{.kind = Kind::kAhead};
    if (!look && accept("?!")) look = Node{.kind = Kind::kAhead, .is_negated = true};
    if (!look && accept("?<=")) look = Node{.kind = Kind::kBehind};
    if (!look && accept("?<!")) look = Node{.kind = Kind::kBehind, .is_negated = true};
    if (!look && !accept("?:")) PLIMSOLL_CHECK(group_name(start));
    PLIMSOLL_TRY(inside, either());
    if (!accept(")")) return wrong_at(start, "a ( that nothing closes");
    if (!look) return inside;
    look->children = {inside};
    return add(std::move(*look));
  }
  Result<void> group_name(size_t start) {
    if (accept("?P<")) {
      const size_t end = text_.find('>', at_);
      const std::string_view name = text_.substr(at_, end == std::string_view::npos ? 0 : end - at_);
      const bool is_name = !name.empty() && !kDigits[static_cast<uint8_t>(name[0])] &&
                           std::ranges::all_of(name, [](char c) { return kWords[static_cast<uint8_t>(c)]; });
      if (!is_name) return wrong_at(start, "a group without a proper name");
      at_ = end + 1;
    } else if (accept("?")) {
      return wrong_at(start, "a group that isn't read (flag, comment, condition or back reference)");
    }
    return {};
  }

  // Behind the backslash, outside a class.
  Result<NodeId> escape() {
    const size_t start = at_ - 1;
    if (at_end()) return wrong_at(start, "a backslash before nothing");
    const char c = text_[at_];
    if (c == 'b' || c == 'B') return ++at_, add({.kind = Kind::kWordBoundary, .is_negated = c == 'B'});
    if (c == 'A') return ++at_, add({.kind = Kind::kStart});
    if (c == 'Z') return ++at_, add({.kind = Kind::kEnd});
    if (c >= '1' && c <= '9') return wrong_at(start, "a back reference, which isn't read,");
    PLIMSOLL_TRY(bytes, escaped(start));
    return add_bytes(bytes);
  }
  // Of what means the same inside a class and outside.
  Result<ByteSet> escaped(size_t start) {
    const char c = text_[at_++];
    if (const std::optional<ByteSet> set = class_of(c)) return *set;
    constexpr std::string_view kNames = "tnrfva", kBytes = "\t\n\r\f\v\a";
    if (const size_t known = kNames.find(c); known != std::string_view::npos)
      return set_of(kBytes.substr(known, 1));
    if (is_letter_or_digit(c)) return wrong_at(start, fmt::format("the escape \\{}, which isn't read,", c));
    return set_of(std::string_view(&c, 1));
  }

  Result<NodeId> byte_class() {
    const size_t start = at_ - 1;
    const bool is_negated = accept("^");
    ByteSet bytes;
    for (bool is_first = true; is_first || at_end() || text_[at_] != ']'; is_first = false) {
      if (at_end()) return wrong_at(start, "a [ that nothing closes");
      const size_t item = at_;
      PLIMSOLL_TRY(first, class_item(start));
      const std::string_view rest = text_.substr(at_);
      const bool is_range = rest.size() >= 2 && rest[0] == '-' && rest[1] != ']';
      if (!is_range) {
        bytes |= first;
        continue;
      }
      ++at_;
      PLIMSOLL_TRY(last, class_item(start));
      const std::optional<uint8_t> from = single(first), to = single(last);
      if (!from || !to || *from > *to) return wrong_at(item, "a range without a beginning and an end");
      bytes |= range_of(*from, *to);
    }
    ++at_;
    return add_bytes(is_negated ? ~bytes : bytes);
  }
  Result<ByteSet> class_item(size_t start) {
    if (!accept("\\")) return set_of(text_.substr(at_++, 1));
    if (at_end()) return wrong_at(start, "a [ that nothing closes");
    if (accept("b")) return set_of("\b");
    return escaped(at_ - 1);
  }
  static std::optional<uint8_t> single(const ByteSet& bytes) {
    if (bytes.count() != 1) return std::nullopt;
    size_t byte = 0;
    while (!bytes[byte]) ++byte;
    return static_cast<uint8_t>(byte);
  }

  std::string_view text_;
  size_t at_ = 0;
  NamePattern pattern_;
};

Result<NamePattern> NamePattern::parse(std::string_view text) { return NamePatternParser(text).parse(); }

}  // namespace plimsoll
