#include "frameworks/native/forward.h"

#include <fmt/format.h>

#include <unordered_map>

#include "program/ops.h"
#include "program/recorder.h"

namespace plimsoll::native {
namespace {

class Writer {
 public:
  Writer(Forward& forward, const Architecture& a, const ResolvedJob& job)
      : f_(forward),
        a_(a),
        job_(job),
        r_(forward.program, Recorder::Mode::kForward),
        dtype_(parameter_dtype(job.precision)) {}

  void write() {
    declare();
    Value hidden = embedding();
    for (const Layer& layer : a_.layers) hidden = block(layer, std::move(hidden));
    head(std::move(hidden));
    r_.finish();  // the loss stays in scope: its last reference is the backward's
  }

 private:
  // ---- what no op makes ----

  void declare() {
    for (const ParameterTensor& p : a_.parameters) {
      Value value = r_.persistent(Layout::contiguous(p.shape), dtype_, Category::kParameter,
                                  f_.program.module(p.name), true);
      f_.program.parameters.push_back(value.id());
      for (const std::string& name : p.tied_names) parameters_[name] = value;
      parameters_[p.name] = std::move(value);
    }
    const Layout tokens = Layout::contiguous({job_.batch.micro_batch, job_.batch.sequence});
    ids_ = input("input_ids", tokens, DType::kInt64, Category::kInput);
    labels_ = input("labels", tokens, DType::kInt64, Category::kInput);
    f_.ids = ids_.id();
    f_.labels = labels_.id();
    if (a_.position != PositionKind::kRotary) return;
    const Layout angles =
        Layout::contiguous({job_.batch.sequence, a_.layers.front().attention.rotary_dim / 2});
    table_.cos = input("rotary.cos", angles, DType::kFloat32, Category::kBuffer);
    table_.sin = input("rotary.sin", angles, DType::kFloat32, Category::kBuffer);
    f_.cos = table_.cos.id();
    f_.sin = table_.sin.id();
  }
  Value input(std::string_view name, const Layout& layout, DType dtype, Category category) {
    return r_.persistent(layout, dtype, category, f_.program.module(name));
  }

  // The parameter of that name below the current module; undefined when there is none.
  Value parameter(std::string_view name) const {
    const auto found =
        parameters_.find(path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name));
    return found == parameters_.end() ? Value() : found->second;
  }
  bool is_gpt2() const { return a_.family == "gpt2"; }

  // ---- modules ----

  // Names what is written in a scope; ends in reverse order of beginning.
  class Module {
   public:
    Module(Writer& writer, std::string_view name)
        : writer_(writer), outer_path_(writer.path_), outer_(writer.r_.module) {
      if (!writer.path_.empty()) writer.path_ += '.';
      writer.path_ += name;
      writer.r_.module = writer.f_.program.module(writer.path_);
    }
    ~Module() {
      writer_.path_ = outer_path_;
      writer_.r_.module = outer_;
    }
    Module(const Module&) = delete;
    Module& operator=(const Module&) = delete;

   private:
    Writer& writer_;
    std::string outer_path_;
    ModuleId outer_;
  };

  RegionId begin(RegionKind kind, const Value& argument) {
    f_.program.regions.push_back({.kind = kind, .module = r_.module, .arguments = {argument.id()}});
    const RegionId id{static_cast<uint32_t>(f_.program.regions.size() - 1)};
    r_.begin(id);
    return id;
  }
  void end(RegionId id, const Value& result) {
    f_.program.regions[id.value].results = {result.id()};
    r_.end(id);
  }

  // x [n, in]; weights [out, in], GPT-2's [in, out].
  Value linear(std::string_view name, const Value& x) {
    const Module module(*this, name);
    Value weight = parameter("weight"), bias = parameter("bias");
    if (!is_gpt2()) weight = ops::transpose(std::move(weight), 0, 1);
    if (!bias) return ops::mm(x, std::move(weight));
    return ops::addmm(std::move(bias), x, std::move(weight));
  }

  Value norm(std::string_view name, const Value& x) {
    const Module module(*this, name);
    Value weight = parameter("weight");
    if (a_.norm.kind == NormKind::kRmsNorm)
      return ops::rms_norm(x, std::move(weight), a_.numerics.norm_epsilon);
    return ops::layer_norm(x, std::move(weight), parameter("bias"), a_.numerics.norm_epsilon);
  }

  // [n, heads * d] -> [b, s, heads, d]
  Value split_heads(Value x, int64_t heads, int64_t head_dim) {
    return ops::view(std::move(x), {job_.batch.micro_batch, job_.batch.sequence, heads, head_dim});
  }
  Value attend(Value q, Value k, Value v) {
    q = ops::transpose(std::move(q), 1, 2);
    k = ops::transpose(std::move(k), 1, 2);
    v = ops::transpose(std::move(v), 1, 2);
    Value out = ops::cpu_flash_attention(std::move(q), std::move(k), std::move(v), true);
    out = ops::transpose(std::move(out), 1, 2);
    const int64_t width = out.size(2) * out.size(3);
    return ops::reshape(std::move(out), {-1, width});
  }

  // Queries or keys: projection, the norm of each head where there is one, positions.
  Value positioned(std::string_view projection, std::string_view head_norm, const Value& x, int64_t heads,
                   const Attention& attention) {
    Value y = linear(projection, x);
    y = split_heads(std::move(y), heads, attention.head_dim);
    if (attention.head_norm == HeadNorm::kPerHead) y = norm(head_norm, std::exchange(y, {}));
    return ops::rotary(std::move(y), table_);
  }

