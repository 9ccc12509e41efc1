#include "strategy/name_pattern.h"

namespace plimsoll {
namespace {

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

}  // namespace

// One name: where a node's matches end that begin at any of some places.
class NamePattern::Match {
 public:
  Match(const NamePattern& pattern, std::string_view name, PatternEffort& effort)
      : pattern_(pattern), name_(name), effort_(effort) {
    for (size_t place = 0; place <= name.size(); ++place) all_.set(place);
  }

  const Places& all() const { return all_; }

  Places ends(NodeId id, const Places& from) {
    if (from.none() || --effort_.steps_left <= 0) return {};
    const Node& node = pattern_.nodes_[id];
    switch (node.kind) {
      case Kind::kByte:
        return after_byte(node, from);
      case Kind::kSequence: {
        Places at = from;
        for (const NodeId child : node.children) at = ends(child, at);
        return at;
      }
      case Kind::kEither: {
        Places at;
        for (const NodeId child : node.children) at |= ends(child, from);
        return at;
      }
      case Kind::kRepeat:
        return repeated(node, from);
      case Kind::kStart:
        return from & Places(1);
      case Kind::kEnd:
        return from & (Places(1) << name_.size());
      case Kind::kWordBoundary:
        return where(from, node.is_negated, [&](size_t place) { return is_boundary(place); });
      case Kind::kAhead:
        return where(from, node.is_negated,
                     [&](size_t place) { return ends(node.children[0], Places(1) << place).any(); });
      case Kind::kBehind: {
        const Places behind = ends(node.children[0], all_);
        return from & (node.is_negated ? ~behind : behind);
      }
    }
    return {};
  }

 private:
  Places after_byte(const Node& node, const Places& from) const {
    Places to;
    for (size_t place = 0; place < name_.size(); ++place)
      if (from[place] && node.bytes[static_cast<uint8_t>(name_[place])]) to.set(place + 1);
    return to;
  }

  Places repeated(const Node& node, const Places& from) {
    Places at = from;
    for (uint32_t i = 0; i < node.least && at.any(); ++i) {
      const Places next = ends(node.children[0], at);
      if (next == at) break;  // so will all that follow
      at = next;
    }
    Places newly = at;
    for (uint32_t i = node.least; i < node.most && newly.any(); ++i) {
      newly = ends(node.children[0], newly) & ~at;
      at |= newly;
    }
    return at;
  }

  template <typename Holds>
  Places where(const Places& from, bool is_negated, Holds holds) const {
    Places to;
    for (size_t place = 0; place <= name_.size(); ++place)
      if (from[place] && holds(place) != is_negated) to.set(place);
    return to;
  }

  bool is_boundary(size_t place) const {
    const bool before = place > 0 && is_word(name_[place - 1]);
    const bool after = place < name_.size() && is_word(name_[place]);
    return before != after;
  }

  const NamePattern& pattern_;
  std::string_view name_;
  PatternEffort& effort_;
  Places all_;
};

bool NamePattern::is_in(std::string_view name, PatternEffort& effort) const {
  Match match(*this, name, effort);
  return match.ends(root_, match.all()).any();
}

}  // namespace plimsoll
