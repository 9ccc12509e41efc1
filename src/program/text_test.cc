#include "program/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program/ops.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kMlp = R"(plimsoll program 1 forward
note "a small MLP"
tensor %0:bf16[8,4] grad parameter of @mlp.up.weight
tensor %1:bf16[2,4] input of @x
parameters (%0)
region r0 block @mlp (%1) -> (%4) non_reentrant unit
begin r0  # mlp
%2:bf16[4,8]/[1,4] grad view = Transpose(%0) {order [0,1]} @mlp.up
%3:bf16[2,8] grad = Mm(%1, %2) @mlp.up
drop %2
%4:bf16[2,8] grad = Silu(%3) @mlp.act
drop %3
end r0
)";

TEST(ProgramText, ReadsAndWritesAForwardProgram) {
  const Result<Program> program = parse_program(kMlp, "mlp");
  ASSERT_TRUE(program) << program.error().to_text();
  EXPECT_EQ(to_text(*program), kMlp);
  EXPECT_EQ(program->ops.size(), 3);
  EXPECT_EQ(program->storages.size(), 4);
  EXPECT_EQ(program->storage_of(TensorId{3}).bytes, Bytes{2 * 8 * 2});
  EXPECT_EQ(program->module_name(program->storage_of(TensorId{3}).owner), "mlp.up");
  EXPECT_EQ(program->tensor(TensorId{2}).storage, program->tensor(TensorId{0}).storage);
  EXPECT_EQ(program->regions[0].checkpoint, Checkpoint::kNonReentrant);
}

// What a recorder wrote and the text's program are the same, in numbers too.
TEST(ProgramText, WritesWhatARecorderRecorded) {
  Program program;
  Recorder recorder(program, Recorder::Mode::kForward);
  {
    const Value weight = recorder.persistent(Layout::contiguous({8, 4}), DType::kBFloat16,
                                             Category::kParameter, program.module("mlp.up.weight"), true);
    const Value x = recorder.persistent(Layout::contiguous({2, 4}), DType::kBFloat16, Category::kInput,
                                        program.module("x"));
    const With<ModuleId> module(recorder.module, program.module("mlp.up"));
    const Value y = ops::silu(ops::mm(x, ops::transpose(weight, 0, 1)));
    recorder.finish();
  }
  EXPECT_EQ(to_text(program), R"(plimsoll program 1 forward
tensor %0:bf16[8,4] grad parameter of @mlp.up.weight
tensor %1:bf16[2,4] input of @x
%2:bf16[4,8]/[1,4] grad view = Transpose(%0) {order [0,1]} @mlp.up
%3:bf16[2,8] grad = Mm(%1, %2) @mlp.up
drop %2
%4:bf16[2,8] grad = Silu(%3) @mlp.up
drop %3
)");
}

TEST(ProgramText, ReadsACompleteProgram) {
  constexpr std::string_view kText = R"(plimsoll program 1 complete
group "world"
section 0 begin "load"
%0:fp32[16] s0 parameter of @w = Empty()
section 0 end
section 1 begin "forward"
%1:bf16[64] s1 gather_buffer = Empty() on all_gather
AllGather(%1, %0) {group 0} on all_gather
free s1 communication
section 1 end
play 0 as "load"
play 1 as "fwd1"
play 1 as "fwd2"
)";
  const Result<Program> program = parse_program(kText, "gather");
  ASSERT_TRUE(program) << program.error().to_text();
  EXPECT_EQ(to_text(*program), kText);
  EXPECT_EQ(program->schedule.size(), 3);
  EXPECT_EQ(program->sections[1].last_statement, 4);
  EXPECT_EQ(to_text(*program, program->statements[3]), "free s1 communication");
}

struct Mistake {
  std::string_view line;     // after the header and a tensor %0
  std::string_view message;  // in the error
  int line_number = 3, column = 1;
};

TEST(ProgramText, NamesTheMistakeAndItsPlace) {
  const Mistake mistakes[] = {
      {"drop %7", "tensor %7 is defined nowhere", 3, 6},
      {"drop", "expected: a tensor", 3, 5},
      {"frob %0", "unknown op \"frob\"", 3, 1},
      {"%1:bf17[2] = Silu(%0)", "unknown dtype \"bf17\"", 3, 4},
      {"%1:bf16[2,2,2,2,2,2,2] = Silu(%0)", "too many dims", 3, 21},
      {"%1:bf16[-2] = Silu(%0)", "out of range", 3, 9},
      {"%1:bf16[99999999999999999999] = Silu(%0)", "out of range", 3, 9},
      {"%0:bf16[2] = Silu(%0)", "%0 is defined a second time", 3, 1},
      {"%1:bf16[2], %1 = Silu(%0)", "%1 is a result twice", 3, 13},
      {"%1:bf16[2] s0 logits = Silu(%0)", "storage s0 was described before", 3, 1},
      {"%1:bf16[2]/[1,1] = Silu(%0)", "as many strides", 3, 18},
      {"%1:bf16[2] = Silu(%0) {nan}", "a number", 3, 24},
      {"%1:bf16[2] = Silu(%0) extra", "the end of the line", 3, 23},
      {"free s0 nobody", "unknown holder \"nobody\"", 3, 9},
      {"begin r0", "region r0 is defined nowhere", 3, 7},
      {"section 0 end", "section 0 isn't open", 3, 9},
      {"play 0 as \"x\"", "section 0 is defined nowhere", 3, 6},
      {"note \"x", "doesn't end on its line", 3, 6},
      {"note \"\\q\"", "escapes nothing", 3, 6},
  };
  for (const Mistake& m : mistakes) {
    const std::string text =
        "plimsoll program 1 forward\ntensor %0:bf16[2] input\n" + std::string(m.line) + "\n";
    const Result<Program> program = parse_program(text, "bad.txt");
    ASSERT_FALSE(program) << m.line;
    EXPECT_THAT(program.error().to_text(), HasSubstr(m.message));
    EXPECT_EQ(program.error().position.line, m.line_number) << m.line;
    EXPECT_EQ(program.error().position.column, m.column) << m.line;
  }
}

TEST(ProgramText, RefusesWhatIsNoProgram) {
  for (const char* text : {"", "\n\n# only a comment", "hello", "plimsoll program 2 forward",
                           "plimsoll program 1 sideways", "plimsoll program 1 forward backward"})
    EXPECT_FALSE(parse_program(text, "none")) << text;
  const Result<Program> gap =
      parse_program("plimsoll program 1 forward\ntensor %4000000:bf16[2] input\n", "gap");
  ASSERT_FALSE(gap);
  EXPECT_THAT(gap.error().to_text(), HasSubstr("tensor %0 is missing"));
}

}  // namespace
}  // namespace plimsoll
