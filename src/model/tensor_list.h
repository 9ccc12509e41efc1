// Writes an Architecture's parameter and buffer tensors in order, with names relative to the current layer.
//
//   TensorList list(architecture);
//   list.embedding("model.embed_tokens", vocab, hidden);             // "model.embed_tokens.weight" [vocab,
//   hidden] list.begin_layer("model.layers", 0); list.linear("self_attn.q_proj", query_rows, hidden,
//   /*has_bias=*/false);  // [query_rows, hidden] list.end_layers();
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "model/architecture.h"

namespace plimsoll {

// Length of one dimension and what it means.
struct Extent {
  int64_t size = 0;
  Dim dim = Dim::kNone;
};

class TensorList {
 public:
  // REQUIRES the architecture outlives the list.
  explicit TensorList(Architecture& architecture) : architecture_(architecture) {}

  void begin_layer(std::string_view container, size_t layer);  // names get "container.3." in front
  void end_layers();

  // A parameter of its own name, "experts.gate_up_proj".
  ParameterTensor& parameter(std::string_view name, std::initializer_list<Extent> shape);
  // The same, routed: is_expert.
  void expert(std::string_view name, std::initializer_list<Extent> shape);
  // weight [out, in], and bias [out].
  void linear(std::string_view name, Extent out, Extent in, bool has_bias);
  // weight [in, out] (GPT-2's Conv1D), and bias [out].
  void transposed_linear(std::string_view name, Extent in, Extent out, bool has_bias);
  void embedding(std::string_view name, Extent rows, Extent columns);  // weight [rows, columns]
  // weight and bias [width] as the norm has them.
  void norm(std::string_view name, Extent width, const Norm& norm);
  // `alias` becomes a second name of the parameter `name`. REQUIRES that it is there.
  void tie(std::string_view name, std::string_view alias);
  // A buffer that a checkpoint doesn't have.
  BufferTensor& buffer(std::string_view name, std::vector<int64_t> shape, int64_t element_bytes);

 private:
  Architecture& architecture_;
  std::string prefix_;
  std::optional<int> layer_;
};

}  // namespace plimsoll
