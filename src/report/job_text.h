// A resolved job in a few lines for people.
#pragma once

#include <string>

#include "estimate/estimate.h"

namespace plimsoll {

// "llama-3.1-8b (8,030,261,248 parameters) on 8 x NVIDIA H100 80GB HBM3 (SXM5)" and what the step is.
std::string job_headline(const Estimate& estimate);

}  // namespace plimsoll
