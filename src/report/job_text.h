// A resolved job in a few lines for people.
#pragma once

#include <string>
#include <string_view>

#include "estimate/estimate.h"

namespace plimsoll {

// "llama-3.1-8b (8,030,261,248 parameters) on 8 x NVIDIA H100 80GB HBM3 (SXM5)" and what the step is.
std::string job_headline(const Estimate& estimate);
// "FITS: peak 52.84 GiB of 79.10 GiB on each GPU, 26.26 GiB to spare"
std::string verdict_line(const Estimate& estimate);

// The line in pieces of at most 118 columns, broken at spaces; later pieces are indented further.
std::string wrapped(std::string_view line);

}  // namespace plimsoll
