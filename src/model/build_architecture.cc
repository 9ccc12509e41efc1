#include "model/build_architecture.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "model/config_reader.h"
#include "model/family.h"

namespace plimsoll {
namespace {

// Keys of every configuration that say nothing about shapes or memory.
constexpr std::string_view kHarmlessKeys[] = {"architectures",
                                              "_name_or_path",
                                              "auto_map",
                                              "transformers_version",
                                              "initializer_range",
                                              "init_std",
                                              "bos_token_id",
                                              "eos_token_id",
                                              "pad_token_id",
                                              "cls_token_id",
                                              "sep_token_id",
                                              "mask_token_id",
                                              "unk_token_id",
                                              "decoder_start_token_id",
                                              "pretraining_tp",
                                              "task_specific_params",
                                              "id2label",
                                              "label2id",
                                              "num_labels",
                                              "problem_type",
                                              "return_dict",
                                              "attn_implementation",
                                              "_attn_implementation",
                                              "attention_probs_dropout_prob",
                                              "classifier_dropout",
                                              "is_encoder_decoder",
                                              "tokenizer_class",
                                              "prefix",
                                              "finetuning_task",
                                              "router_aux_loss_coef",
                                              "output_router_logits",
                                              "router_jitter_noise",
                                              "aux_loss_alpha",
                                              "seq_aux",
                                              "norm_topk_prob",
                                              "routed_scaling_factor",
                                              "scoring_func",
                                              "topk_method",
                                              "ep_size",
                                              "max_window_layers",
                                              "original_max_position_embeddings",
                                              "_attn_implementation_autoset",
                                              "torchscript",
                                              "use_bfloat16",
                                              "model_max_length",
                                              "cache_implementation",
                                              "language"};

// What norms add to a variance: no byte depends on it, but a model with a wrong one doesn't run.
constexpr std::string_view kEpsilonKeys[] = {"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon",
                                             "norm_epsilon", "norm_eps"};

constexpr size_t kMostNotedKeys = 20;

struct Choice {
  const Family* family = nullptr;
  const ConfigValue::Object* object = nullptr;  // the family's keys
  std::string prefix;
  std::vector<std::string> notes;
};

std::string architecture_class(ConfigReader& config) {
  const auto classes = config.texts("architectures");
  return classes && !classes->empty() ? shown_text(classes->front()) : "";
}

const Family* family_of_class(std::string_view class_name) {
  for (const Family& family : families()) {
    if (family.class_name == class_name) return &family;
  }
  return nullptr;
}

// Without model_type the file is refused, but the class it names helps to say what else is missing.
Error missing_model_type(const ConfigValue::Object& object, const BuildOptions& options) {
  ConfigReader config(object, options.file);
  const std::string class_name = architecture_class(config);
  const Family* family = family_of_class(class_name);
  config.missing("model_type");
  if (family == nullptr) {
    Error error = *config.problem("Hugging Face");
    error.expected = "one of " + supported_families();
    error.hint =
        class_name.empty() ? "" : fmt::format("the class \"{}\" is not one that is supported", class_name);
    return error;
  }
  Architecture unused;
  family->read(config, unused);
  Error error = *config.problem(family->name);
  error.hint = fmt::format("for {} the model_type is \"{}\"", class_name, family->name);
  for (const std::string& note : unused.notes) error.hint += "; beware: " + note;
  return error;
}

Error unknown_family(ConfigReader& config, const std::string& model_type) {
  config.wrong("model_type", fmt::format("is \"{}\", a family that isn't supported", shown_text(model_type)),
               "one of " + supported_families(), "docs/add_a_model_family.md says how a family is added");
  return *config.problem(model_type);
}

Result<Choice> choose_family(const ConfigValue::Object& object, const BuildOptions& options) {
  ConfigReader config(object, options.file);
  const std::optional<std::string> model_type = config.text("model_type");
  if (!model_type) {
    if (config.has_problem()) return fail(*config.problem(""));
    return fail(missing_model_type(object, options));
  }
  Choice choice{.family = find_family(*model_type), .object = &object};
  if (choice.family != nullptr) return choice;
  for (const FamilyAlias& alias : family_aliases()) {
    if (alias.name != *model_type) continue;
    choice.family = find_family(alias.family);
    if (alias.nested_key.empty()) return choice;
    const std::string key(alias.nested_key);
    choice.object = config.required_object(key.c_str());
    choice.prefix = key + ".";
    choice.notes.push_back(fmt::format("{} is multimodal: only its language part ({}) is counted, as {}",
                                       *model_type, key, choice.family->class_name));
    if (choice.object == nullptr) return fail(*config.problem(*model_type));
    return choice;
  }
  return fail(unknown_family(config, *model_type));
}

// What the model returns then lives as long as its outputs, and isn't played.
void refuse_kept_tensors(ConfigReader& config) {
  config.require_flag("output_attentions", false, "every layer's attention weights would stay alive");
  config.require_flag("output_hidden_states", false, "every layer's hidden states would stay alive");
}

// Under its newer name or its older one. Empty: none is named, or one that no parameter is trained in.
std::optional<DType> read_dtype(ConfigReader& config) {
  const std::optional<std::string> name = config.text({"dtype", "torch_dtype"});
  const std::optional<DType> dtype = name ? dtype_from_name(*name) : std::nullopt;
  return dtype && (is_half(*dtype) || dtype == DType::kFloat32) ? dtype : std::nullopt;
}

// In which from_pretrained() loads it: a multimodal configuration's own dtype goes before its language
// part's. Where none is named, that of the checkpoint's first floating weight is taken, which isn't quantized
// in checkpoints whose other weights are: bf16. Source: _get_dtype in transformers/modeling_utils.py and
// update_dtype of its quantizers, 5.24.
std::optional<DType> published_dtype(ConfigReader& config, const ConfigValue::Object& whole,
                                     const ConfigValue::Object& part) {
  std::optional<DType> dtype = read_dtype(config);
  ConfigReader outer(whole, {});
  if (&whole != &part)
    if (const auto of_whole = read_dtype(outer)) dtype = of_whole;
  if (!dtype && (config.has("quantization_config") || outer.has("quantization_config")))
    return DType::kBFloat16;
  return dtype;
}

// Source: _backward_compatibility_gradient_checkpointing in transformers/modeling_utils.py.
void note_checkpointing(ConfigReader& config, Architecture& a) {
  if (config.flag("gradient_checkpointing", false))
    a.notes.push_back(
        "gradient_checkpointing is true in the configuration, which is ignored: recompute.mode = full is "
        "what "
        "Transformers would do");
}

// A multimodal configuration's keys around its language part.
void note_outer_keys(const ConfigValue::Object& object, const Choice& choice, Architecture& a) {
  if (choice.object == &object) return;
  ConfigReader outer(object, a.name);
  outer.ignore("model_type");
  outer.ignore(choice.prefix.substr(0, choice.prefix.size() - 1).c_str());
  for (std::string_view key : kHarmlessKeys) outer.ignore(std::string(key).c_str());
  const std::vector<std::string> unread = outer.unread_keys();
  if (unread.empty()) return;
  const size_t shown = std::min(unread.size(), kMostNotedKeys);
  std::string text =
      fmt::format("outside {} not read: {}", choice.prefix.substr(0, choice.prefix.size() - 1),
                  fmt::join(unread.begin(), unread.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (shown < unread.size()) text += fmt::format(" and {} more", unread.size() - shown);
  a.notes.push_back(std::move(text));
}

void note_unread(ConfigReader& config, const Family& family, Architecture& a) {
  config.ignore("model_type");
  for (std::string_view key : kHarmlessKeys) config.ignore(std::string(key).c_str());
  for (std::string_view key : family.harmless_keys) config.ignore(std::string(key).c_str());
  if (config.has("quantization_config")) {
    a.notes.push_back("quantization_config is ignored: parameters are counted unquantized");
    config.ignore("quantization_config");
  }
  const std::vector<std::string> unread = config.unread_keys();
  if (unread.size() > kMostNotedKeys) {
    a.notes.push_back(fmt::format("{} keys mean nothing for {} and are ignored", unread.size(), family.name));
    return;
  }
  for (const std::string& key : unread) {
    a.notes.push_back(fmt::format("key \"{}\" means nothing for {} and is ignored", key, family.name));
  }
}

// REQUIRES note_unread() done: harmless keys count as asked for.
Result<void> check_added(const ConfigReader& config, const Choice& choice, const BuildOptions& options) {
  for (const std::string& key : options.added_keys) {
    const bool is_inside = key.starts_with(choice.prefix);
    const std::string name = is_inside ? key.substr(choice.prefix.size()) : key;
    if (name.find('.') != std::string::npos || (is_inside && config.was_asked_for(name))) continue;
    return fail(
        {.position = {.file = options.file, .key = key},
         .message = fmt::format("is neither in the configuration nor a key that {} has", choice.family->name),
         .expected = choice.prefix.empty() ? "a key of the configuration"
                                           : fmt::format("a key that begins with {}", choice.prefix)});
  }
  return {};
}

void note_assumptions(ConfigReader& config, const Family& family, Architecture& a) {
  const std::string class_name = architecture_class(config);
  if (!class_name.empty() && class_name != family.class_name) {
    a.notes.push_back(fmt::format("architectures names {}: counted as {}", class_name, family.class_name));
  }
}

Result<void> truncate_layers(Architecture& a, const BuildOptions& options) {
  if (!options.layers) return {};
  const auto all = static_cast<int64_t>(a.layers.size());
  if (*options.layers < 1 || *options.layers > all) {
    return fail({.position = {.file = options.file, .key = "layers"},
                 .message = fmt::format("is {}", *options.layers),
                 .expected = fmt::format("a number of layers from 1 to {}, what the model has", all)});
  }
  if (*options.layers == all) return {};
  a.layers.resize(static_cast<size_t>(*options.layers));
  a.notes.push_back(fmt::format("only the first {} of {} layers are kept", *options.layers, all));
  return {};
}

Result<void> check_total(const Architecture& a, const BuildOptions& options) {
  if (a.stored_count() < kMaxQuantity) return {};
  return fail({.position = {.file = options.file},
               .message = "the sizes together give more parameters than can be counted",
               .expected = fmt::format("fewer than {}", with_thousands(kMaxQuantity)),
               .hint = "one of the sizes is wrong"});
}

}  // namespace

Result<Architecture> build_architecture(const ConfigValue::Object& config, const BuildOptions& options) {
  PLIMSOLL_TRY(choice, choose_family(config, options));
  ConfigReader reader(*choice.object, options.file, choice.prefix);
  Architecture a;
  a.name = options.name.empty() ? options.file : options.name;
  a.family = choice.family->name;
  a.class_name = choice.family->class_name;
  a.notes = choice.notes;
  choice.family->read(reader, a);
  a.use_cache = reader.flag("use_cache", true);
  refuse_kept_tensors(reader);
  a.published_dtype = published_dtype(reader, config, *choice.object);
  note_checkpointing(reader, a);
  for (std::string_view key : kEpsilonKeys) reader.positive(std::string(key).c_str());
  if (const auto problem = reader.problem(choice.family->name)) return fail(*problem);
  note_assumptions(reader, *choice.family, a);
  note_unread(reader, *choice.family, a);
  note_outer_keys(config, choice, a);
  PLIMSOLL_CHECK(check_added(reader, choice, options));
  PLIMSOLL_CHECK(truncate_layers(a, options));
  choice.family->list_tensors(a);
  PLIMSOLL_CHECK(check_total(a, options));
  return a;
}

}  // namespace plimsoll
