#include "model/families/common_keys.h"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace plimsoll {
namespace {

constexpr std::array<std::string_view, 8> kRopeTypes = {"default", "linear",   "dynamic",      "llama3",
                                                        "yarn",    "longrope", "proportional", "su"};
constexpr std::array<std::pair<std::string_view, Activation>, 12> kActivations = {{
    {"silu", Activation::kSilu},
    {"swish", Activation::kSilu},
    {"gelu", Activation::kGelu},
    {"gelu_python", Activation::kGelu},
    {"gelu_new", Activation::kGeluNew},
    {"gelu_fast", Activation::kGeluFast},
    {"gelu_pytorch_tanh", Activation::kGeluTanh},
    {"gelu_tanh", Activation::kGeluTanh},
    {"relu", Activation::kRelu},
    {"quick_gelu", Activation::kQuickGelu},
    {"tanh", Activation::kTanh},
    {"gelu_accurate", Activation::kGeluNew},
}};

// The object that holds the rotary settings: rope_scaling (older) or rope_parameters; where it is one per
// layer type, the full layers' one.
const ConfigValue::Object* rotary_settings(ConfigReader& config, std::string& prefix) {
  const char* key = config.has("rope_scaling") ? "rope_scaling" : "rope_parameters";
  config.ignore({"rope_scaling", "rope_parameters"});
  const ConfigValue::Object* settings = config.object(key);
  prefix = fmt::format("{}.", key);
  if (settings == nullptr) return nullptr;
  for (const ConfigMember& member : *settings) {
    if (member.key != "full_attention") continue;
    if (const auto* nested = member.value.as<ConfigValue::Object>()) {
      prefix += "full_attention.";
      return nested;
    }
  }
  return settings;
}

void read_rope_type(ConfigReader& nested, Architecture& a) {
  const std::string type = nested.text({"rope_type", "type"}).value_or("default");
  for (std::string_view known : kRopeTypes) {
    if (type == known) a.rope_type = type == "su" ? "longrope" : type;
  }
  if (type != "su" && type != a.rope_type) {
    nested.wrong(nested.has("rope_type") ? "rope_type" : "type", fmt::format("is \"{}\"", shown_text(type)),
                 fmt::format("one of default, linear, dynamic, llama3, yarn, longrope"));
  }
  a.rope_scaling = {
      .factor = nested.positive("factor"),
      .low_frequency_factor = nested.positive("low_freq_factor"),
      .high_frequency_factor = nested.positive("high_freq_factor"),
      .original_max_position = nested.optional_size("original_max_position_embeddings", kMaxPosition)};
}

void check_heads(ConfigReader& config, const Architecture& a, const Attention& attention, bool divides_hidden,
                 std::string_view key) {
  if (divides_hidden && a.hidden % attention.heads != 0) {
    config.contradiction(key,
                         fmt::format("is {}, which doesn't divide hidden_size {}", attention.heads, a.hidden),
                         "a divisor of hidden_size, or a head_dim");
  }
  if (attention.heads % attention.kv_heads != 0) {
    config.contradiction(
        "num_key_value_heads",
        fmt::format("is {}, which doesn't divide {} {}", attention.kv_heads, key, attention.heads),
        "a divisor of the number of heads");
  }
}

int64_t read_kv_heads(ConfigReader& config, Architecture& a, int64_t heads) {
  if (const auto kv_heads = config.optional_size("num_key_value_heads", kMaxHeads)) return *kv_heads;
  a.notes.push_back(fmt::format("num_key_value_heads is absent: {} as num_attention_heads", heads));
  return heads;
}

// Elements of a head are turned in pairs.
void check_rotary_dim(ConfigReader& config, const Attention& attention, const RotaryDefaults& defaults) {
  if (attention.rotary_dim > 0 && attention.rotary_dim % 2 == 0) return;
  if (attention.rotary_dim == attention.head_dim) {
    config.contradiction(
        config.has("head_dim") ? "head_dim" : "num_attention_heads",
        fmt::format("gives heads of {}, which rotary positions can't split in two", attention.head_dim),
        "an even head_dim");
  } else {
    config.contradiction(defaults.part_key.names.front(),
                         fmt::format("gives {} of a head's {} elements to rotary positions",
                                     attention.rotary_dim, attention.head_dim),
                         "a part that is an even number of elements, at least 2");
  }
}

}  // namespace

void read_sizes(ConfigReader& config, Architecture& a, bool is_tied_by_default) {
  a.vocab = config.size("vocab_size", kMaxVocab);
  a.hidden = config.size({"hidden_size", "n_embd", "n_embed", "d_model"}, kMaxHidden);
  a.embedding_dim = a.hidden;
  a.is_tied = config.flag("tie_word_embeddings", is_tied_by_default);
}

void read_max_position(ConfigReader& config, Architecture& a, int64_t by_default) {
  a.max_position = config.optional_size("max_position_embeddings", kMaxPosition).value_or(by_default);
}

Attention read_heads(ConfigReader& config, Architecture& a, KvHeads kv_heads, HeadDimKey head_dim) {
  Attention attention;
  attention.heads = config.size({"num_attention_heads", "n_head"}, kMaxHeads);
  attention.kv_heads = attention.heads;
  if (kv_heads == KvHeads::kRequired) {
    attention.kv_heads = config.size("num_key_value_heads", kMaxHeads);
  } else {
    attention.kv_heads = read_kv_heads(config, a, attention.heads);
  }
  std::optional<int64_t> dim;
  if (head_dim == HeadDimKey::kRequired) dim = config.size("head_dim", kMaxHeadDim);
  if (head_dim == HeadDimKey::kOptional) dim = config.optional_size("head_dim", kMaxHeadDim);
  check_heads(config, a, attention, !dim.has_value(), "num_attention_heads");
  attention.head_dim = dim.value_or(std::max<int64_t>(1, a.hidden / attention.heads));
  attention.value_head_dim = attention.head_dim;
  return attention;
}

