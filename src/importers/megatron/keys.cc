#include "importers/megatron/keys.h"

#include <algorithm>
#include <array>

namespace plimsoll {
namespace {

constexpr std::array<std::string_view, 28> kPrefixes = {"--lr",           "--log-",
                                                        "--tensorboard-", "--wandb-",
                                                        "--adam-",        "--eval-",
                                                        "--save",         "--load",
                                                        "--no-save",      "--no-load",
                                                        "--data-",        "--vocab-file",
                                                        "--merge-file",   "--tokenizer-",
                                                        "--ckpt-",        "--dist-ckpt",
                                                        "--no-ckpt",      "--timing-log-",
                                                        "--exit-",        "--manual-gc",
                                                        "--init-method",  "--override",
                                                        "--async-",       "--check-",
                                                        "--no-check-",    "--use-checkpoint-",
                                                        "--fim-",         "--rerun-"};

constexpr std::array<std::string_view, 29> kWithoutBytes = {"--min-lr",
                                                            "--weight-decay",
                                                            "--train-iters",
                                                            "--train-samples",
                                                            "--split",
                                                            "--distributed-backend",
                                                            "--distributed-timeout-minutes",
                                                            "--num-workers",
                                                            "--seed",
                                                            "--mock-data",
                                                            "--use-mcore-models",
                                                            "--use-persistent-ckpt-worker",
                                                            "--attention-softmax-in-fp32",
                                                            "--no-mmap-bin-files",
                                                            "--auto-detect-ckpt-format",
                                                            "--finetune",
                                                            "--verify-integrity",
                                                            "--decoupled-lr",
                                                            "--decoupled-min-lr",
                                                            "--norm-epsilon",
                                                            "--rotary-base",
                                                            "--logging-level",
                                                            "--dataloader-type",
                                                            "--step-batch-size-schedule",
                                                            "--ddp-average-in-collective",
                                                            "--test-mode",
                                                            "--straggler-minmax-count",
                                                            "--use-tp-pp-dp-mapping",
                                                            "--weight-decay-incr-style"};

struct Unsupported {
  std::string_view argument, why;
};
constexpr std::array kUnsupported = {
    Unsupported{"--num-experts", "mixtures of experts"},
    Unsupported{"--multi-latent-attention", "multi-head latent attention"},
    Unsupported{"--mtp-num-layers", "multi-token prediction"},
    Unsupported{"--fp8-format", "fp8"},
    Unsupported{"--fp8-recipe", "fp8"},
    Unsupported{"--fp4-format", "fp4"},
    Unsupported{"--use-megatron-fsdp", "Megatron-FSDP"},
    Unsupported{"--use-torch-fsdp2", "FSDP2"},
    Unsupported{"--hybrid-layer-pattern", "hybrid models"},
    Unsupported{"--hybrid-override-pattern", "hybrid models"},
    Unsupported{"--is-hybrid-model", "hybrid models"},
    Unsupported{"--encoder-num-layers", "encoder-decoder models"},
    Unsupported{"--cuda-graph-impl", "CUDA graphs"},
    Unsupported{"--enable-cuda-graph", "CUDA graphs"},
    Unsupported{"--optimizer-cpu-offload", "the optimizer's offload"},
    Unsupported{"--fine-grained-activation-offloading", "activation offload"},
    Unsupported{"--use-precision-aware-optimizer", "the precision-aware optimizer"},
    Unsupported{"--pipeline-model-parallel-layout", "explicit pipeline layouts"},
    Unsupported{"--account-for-embedding-in-pipeline-split", "pipeline splits that count the embedding"},
    Unsupported{"--account-for-loss-in-pipeline-split", "pipeline splits that count the loss"},
    Unsupported{"--defer-embedding-wgrad-compute", "the deferred weight gradient of the embedding"},
    Unsupported{"--perform-rl-step", "reinforcement learning"},
    Unsupported{"--spec", "layer specs of one's own"},
    Unsupported{"--squared-relu", "squared ReLU"},
    Unsupported{"--apply-layernorm-1p", "norms centered at one"},
    Unsupported{"--no-persist-layer-norm", "local layers without Transformer Engine's norms"},
    Unsupported{"--no-masked-softmax-fusion", "the softmax without its fused kernel"},
    Unsupported{"--no-bias-dropout-fusion", "dropout without its fused kernel"},
    Unsupported{"--calculate-per-token-loss", "the loss per token"},
    Unsupported{"--grad-reduce-in-bf16", "gradients reduced in bf16"},
    Unsupported{"--group-query-attention", "grouped queries"},
    Unsupported{"--ddp-num-buckets", "a chosen number of buckets"},
    Unsupported{"--ddp-pad-buckets-for-high-nccl-busbw", "wider bucket padding"},
};

}  // namespace

bool is_without_bytes(std::string_view argument) {
  return std::ranges::any_of(kPrefixes, [&](std::string_view p) { return argument.starts_with(p); }) ||
         std::ranges::find(kWithoutBytes, argument) != kWithoutBytes.end();
}

std::string_view why_unsupported(std::string_view argument) {
  const auto* const found = std::ranges::find(kUnsupported, argument, &Unsupported::argument);
  return found == kUnsupported.end() ? std::string_view() : found->why;
}

}  // namespace plimsoll
