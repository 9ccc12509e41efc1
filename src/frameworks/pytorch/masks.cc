// Source: transformers/masking_utils.py. Masks are made of positions by broadcasting (no vmap): True where a
// query may look at a key.
#include <functional>

#include "frameworks/pytorch/modules.h"
#include "program/dims.h"

namespace plimsoll::pytorch {
namespace {

// find_packed_sequence_indices on positions that count up: no packed sequences are found.
void look_for_packed_sequences(const Value& positions) {
  Value first = ops::slice(positions, 1, 0, 1);
  Value again = ops::slice(positions, 1, 0, 1);
  const Value dummy = ops::sub(std::move(first), std::move(again));
  Value joined = ops::cat({dummy, positions}, -1);
  const int64_t length = positions.size(1);
  Value later = ops::slice(joined, -1, 1, length);
  Value earlier = ops::slice(joined, -1, 0, length);
  Value difference = ops::sub(std::move(later), std::move(earlier));
  joined.reset();
  Value packed = ops::cumsum(ops::compare(difference), -1, DType::kInt64);
  Value is_zero = ops::compare(ops::select(packed, 1, length - 1));
  const Value all = ops::all(std::move(is_zero));
}

struct Indices {
  Value batch, query, key;  // int64 [b, 1, 1, 1], [1, 1, s, 1], [1, 1, 1, s]
};
using MaskFunction = std::function<Value(const Indices&)>;

// and_masks
MaskFunction all_of(std::vector<MaskFunction> functions) {
  return [functions = std::move(functions)](const Indices& indices) {
    Value result = ops::ones(indices.query.recorder(), {}, DType::kBool);
    for (const MaskFunction& f : functions) result = ops::logical_and(result, f(indices));
    return result;
  };
}

// causal_mask_function
Value causal(const Indices& indices) { return ops::compare(indices.key, indices.query); }

// sliding_window_causal_mask_function
MaskFunction sliding(int64_t window) {
  const MaskFunction overlay = [window](const Indices& indices) {
    return ops::compare(indices.key, ops::add(indices.query, -static_cast<double>(window)));
  };
  return all_of({overlay, causal});
}

// chunked_causal_mask_function
MaskFunction chunked(int64_t chunk, Value left_padding) {
  const MaskFunction overlay = [chunk, left_padding = std::move(left_padding)](const Indices& indices) {
    const auto chunk_of = [&](const Value& position) {
      Value shifted = ops::sub(position, ops::index(left_padding, {indices.batch}));
      return ops::with_scalar(OpKind::kFloorDivide, std::move(shifted), static_cast<double>(chunk));
    };
    Value key = chunk_of(indices.key);
    Value query = chunk_of(indices.query);
    return ops::compare(std::move(key), std::move(query));
  };
  return all_of({overlay, causal});
}

// padding_mask_function
MaskFunction padding(Value mask) {
  return [mask = std::move(mask)](const Indices& indices) {
    return ops::index(mask, {indices.batch, indices.key});
  };
}

// bidirectional_mask_function
Value everywhere(const Indices& indices) { return ops::compare(indices.query); }

// sliding_window_bidirectional_mask_function
MaskFunction sliding_both_ways() {
  const MaskFunction overlay = [](const Indices& indices) {
    Value distance = ops::unary(OpKind::kAbs, ops::sub(indices.query, indices.key));
    return ops::compare(std::move(distance));
  };
  return all_of({overlay, everywhere});
}

Value four_dims(const Value& positions, int where) {
  Value x = positions;
  for (int dim = 0; dim < 4; ++dim)
    if (dim != where) x = ops::unsqueeze(x, dim);
  return x;
}

// sdpa_mask, where nothing is skipped: bool [b, 1, s, s].
Value boolean_mask(Recorder& r, int64_t batch, int64_t length, const MaskFunction& function) {
  const Value batches = ops::arange(r, batch);
  const Value heads = ops::arange(r, 1);
  const Value queries = ops::add(ops::arange(r, length), 0.0);
  const Value keys = ops::add(ops::arange(r, length), 0.0);
  Value mask =
      function({.batch = four_dims(batches, 0), .query = four_dims(queries, 2), .key = four_dims(keys, 3)});
  return ops::expand(mask, {batch, 1, length, length});
}

// fast_all, and bool() of it
void all_are_set(const Value& mask) {
  const Value is_all = ops::compare(ops::sum_mask(mask, every_dim(mask.rank()), false));
}

// eager_mask: 0 where a query may look, the lowest number elsewhere.
Value eager_mask(const Value& mask, DType dtype) {
  Value zero = ops::zeros(mask.recorder(), {}, dtype);
  Value lowest = ops::scalar_tensor(mask.recorder(), dtype);
  return ops::where(mask, std::move(zero), std::move(lowest));
}

}  // namespace

bool has_cache(const Eager& e, const ResolvedJob& job) {
  const bool is_wanted = job.loop.use_cache == UseCache::kTrue ||
                         (job.loop.use_cache == UseCache::kConfig && e.architecture().use_cache);
  // merge_with_config_defaults and GradientCheckpointingLayer turn it off.
  return is_wanted && !(e.is_training() && job.recompute.kind != RecomputeKind::kNone);
}

namespace {

// _preprocess_mask_arguments: the padding mask as bool; undefined when none was given.
Value preprocessed(const Eager& e, const ResolvedJob& job, const Value& embeddings, const Value& given_mask,
                   const Value& positions) {
  if (given_mask) return ops::cast(given_mask, DType::kBool);
  if (!positions || has_cache(e, job)) return {};
  Value expanded = ops::expand(positions, {embeddings.size(0), positions.size(1)});
  look_for_packed_sequences(expanded);
  return {};
}

// The mask interface of the attention implementation; `local_size`: the window or chunk.
Value interface_mask(Eager& e, const ResolvedJob& job, const Value& embeddings, const Value& padding_mask,
                     std::optional<int64_t> local_size, MaskFunction function, bool may_be_skipped = true) {
  const int64_t batch = embeddings.size(0), length = embeddings.size(1);
  if (job.attention == AttentionImplementation::kFlashAttention2) {  // flash_attention_mask
    if (padding_mask) ops::all(padding_mask).reset();
    return {};
  }
  const bool is_eager = job.attention == AttentionImplementation::kEager;
  if (!is_eager && may_be_skipped && !(local_size && length >= *local_size)) {  // _ignore_causal_mask_sdpa
    if (padding_mask) all_are_set(padding_mask);
    return {};
  }
  if (padding_mask) function = all_of({function, padding(padding_mask)});
  Value mask = boolean_mask(e.recorder(), batch, length, function);
  if (is_eager) mask = eager_mask(mask, embeddings.dtype());
  return mask;
}

// create_chunked_causal_mask
Value chunked_mask(Eager& e, const ResolvedJob& job, const Value& embeddings, const Value& given_mask,
                   const Value& positions, int64_t chunk) {
  const Value padding_mask = preprocessed(e, job, embeddings, given_mask, positions);
  Value left_padding;
  if (padding_mask) {
    Value seen = ops::cumsum(padding_mask, -1, DType::kInt64);
    Value is_left = ops::compare(std::move(seen), ops::zeros_like(padding_mask));
    left_padding = ops::sum(std::move(is_left), {-1}, false);
  } else {
    left_padding = ops::zeros(e.recorder(), {embeddings.size(0)}, DType::kInt64);
  }
  return interface_mask(e, job, embeddings, padding_mask, chunk, chunked(chunk, left_padding));
}

}  // namespace

Value causal_mask(Eager& e, const ResolvedJob& job, const Value& embeddings, const Value& given_mask,
                  const Value& positions, std::optional<int64_t> window, bool may_be_skipped) {
  const Value padding_mask = preprocessed(e, job, embeddings, given_mask, positions);
  return interface_mask(e, job, embeddings, padding_mask, window,
                        window ? sliding(*window) : MaskFunction(causal), may_be_skipped);
}

Value bidirectional_mask(Eager& e, const ResolvedJob& job, const Value& embeddings, const Value& given_mask,
                         std::optional<int64_t> window) {
  Value padding_mask;
  if (given_mask) {
    padding_mask = ops::cast(given_mask, DType::kBool);
    const Value all = ops::all(padding_mask);
  }
  if (!window || embeddings.size(1) < *window) return {};  // _ignore_bidirectional_mask_sdpa
  return interface_mask(e, job, embeddings, padding_mask, window, sliding_both_ways(), false);
}

Masks decoder_masks(Eager& e, const Family& family, const ResolvedJob& job, const Value& embeddings,
                    const Value& given_mask, const Value& given_positions) {
  std::optional<int64_t> window, chunk;
  bool has_full = false;
  for (const Layer& layer : e.architecture().layers) {
    if (layer.attention.window) window = layer.attention.window;
    if (layer.attention.chunk) chunk = layer.attention.chunk;
    has_full = has_full || !is_local(layer.attention);
  }
  const Value positions = family.masks_know_positions ? given_positions : Value();
  const auto make = [&](std::optional<int64_t> w) {
    return causal_mask(e, job, embeddings, given_mask, positions, w);
  };
  Masks masks;
  switch (family.masks) {
    case WindowMasks::kNone:
      masks.full = make(std::nullopt);
      break;
    case WindowMasks::kOne:
      masks.full = make(window);
      masks.local = masks.full;
      break;
    case WindowMasks::kBoth:
    case WindowMasks::kSlidingIfUsed:
      masks.full = make(std::nullopt);
      if (window) masks.local = make(window);
      break;
    case WindowMasks::kBothAlways:
      masks.full = make(std::nullopt);
      masks.local = make(window.value_or(0));
      break;
    case WindowMasks::kChunked:
      if (has_full) masks.full = make(std::nullopt);
      if (chunk) masks.local = chunked_mask(e, job, embeddings, given_mask, positions, *chunk);
      break;
  }
  return masks;
}

}  // namespace plimsoll::pytorch
