// Source: torchtitan/models/{llama3,qwen3}/model/{model,state_dict_adapter}.py.
#include "frameworks/torchtitan/architecture.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>

namespace plimsoll::torchtitan {
namespace {

struct Name {
  std::string_view transformers, torchtitan;
};
// In torchtitan's order of registration.
constexpr Name kBlock[] = {{"self_attn.q_norm", "attention.q_norm"}, {"self_attn.k_norm", "attention.k_norm"},
                           {"self_attn.q_proj", "attention.wq"},     {"self_attn.k_proj", "attention.wk"},
                           {"self_attn.v_proj", "attention.wv"},     {"self_attn.o_proj", "attention.wo"},
                           {"mlp.gate_proj", "feed_forward.w1"},     {"mlp.down_proj", "feed_forward.w2"},
                           {"mlp.up_proj", "feed_forward.w3"},       {"input_layernorm", "attention_norm"},
                           {"post_attention_layernorm", "ffn_norm"}};
constexpr Name kFirst{"model.embed_tokens", "tok_embeddings"};
constexpr Name kLast[] = {{"model.norm", "norm"}, {"lm_head", "output"}};

class Renaming {
 public:
  explicit Renaming(const Architecture& architecture) : from_(architecture), to_(architecture) {
    to_.parameters.clear();
    for (const ParameterTensor& p : from_.parameters) left_[p.name] = &p;
  }

  Result<Architecture> rename(int64_t sequence) {
    take(kFirst, "", "");
    for (size_t i = 0; i < from_.layers.size(); ++i)
      for (const Name& name : kBlock)
        take(name, fmt::format("model.layers.{}.", i), fmt::format("layers.{}.", i));
    for (const Name& name : kLast) take(name, "", "");
    if (!left_.empty())
      return fail({.position = {.key = "model"},
                   .message = fmt::format("torchtitan's {} has no parameter like {}", from_.family,
                                          left_.begin()->first),
                   .expected = "a model without it"});
    const int64_t head_dim = from_.layers.front().attention.head_dim;
    if (from_.family == "qwen3") {  // cosines and sines
      to_.buffers = {{.name = "rope_cache", .shape = {sequence, 2 * head_dim}}};
      return std::move(to_);
    }
    to_.buffers = {
        {.name = "freqs_cis", .shape = {sequence, head_dim / 2}, .element_bytes = 8, .is_complex = true}};
    return std::move(to_);
  }

 private:
  void take(const Name& name, const std::string& from_prefix, const std::string& to_prefix) {
    const auto found = left_.find(fmt::format("{}{}.weight", from_prefix, name.transformers));
    if (found == left_.end()) return;
    ParameterTensor renamed = *found->second;
    renamed.name = fmt::format("{}{}.weight", to_prefix, name.torchtitan);
    to_.parameters.push_back(std::move(renamed));
    left_.erase(found);
  }

  const Architecture& from_;
  Architecture to_;
  std::map<std::string, const ParameterTensor*> left_;
};

}  // namespace

Result<Architecture> torchtitan_architecture(const Architecture& architecture, int64_t sequence) {
  return Renaming(architecture).rename(sequence);
}

}  // namespace plimsoll::torchtitan
