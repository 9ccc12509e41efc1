#include "strategy/name_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

namespace plimsoll {
namespace {

using ::testing::HasSubstr;

constexpr std::array<std::string_view, 23> kNames = {"",
                                                     "a",
                                                     "ab",
                                                     "aab",
                                                     "abcd",
                                                     "aaa",
                                                     "model.layers.0.self_attn.q_proj.weight",
                                                     "model.layers.1.mlp.gate_proj.bias",
                                                     "model.layers.12.self_attn.k_proj.bias",
                                                     "model.norm.weight",
                                                     "lm_head.weight",
                                                     "]z",
                                                     "bz",
                                                     "c9",
                                                     "d9",
                                                     "aabaa",
                                                     "xy",
                                                     "a b",
                                                     "a-z",
                                                     "a{x",
                                                     "--]-",
                                                     "abcbcd",
                                                     "y"};

// For each name whether re.search() of Python 3.11 finds the pattern in it; or an error, of Python or of what
// isn't read.
struct Case {
  std::string_view pattern, found;
};
constexpr Case kCases[] = {{"q_proj|v_proj", "00000010000000000000000"},
                           {"^model", "00000011110000000000000"},
                           {"norm$", "00000000000000000000000"},
                           {"^$", "10000000000000000000000"},
                           {"layers\\.[02468]\\.", "00000010000000000000000"},
                           {"layers\\.(?!1\\.)\\d+\\.", "00000010100000000000000"},
                           {"(?<=self_attn\\.)[qk]_", "00000010100000000000000"},
                           {"(?<!self_attn\\.)[qk]_", "00000000000000000000000"},
                           {"\\bmlp\\b", "00000001000000000000000"},
                           {"\\Bmlp", "00000000000000000000000"},
                           {"(a|ab)(c|bcd)(d*)$", "00001000000000000000000"},
                           {"a{2}", "00010100000000010000000"},
                           {"a{2,}b", "00010000000000010000000"},
                           {"a{,2}b", "00111001100010010100010"},
                           {"a{x", "00000000000000000001000"},
                           {"{", "00000000000000000001000"},
                           {"[]a]z", "00000000000100000000000"},
                           {"[^]a]z", "00000000000010000010000"},
                           {"[a-c\\d]9", "00000000000001000000000"},
                           {"\\w+\\.\\w+\\.weight\\Z", "00000010010000000000000"},
                           {"\\Amodel", "00000011110000000000000"},
                           {"(?P<n>q|k)_proj", "00000010100000000000000"},
                           {"(?:ab)+?c", "00001000000000000000010"},
                           {"x??y", "00000011100000001000001"},
                           {"(a*)+$", "11111111111111111111111"},
                           {"^(a?){3}$", "11000100000000000000000"},
                           {"^(aa|aab)*$", "10010000000000010000000"},
                           {"[\\]\\-]-", "00000000000000000000100"},
                           {"\\.", "00000011111000000000000"},
                           {"a|", "11111111111111111111111"},
                           {"(|a)b", "00111001100010010100010"},
                           {"a$b", "00000000000000000000000"},
                           {"(?=.*bias).*proj", "00000001100000000000000"},
                           {"(?=(a+))a*b", "00111000000000010000010"},
                           {"[.]", "00000011111000000000000"},
                           {"\\x", "error"},
                           {"(?i)a", "error"},
                           {"(a", "error"},
                           {"a)", "error"},
                           {"*a", "error"},
                           {"a**", "error"},
                           {"a*+", "error"},
                           {"^*", "error"},
                           {"[b-a]", "error"},
                           {"[a", "error"},
                           {"\\", "error"},
                           {"(?P=n)", "error"},
                           {"a{3,2}", "error"},
                           {"(?#c)a", "error"},
                           {"(a)\\1", "error"},
                           {"[\\w-]z", "00000000000010000010000"},
                           {"(?P<1>a)", "error"},
                           {"(?=a)*b", "00111001100010010100010"},
                           {"a{0}b", "00111001100010010100010"},
                           {"\\S\\s", "00000000000000000100000"},
                           {"$^", "10000000000000000000000"}};

std::string found_in_names(std::string_view text) {
  const Result<NamePattern> pattern = NamePattern::parse(text);
  if (!pattern) return "error";
  std::string found;
  PatternEffort effort;
  for (const std::string_view name : kNames) found += pattern->is_in(name, effort) ? '1' : '0';
  return found;
}

TEST(NamePattern, FindsWhatPythonFinds) {
  for (const Case& c : kCases) EXPECT_EQ(found_in_names(c.pattern), c.found) << c.pattern;
}

TEST(NamePattern, ErrorsTellThePlace) {
  const auto error_of = [](std::string_view text) {
    const Result<NamePattern> pattern = NamePattern::parse(text);
    return pattern ? std::string("no error") : pattern.error().message;
  };
  EXPECT_EQ(error_of("ab(c"), "is not a regular expression: a ( that nothing closes at character 3");
  EXPECT_EQ(error_of("ab)c"), "is not a regular expression: a ) that nothing opens at character 3");
  EXPECT_THAT(error_of("a**"), HasSubstr("a second quantifier at character 3"));
  EXPECT_THAT(error_of("(a)\\1"), HasSubstr("a back reference, which isn't read, at character 4"));
  EXPECT_THAT(error_of(std::string(257, 'a')), HasSubstr("is longer than 256 bytes"));
}

TEST(NamePattern, CostIsBounded) {
  const std::string name(500, 'a');
  std::string nested = "b";
  for (int i = 0; i < 30; ++i) nested = "(?=.*" + nested + ")";
  PatternEffort effort{.steps_left = 100'000};
  NamePattern::parse(nested)->is_in(name, effort);
  EXPECT_TRUE(effort.is_spent());
  // Repetitions in a row or within each other are cheap: no place is passed twice.
  std::string row, inner = "a*";
  for (int i = 0; i < 50; ++i) row += "(.*)*";
  for (int i = 0; i < 60; ++i) inner = "(" + inner + ")*";
  for (const std::string& cheap : {row + "x", "^" + inner + "b"}) {
    PatternEffort little{.steps_left = 40'000};
    EXPECT_FALSE(NamePattern::parse(cheap)->is_in(name, little));
    EXPECT_FALSE(little.is_spent()) << cheap;
  }
}

}  // namespace
}  // namespace plimsoll
