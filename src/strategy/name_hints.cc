#include "strategy/name_hints.h"

#include <fmt/format.h>

#include "hardware/name_match.h"
#include "strategy/names.h"

namespace plimsoll {
namespace {

struct Hint {
  std::string_view path, word, text;
};

constexpr Hint kHints[] = {
    {"parallel.engine", "fsdp", "fsdp2 (torch's fully_shard); FullyShardedDataParallel isn't available yet"},
    {"parallel.engine", "hsdp", "fsdp2 with fsdp2.replicate"},
    {"parallel.engine", "zero3", "fsdp2 shards parameters, gradients and optimizer states, as ZeRO-3 does"},
    {"parallel.engine", "zero2",
     "nearest is fsdp2 with fsdp2.reshard_after_forward = false, which shards the parameters too; "
     "DeepSpeed's "
     "stages aren't available yet"},
    {"parallel.engine", "zero1",
     "nearest is fsdp2, which shards gradients and parameters too; DeepSpeed's stages aren't available yet"},
    {"parallel.engine", "zero", "fsdp2 shards parameters, gradients and optimizer states, as ZeRO-3 does"},
    {"parallel.engine", "dp", "ddp"},
    {"optimizer.name", "adam", "adamw holds the same states"},
    {"optimizer.name", "adam-fused", "adamw-fused holds the same states"},
    {"optimizer.name", "adamw-8bit", "adam8bit"},
    {"optimizer.name", "adamw8bit", "adam8bit"},
    {"optimizer.name", "adamw-bnb-8bit", "adam8bit"},
    {"optimizer.name", "momentum", "sgd-momentum"},
    {"precision", "mixed", "amp-bf16 or amp-fp16"},
    {"precision", "amp", "amp-bf16 or amp-fp16"},
    {"precision", "fp8", "8-bit training isn't available yet"},
    {"attention.implementation", "flash",
     "flash_attention_2, or sdpa, which takes a flash kernel where it can"},
    {"attention.implementation", "flash-attention", "flash_attention_2"},
    {"attention.implementation", "fa2", "flash_attention_2"},
    {"loss.path", "liger", "fused-linear"},
    {"recompute.mode", "true", "full"},
    {"recompute.mode", "nonreentrant", "full"},
    {"recompute.mode", "reentrant", "full-reentrant"},
};

}  // namespace

std::string name_hint(std::string_view path, std::string_view word) {
  std::string name = normalized_name(word);
  for (const std::string_view stage : {"zero-1", "zero-2", "zero-3"})
    if (name == stage) name.erase(4, 1);
  for (const Hint& hint : kHints)
    if (hint.path == path && hint.word == name) return std::string(hint.text);
  if (path == "recompute.mode" && name.starts_with("every-"))
    return fmt::format("N is a number from 2 to {}, for example every-2", kMaxEveryNth);
  return {};
}

}  // namespace plimsoll