  Value llama_attention(const Attention& attention, const Value& x) {
    const Module module(*this, "self_attn");
    Value q = positioned("q_proj", "q_norm", x, attention.heads, attention);
    Value k = positioned("k_proj", "k_norm", x, attention.kv_heads, attention);
    Value v = linear("v_proj", x);
    v = split_heads(std::move(v), attention.kv_heads, attention.head_dim);
    const Value attended = attend(std::move(q), std::move(k), std::move(v));
    return linear("o_proj", attended);
  }

  Value gpt2_attention(const Attention& attention, const Value& x) {
    const Module module(*this, "attn");
    Value projected = linear("c_attn", x);
    std::vector<Value> parts = ops::chunk(std::move(projected), 3, 1);
    for (Value& part : parts) part = split_heads(std::move(part), attention.heads, attention.head_dim);
    const Value attended = attend(std::move(parts[0]), std::move(parts[1]), std::move(parts[2]));
    return linear("c_proj", attended);
  }

  Value activated(Activation kind, Value x) {
    const bool is_tanh = kind == Activation::kGeluNew || kind == Activation::kGeluTanh;
    if (is_tanh) return ops::gelu_tanh(std::move(x));
    return kind == Activation::kGelu ? ops::gelu(std::move(x)) : ops::relu(std::move(x));
  }

  Value feed_forward(const Mlp& mlp, const Value& x) {
    const Module module(*this, "mlp");
    if (mlp.is_gated) {
      Value gate = linear("gate_proj", x);
      Value up = linear("up_proj", x);
      const Value product = ops::swiglu(std::move(gate), std::move(up));
      return linear("down_proj", product);
    }
    Value wide = linear("c_fc", x);
    const Value active = activated(mlp.activation, std::move(wide));
    return linear("c_proj", active);
  }

  Value added(Value residual, Value branch) { return ops::add(std::move(residual), std::move(branch)); }

  // hidden [n, hidden] -> [n, hidden]
  Value block(const Layer& layer, Value hidden) {
    const Module module(*this, fmt::format("{}.{}", is_gpt2() ? "transformer.h" : "model.layers", block_++));
    const RegionId region = begin(RegionKind::kBlock, hidden);
    Value normed = norm(is_gpt2() ? "ln_1" : "input_layernorm", hidden);
    Value branch =
        is_gpt2() ? gpt2_attention(layer.attention, normed) : llama_attention(layer.attention, normed);
    normed.reset();
    hidden = added(std::move(hidden), std::move(branch));
    normed = norm(is_gpt2() ? "ln_2" : "post_attention_layernorm", hidden);
    branch = feed_forward(*layer.mlp, normed);
    normed.reset();
    hidden = added(std::move(hidden), std::move(branch));
    end(region, hidden);
    return hidden;
  }

  // [b, s] -> [n, hidden]
  Value embedding() {
    const RegionId region = begin(RegionKind::kEmbedding, ids_);
    const Value ids = ops::view(ids_, {-1});
    Value hidden;
    {
      const Module module(*this, is_gpt2() ? "transformer.wte" : "model.embed_tokens");
      hidden = ops::embedding(parameter("weight"), ids);
    }
    if (a_.position == PositionKind::kLearned) hidden = with_positions(std::move(hidden));
    end(region, hidden);
    return hidden;
  }
  // The first rows of the table, added to each sequence.
  Value with_positions(Value hidden) {
    const Module module(*this, "transformer.wpe");
    const int64_t s = job_.batch.sequence;
    const Value rows = ops::slice(parameter("weight"), 0, 0, s);
    Value by_sequence = ops::view(std::move(hidden), {job_.batch.micro_batch, s, a_.hidden});
    Value sum = ops::add(std::move(by_sequence), rows);
    return ops::view(std::move(sum), {-1, a_.hidden});
  }

  void head(Value hidden) {
    const RegionId region = begin(RegionKind::kHead, hidden);
    Value normed;
    {
      const Module module(*this, is_gpt2() ? "transformer" : "model");
      normed = norm(is_gpt2() ? "ln_f" : "norm", hidden);
      hidden.reset();
    }
    const Module module(*this, "lm_head");
    Value weight = parameter("weight");
    weight = ops::transpose(std::move(weight), 0, 1);
    Value logits;
    {
      const With<Category> category(r_.category, Category::kLogits);
      logits = ops::mm(std::move(normed), std::move(weight));
    }
    Value labels = ops::view(labels_, {-1});
    const Value loss = ops::cross_entropy(std::move(logits), std::move(labels), loss_scale(job_));
    f_.loss = loss.id();
    end(region, loss);
    loss_ = loss;
  }

  Forward& f_;
  const Architecture& a_;
  const ResolvedJob& job_;
  Recorder r_;
  DType dtype_;
  std::string path_;
  int block_ = 0;
  std::unordered_map<std::string, Value> parameters_;
  Value ids_, labels_, loss_;
  ops::RotaryTable table_;
};

}  // namespace

double loss_scale(const ResolvedJob& job) {
  return 1.0 / (static_cast<double>(job.batch.global_batch) * static_cast<double>(job.batch.sequence));
}

Forward record_forward(const Architecture& architecture, const ResolvedJob& job) {
  Forward forward;
  const bool has_dropout = architecture.embedding_dropout + architecture.residual_dropout +
                               architecture.attention_dropout + architecture.activation_dropout >
                           0;
  if (has_dropout)
    forward.program.notes.emplace_back(
        "framework native trains without dropout, whatever the configuration says");
  Writer(forward, architecture, job).write();
  return forward;
}

}  // namespace plimsoll::native
