// Units: the parameters that one gather brings and one reduction takes, laid end to end in one flat tensor
// that the ranks divide evenly. Units are the token embeddings, each block, and the head with the last norm;
// tied embeddings and head are one unit.
//
//   embed_tokens | pad            q_proj | pad | k_proj | pad | ... | pad to a multiple of ranks x 16
//   0 ------------ elements       each tensor starts at a multiple of 16 elements
//
// Source: the alignment is the width of a vector register in fp32, so that every tensor and every rank's part
// of a unit starts aligned. Padding is zero and stays zero.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/architecture.h"

namespace plimsoll::native {

inline constexpr int64_t kUnitAlignment = 16;  // elements

struct UnitTensor {
  size_t parameter = 0;  // index into Architecture::parameters
  int64_t offset = 0;    // elements from the unit's beginning
  int64_t elements = 0;
};

enum class UnitKind { kEmbedding, kBlock, kHead, kRoot };  // kRoot: tied embeddings and head

struct Unit {
  UnitKind kind = UnitKind::kBlock;
  std::string name;  // "model.layers.3", "embedding", "head", "root"
  std::vector<UnitTensor> tensors;
  int64_t elements = 0;  // with padding: a multiple of ranks x kUnitAlignment
};

// In the order in which a forward pass first needs them.
std::vector<Unit> make_units(const Architecture& architecture, int64_t ranks);

}  // namespace plimsoll::native
