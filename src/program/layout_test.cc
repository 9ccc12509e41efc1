// Strides against what PyTorch itself made of the same operands: layout_cases.txt, whose first line names its
// maker. The few tests with values written here say why a rule is needed.
#include "program/layout.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/units.h"

namespace plimsoll {
namespace {

std::vector<int64_t> integers(const std::string& text) {
  std::vector<int64_t> result;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');)
    if (part != "[]") result.push_back(std::stoll(part));
  return result;
}

Layout layout_of(const std::string& text) {
  const size_t slash = text.find('/');
  Layout layout = Layout::contiguous(integers(text.substr(0, slash)));
  const std::vector<int64_t> strides = integers(text.substr(slash + 1));
  std::copy(strides.begin(), strides.end(), layout.strides.begin());
  return layout;
}

std::string text_of(const Layout& layout) {
  const std::span<const int64_t> strides(layout.strides.data(), layout.shape().size());
  return fmt::format("{}/{}", fmt::join(layout.shape(), ","), fmt::join(strides, ","));
}

unsigned mask_of(const std::vector<int64_t>& dims) {
  unsigned mask = 0;
  for (int64_t dim : dims) mask |= 1U << static_cast<unsigned>(dim);
  return mask;
}

std::string result_of(const std::string& operation, const std::vector<std::string>& operands) {
  const Layout first = layout_of(operands[0]);
  if (operation == "like") return text_of(first.like());
  if (operation == "pointwise") {
    std::vector<Layout> layouts;
    for (const std::string& operand : operands) layouts.push_back(layout_of(operand));
    std::vector<const Layout*> pointers;
    for (const Layout& layout : layouts) pointers.push_back(&layout);
    return text_of(pointwise_layout(pointers));
  }
  const std::vector<int64_t> argument = integers(operands[1]);
  if (operation == "view") {
    const std::optional<Layout> view = first.viewed(argument);
    return view ? text_of(*view) : "copy";
  }
  if (operation == "expand") return text_of(first.expanded(argument));
  if (operation == "unsqueeze") return text_of(first.unsqueezed(static_cast<int>(argument[0])));
  if (operation == "sum") return text_of(reduced(first, mask_of(argument), false));
  if (operation == "sum_keep") return text_of(reduced(first, mask_of(argument), true));
  return "unknown operation";
}

TEST(Layout, HasTheStridesThatPyTorchHas) {
  std::ifstream file(PLIMSOLL_SOURCE_DIR "/src/program/layout_cases.txt");
  int cases = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    std::string operation, word, expected;
    std::vector<std::string> operands;
    words >> operation;
    while (words >> word && word != "->") operands.push_back(word);
    words >> expected;
    EXPECT_EQ(result_of(operation, operands), expected) << line;
    ++cases;
  }
  EXPECT_GE(cases, 400);
}

// Attention's output is laid out as its query: heads and sequence swapped back is contiguous, so the reshape
// to [b, s, heads * d] is a view; from a contiguous [b, heads, s, d] it would be a copy.
TEST(Layout, AttentionOutputReshapesWithoutCopy) {
  const Layout query = Layout::contiguous({2, 8, 4, 16}).transposed(1, 2);
  EXPECT_TRUE(query.like().transposed(1, 2).viewed(std::vector<int64_t>{2, 8, 64}));
  EXPECT_FALSE(Layout::contiguous({2, 4, 8, 16}).transposed(1, 2).viewed(std::vector<int64_t>{2, 8, 64}));
}

TEST(Layout, ProductsOfHostileSizesSaturate) {
  const Layout huge = Layout::contiguous({int64_t{1} << 40, int64_t{1} << 40});
  EXPECT_EQ(huge.elements(), kMaxQuantity);
}

}  // namespace
}  // namespace plimsoll