Attention read_equal_heads(ConfigReader& config, const Architecture& a, const KeyNames& key) {
  Attention attention;
  attention.heads = attention.kv_heads = config.size(key, kMaxHeads);
  check_heads(config, a, attention, true, key.names.front());
  attention.head_dim = attention.value_head_dim = std::max<int64_t>(1, a.hidden / attention.heads);
  return attention;
}

void read_rotary(ConfigReader& config, Architecture& a, Attention& attention,
                 const RotaryDefaults& defaults) {
  a.position = PositionKind::kRotary;
  a.rope_theta = config.positive(defaults.theta_key, defaults.theta);
  double part = defaults.part ? config.number(defaults.part_key, *defaults.part) : 1;
  std::string prefix;
  if (const ConfigValue::Object* settings = rotary_settings(config, prefix)) {
    ConfigReader nested(*settings, config.file(), prefix);
    a.rope_theta = nested.positive("rope_theta", a.rope_theta);
    if (defaults.part) part = nested.number("partial_rotary_factor", part);
    read_rope_type(nested, a);
    config.absorb(nested);
  }
  if (!(part > 0 && part <= 1)) {
    config.wrong(defaults.part_key.names.front(), fmt::format("is {}", part), "a number above 0, up to 1");
    part = 1;
  }
  attention.rotary_dim = static_cast<int64_t>(static_cast<double>(attention.head_dim) * part);
  check_rotary_dim(config, attention, defaults);
}

void read_numerics(ConfigReader& config, Architecture& a, double epsilon) {
  a.numerics.norm_epsilon = config.positive({"rms_norm_eps", "layer_norm_epsilon"}, epsilon);
  a.numerics.initializer_range = config.positive("initializer_range", a.numerics.initializer_range);
}

Activation read_activation(ConfigReader& config, const KeyNames& key, Activation by_default) {
  const std::optional<std::string> name = config.text(key);
  if (!name) return by_default;
  std::string known;
  for (const auto& [text, activation] : kActivations) {
    if (*name == text) return activation;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", text);
  }
  for (std::string_view present : key.names) {
    if (config.has(present))
      config.wrong(present, fmt::format("is \"{}\"", shown_text(*name)), "one of " + known);
  }
  return by_default;
}

Mlp read_gated_mlp(ConfigReader& config) {
  return {.intermediate = config.size("intermediate_size", kMaxIntermediate),
          .is_gated = true,
          .activation = read_activation(config, "hidden_act", Activation::kSilu)};
}

Moe read_moe(ConfigReader& config, const KeyNames& experts, const KeyNames& width,
             const KeyNames& per_token) {
  Moe moe{.experts = config.size(experts, kMaxExperts),
          .experts_per_token = config.size(per_token, kMaxExperts),
          .expert_intermediate = config.size(width, kMaxIntermediate),
          .has_balance_loss = config.flag("output_router_logits", false),
          .activation = read_activation(config, "hidden_act", Activation::kSilu)};
  if (moe.experts_per_token > moe.experts) {
    config.contradiction(per_token.names.front(),
                         fmt::format("is {}, but there are {} experts", moe.experts_per_token, moe.experts),
                         "at most the number of experts");
  }
  return moe;
}

void set_biases(Attention& attention, bool inputs, bool output) {
  attention.query_bias = attention.key_bias = attention.value_bias = inputs;
  attention.output_bias = output;
}

void read_layers(ConfigReader& config, Architecture& a, const Layer& layer, const KeyNames& key) {
  a.layers.assign(static_cast<size_t>(config.size(key, kMaxLayers)), layer);
}

void read_layer_types(ConfigReader& config, Architecture& a, std::optional<int64_t> window,
                      const std::function<bool(size_t)>& is_sliding_by_default) {
  const auto types = config.texts("layer_types");
  if (types && types->size() != a.layers.size()) {
    config.contradiction("layer_types",
                         fmt::format("has {} entries for {} layers", types->size(), a.layers.size()),
                         "one entry per layer");
    return;
  }
  for (size_t i = 0; i < a.layers.size(); ++i) {
    if (types && (*types)[i] != "sliding_attention" && (*types)[i] != "full_attention") {
      config.wrong("layer_types", fmt::format("has \"{}\" for layer {}", shown_text((*types)[i]), i),
                   "sliding_attention or full_attention");
      return;
    }
    const bool is_sliding = types ? (*types)[i] == "sliding_attention" : is_sliding_by_default(i);
    if (is_sliding) a.layers[i].attention.window = window;
  }
}

std::optional<int64_t> read_window(ConfigReader& config, Architecture& a, std::optional<int64_t> by_default) {
  const bool is_absent = !config.is_there("sliding_window");
  const auto window = config.optional_size("sliding_window", kMaxPosition);
  if (!is_absent || !by_default) return window;
  a.notes.push_back(fmt::format("sliding_window is absent: {} as in Transformers", *by_default));
  return by_default;
}

std::optional<int64_t> read_switched_window(ConfigReader& config, Architecture& a, int64_t by_default) {
  const bool is_on = config.flag("use_sliding_window", false);
  config.ignore("sliding_window");
  if (!is_on) return std::nullopt;
  return read_window(config, a, by_default);
}

}  // namespace plimsoll
