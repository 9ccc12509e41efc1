// Which part of the model a pipeline rank holds, and the parameters of that part in the order in which
// Megatron-Core registers them.
//
//   PLIMSOLL_TRY(stage, stage_of(architecture, job, pipeline_rank));
//   stage.chunks[0].first_layer;                       // of the whole model's layers
//   parameters_of(architecture, job, stage.chunks[0]);  // shapes of one tensor-parallel rank
//
// Source: megatron/core/transformer/transformer_block.py (get_num_layers_to_build),
// transformer_layer.py (get_transformer_layer_offset), models/gpt/gpt_model.py, gpt_layer_specs.py.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "model/architecture.h"
#include "strategy/job.h"

namespace plimsoll::megatron {

struct Chunk {
  int64_t first_layer = 0, layers = 0;
  bool has_embedding = false, has_head = false;
};

struct Stage {
  int64_t rank = 0, ranks = 1;  // in the pipeline
  std::vector<Chunk> chunks;    // one, or one for each virtual stage

  bool is_first() const { return rank == 0; }
  bool is_last() const { return rank == ranks - 1; }
};

// Errors: layers that the stages can't divide.
Result<Stage> stage_of(const Architecture& architecture, const ResolvedJob& job, int64_t pipeline_rank);

struct StageParameter {
  std::string name;  // below the chunk: "decoder.layers.0.mlp.linear_fc1.weight"
  std::vector<int64_t> shape;
  bool is_decayed = true;  // biases and norms have no weight decay: a parameter group of their own
  bool is_shared = false;  // the word embedding's copy in the last stage
  bool is_made_on_host = false;
  bool is_cast_on_host = false;  // before it is copied, not behind
  bool is_expert = false;        // of routed experts, which have data-parallel groups of their own
  bool is_split = false;         // each tensor-parallel rank has another part

  int64_t elements() const;
};
std::vector<StageParameter> parameters_of(const Architecture& architecture, const ResolvedJob& job,
                                          const Chunk& chunk);

// Whether the norm behind the last layer is Transformer Engine's: with local layers too, but in models with
// experts, whose blocks' spec names it. Source: transformer_block.py (_get_block_submodules),
// gpt_layer_specs.py (get_gpt_decoder_block_spec).
bool has_te_final_norm(const Architecture& architecture, const ResolvedJob& job);

// The vocabulary with what is added so that it divides. Source: megatron/training/tokenizer
// (_vocab_size_with_padding).
int64_t padded_vocab(const Architecture& architecture, const ResolvedJob& job);

}  // namespace plimsoll::megatron
