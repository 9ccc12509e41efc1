// The reader of model configurations takes any bytes. What it accepts can be divided by, counted and laid
// out.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "importers/hf_config/hf_config.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void check(const plimsoll::Layer& layer) {
  const plimsoll::Attention& attention = layer.attention;
  require(layer.mlp.has_value() != layer.moe.has_value());
  require(attention.kv_heads > 0 && attention.heads % attention.kv_heads == 0);
  require(attention.head_dim > 0 && attention.value_head_dim > 0);
  require(attention.rotary_dim >= 0 && attention.rotary_dim <= attention.head_dim);
  require(!attention.window || *attention.window > 0);
  if (layer.mlp) require(layer.mlp->intermediate > 0);
  if (layer.moe)
    require(layer.moe->experts_per_token > 0 && layer.moe->experts_per_token <= layer.moe->experts);
}

void check(const plimsoll::Architecture& a) {
  require(!a.layers.empty() && a.vocab > 0 && a.hidden > 0 && a.embedding_dim > 0);
  for (const plimsoll::Layer& layer : a.layers) check(layer);
  for (const plimsoll::ParameterTensor& p : a.parameters) {
    require(p.dims.size() == p.shape.size() && p.elements() > 0);
    require(!p.layer || static_cast<size_t>(*p.layer) < a.layers.size());
  }
  const int64_t count = a.parameter_count();
  require(count > 0 && count < plimsoll::kMaxQuantity);
  require(a.active_parameter_count() > 0 && a.active_parameter_count() <= count);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  plimsoll::sniff_hf_config(text);
  const auto whole = plimsoll::read_hf_config_text(text, "fuzz.json");
  if (!whole) {
    require(!whole.error().message.empty());
    return 0;
  }
  check(*whole);
  const auto cut = plimsoll::read_hf_config_text(text, "fuzz.json", {.layers = 1});
  require(cut && cut->layers.size() == 1 && cut->parameters.size() <= whole->parameters.size());
  return 0;
}
