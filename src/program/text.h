// The text form of a Program, for people and for tests' fixtures. One statement a line; what is written reads
// back as the same program (docs/program_text.md has the grammar).
//
//   plimsoll program 1 forward
//   tensor %0:bf16[32,64] grad parameter of @up_proj.weight
//   tensor %1:bf16[4,64] input
//   %2:bf16[64,32]/[1,64] grad view = Transpose(%0) {order [0,1]} @up_proj
//   %3:bf16[4,32] grad = Mm(%1, %2) @up_proj
//   drop %2
//
// Numbers of tensors, storages, regions and sections are those of the program; ops and modules, which no
// statement names by number, are numbered anew in the order in which they are mentioned.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "program/program.h"

namespace plimsoll {

std::string to_text(const Program& program);
// One statement, as errors show it: "free s7 saved".
std::string to_text(const Program& program, const Statement& statement);

// Any bytes may be given: what is no program is refused with line and column.
Result<Program> parse_program(std::string_view text, std::string_view file);

}  // namespace plimsoll
