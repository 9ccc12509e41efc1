// BERT and RoBERTa with the masked-language-model head: encoders with norms after each addition.
#pragma once

#include <vector>

#include "model/family.h"

namespace plimsoll {

std::vector<Family> bert_families();

}  // namespace plimsoll
