// Source: torchtitan 0.1.0 and 0.2.2, models/{llama3,qwen3}/model/model.py, models/attention.py.
#include "frameworks/torchtitan/transformer.h"

#include <fmt/format.h>

#include "frameworks/pytorch/bodies.h"
#include "frameworks/pytorch/sdpa.h"
#include "frameworks/torchtitan/rotary.h"

namespace plimsoll::torchtitan {
namespace {

using pytorch::Eager;
using pytorch::RegionScope;

Value rms_norm(Eager& e, std::string_view name, const Value& x) {
  const Eager::Module scope(e, name);
  return ops::fused_rms_norm(x, e.parameter("weight"));
}

bool is_qwen3(const Eager& e) { return e.architecture().family == "qwen3"; }

// torch.repeat_interleave(x, dim=2): x [b, s, kv heads, d]
Value repeat_kv(const Value& x, int64_t times) {
  if (times == 1) return x;
  Value repeated = ops::expand(ops::unsqueeze(x, 3), {x.size(0), x.size(1), x.size(2), times, x.size(3)});
  return ops::reshape(std::move(repeated), {x.size(0), x.size(1), x.size(2) * times, x.size(3)});
}

// The module around scaled_dot_product_attention; q, k, v [b, heads, s, d].
Value attend(Eager& e, const ResolvedJob& job, const Value& q, const Value& k, const Value& v) {
  const pytorch::SdpaCall call{
      .backend = job.sdpa_backend, .is_causal = true, .dropout = 0, .enable_gqa = k.size(1) != q.size(1)};
  return pytorch::scaled_dot_product_attention(e, call, q, k, v, {});
}

// Attention.forward
Value attention(Eager& e, const ResolvedJob& job, const Attention& spec, const Value& x, const Value& table) {
  const Eager::Module scope(e, "attention");
  const int64_t b = x.size(0), s = x.size(1);
  Value q = e.linear("wq", x), k = e.linear("wk", x), v = e.linear("wv", x);
  for (Value* heads : {&q, &k, &v}) *heads = ops::view(*heads, {b, s, -1, spec.head_dim});
  if (spec.head_norm == HeadNorm::kPerHead) {
    q = rms_norm(e, "q_norm", q);
    k = rms_norm(e, "k_norm", k);
  }
  {
    Turned rotated = is_qwen3(e) ? apply_halves_rotary(q, k, table) : apply_complex_rotary(q, k, table);
    q = std::move(rotated.q);
    k = std::move(rotated.k);
  }
  Value keys, values;
  if (job.torchtitan.release == TorchtitanRelease::k010) {
    keys = repeat_kv(k, q.size(2) / k.size(2));
    values = repeat_kv(v, q.size(2) / v.size(2));
  }
  q = ops::transpose(q, 1, 2);
  k = ops::transpose(keys ? keys : k, 1, 2);
  v = ops::transpose(values ? values : v, 1, 2);
  Value output = attend(e, job, q, k, v);
  output = ops::contiguous(ops::transpose(std::move(output), 1, 2));
  output = ops::view(std::move(output), {b, s, -1});
  return e.linear("wo", output);
}

// FeedForward.forward: w2(silu(w1(x)) * w3(x)); compiled, one kernel makes the product.
Value feed_forward(Eager& e, const ResolvedJob& job, const Value& x) {
  const Eager::Module scope(e, "feed_forward");
  Value gate = e.linear("w1", x);
  if (!job.torchtitan.compiles_blocks) gate = ops::silu(std::move(gate));
  Value up = e.linear("w3", x);
  const Value product = job.torchtitan.compiles_blocks ? ops::swiglu(std::move(gate), std::move(up))
                                                       : ops::mul(std::move(gate), std::move(up));
  return e.linear("w2", product);
}

// FSDP2's pre-forward hook casts a table in floating point to the dtype of the block's parameters
// (cast_forward_inputs).
Value as_unit_input(const ResolvedJob& job, const Value& table) {
  const auto& dtype = job.fsdp2.param_dtype;
  return dtype && is_floating(table.dtype()) && table.dtype() != DType::kComplex64 ? ops::cast(table, *dtype)
                                                                                   : table;
}

// TransformerBlock.forward
Value block(Eager& e, const ResolvedJob& job, const Layer& layer, const Value& x, const Value& given_table) {
  const Value table = as_unit_input(job, given_table);
  RegionScope region(e, RegionKind::kBlock, {&x, &table});
  Value hidden;
  {
    const Value normed = rms_norm(e, "attention_norm", x);
    hidden = attention(e, job, layer.attention, normed, table);
  }
  hidden = ops::add(x, std::move(hidden));
  Value fed_forward;
  {
    const Value normed = rms_norm(e, "ffn_norm", hidden);
    fed_forward = feed_forward(e, job, normed);
  }
  Value out = ops::add(hidden, std::move(fed_forward));
  region.end({&out});
  return out;
}

Value embedded(Eager& e, const Value& ids) {
  RegionScope region(e, RegionKind::kEmbedding, {&ids});
  Value embeddings = e.embedding("tok_embeddings", ids);
  region.end({&embeddings});
  return embeddings;
}

}  // namespace

Value transformer(Eager& e, const ResolvedJob& job, const Value& ids) {
  RegionScope model(e, RegionKind::kModel, {&ids});
  Value hidden = embedded(e, ids);
  const Value table = e.buffer(is_qwen3(e) ? "rope_cache" : "freqs_cis");
  const std::vector<Layer>& layers = e.architecture().layers;
  for (size_t i = 0; i < layers.size(); ++i) {
    const Eager::Module scope(e, fmt::format("layers.{}", i));
    hidden = block(e, job, layers[i], hidden, table);
  }
  RegionScope head(e, RegionKind::kHead, {&hidden});
  hidden = rms_norm(e, "norm", hidden);
  Value logits = e.linear("output", hidden);
  head.end({&logits});
  pytorch::mark_as_logits(logits);
  model.end({&logits});
  return logits;
}

}  // namespace plimsoll::torchtitan
