#include "cli/parse_errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll {
namespace {

using ::testing::HasSubstr;

Error error_of(const std::vector<std::string>& arguments) {
  return unexpected_arguments(
      arguments,
      {{.name = "estimate", .options = {"--gpu", "--micro-batch", "--global-batch", "--seq"}},
       {.name = "gpus"}},
      "one too many");
}

TEST(ParseErrors, ACommandThatIsNone) {
  const Error error = error_of({"esitmate", "gpt2"});
  EXPECT_EQ(error.message, "no command is called \"esitmate\"");
  EXPECT_EQ(error.hint, "did you mean estimate?");
  EXPECT_EQ(error.expected, "one of estimate, gpus");
}

TEST(ParseErrors, AnOptionThatIsNone) {
  const Error error = error_of({"estimate", "gpt2", "--gpu", "h100", "--batch", "7"});
  EXPECT_EQ(error.message, "estimate has no option --batch");
  EXPECT_THAT(error.hint, HasSubstr("did you mean --micro-batch or --global-batch?"));
  EXPECT_THAT(error_of({"estimate", "--sequence=5"}).message, HasSubstr("no option --sequence"));
}

TEST(ParseErrors, AnythingElseInTheParsersWords) {
  EXPECT_EQ(error_of({"estimate", "gpt2", "--gpu", "h100", "more"}).message, "one too many");
  EXPECT_EQ(error_of({"--foo"}).message, "one too many");
}

}  // namespace
}  // namespace plimsoll
