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

constexpr std::array<std::string_view, 28> kWithoutBytes = {"--min-lr",
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
                                                            "--ddp-average-in-collective",
                                                            "--test-mode",
                                                            "--straggler-minmax-count",
                                                            "--use-tp-pp-dp-mapping",
                                                            "--weight-decay-incr-style"};

struct Unsupported {
  std::string_view argument, why;
};
constexpr std::array kUnsupported = {
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
    Unsupported{"--distribute-saved-activations", "saved activations distributed over ranks"},
    Unsupported{"--no-overlap-p2p-communication", "interleaved pipelines without overlapped communication"},
    Unsupported{"--overlap-param-gather-with-optimizer-step", "an optimizer for each model chunk"},
    Unsupported{"--tp-comm-overlap", "user buffers of overlapped communication"},
    Unsupported{"--recompute-modules", "selective recompute"},
    Unsupported{"--use-transformer-engine-op-fuser", "Transformer Engine's fused operations"},
    Unsupported{"--delay-wgrad-compute", "deferred weight gradients"},
    Unsupported{"--main-grads-dtype", "chosen dtypes of the optimizer"},
    Unsupported{"--main-params-dtype", "chosen dtypes of the optimizer"},
    Unsupported{"--exp-avg-dtype", "chosen dtypes of the optimizer"},
    Unsupported{"--modelopt-enabled", "distillation"},
    Unsupported{"--export-kd-teacher-load", "distillation"},
    Unsupported{"--fp32-residual-connection", "residuals in fp32"},
    Unsupported{"--sft", "supervised fine-tuning"},
    Unsupported{"--window-size", "sliding windows"},
    Unsupported{"--perform-rl-step", "reinforcement learning"},
    Unsupported{"--spec", "layer specs of one's own"},
    Unsupported{"--squared-relu", "squared ReLU"},
    Unsupported{"--apply-layernorm-1p", "norms centered at one"},
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
