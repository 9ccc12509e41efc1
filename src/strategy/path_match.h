// Which of some known names, dotted paths among them, a user may have meant.
//
//   did_you_mean("batch.seqence", paths);   // "did you mean batch.sequence?"; empty when nothing is near
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

// Up to three names: few letters apart, or the same last part ("sequence" for "batch.sequence"), or one
// begins with the other. Nearest first, then in the order of `names`. Only the first 64 letters of `word`
// count.
std::vector<std::string> near_paths(std::string_view word, const std::vector<std::string>& names);

std::string did_you_mean(std::string_view word, const std::vector<std::string>& names);

}  // namespace plimsoll
