// What a rank found in its files, as short texts that the ranks compare before the first step
// (train/agreement.h): machines may have copies of their own, and an old one among them would train the model
// on other data, or begin with other weights, without a sign of it in the losses.
//
// Does not model: all of the bytes. A sample of them is read, so that it costs no time; copies that differ
// elsewhere only are taken for equal.
#pragma once

#include <string>

#include "base/result.h"
#include "corpus/corpus.h"
#include "weights/model_weights.h"

namespace plimsoll {

// Tokens, the fingerprint, and a CRC-32 of windows spread evenly over the corpus. Errors: as Corpus::read().
Result<std::string> found_text(const Corpus& corpus);

// Tensors and bytes, and a CRC-32 of names, types, shapes and each tensor's first bytes. Errors: as
// ModelWeights::read().
Result<std::string> found_text(const ModelWeights& weights);

}  // namespace plimsoll
