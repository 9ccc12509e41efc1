// What the user chooses: the value types of one training job, before and after its defaults are filled in.
//
// `Job` is what was written (job file, flags). Fields whose default depends on the rest are optional there;
// all others hold the framework's own default. `ResolvedJob` (strategy/resolve.h makes it) has every value
// decided and is what frameworks/ and program/ read.
//
//   Job job{.model = {.name = "llama-3.1-8b"}, .hardware = {.gpu = "h100-80gb", .gpus = 8}};
//   Result<ResolvedJob> resolved = resolve(job, architecture, gpu);
//   resolved->batch.sequence;                                   // 4096, also in resolved->assumed
//
// Counts are plain integers; bytes never appear here but where a name ends in its unit.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "strategy/megatron.h"

namespace plimsoll {

enum class Framework { kPytorch, kTorchtitan, kMegatron, kDeepspeed, kNative };

// Of the parameters. kAutocast*: fp32 parameters under torch.autocast; with fp16 a GradScaler besides. Under
// FSDP2 it is the dtype of the shards, while Fsdp2Settings says what is gathered and reduced. kMixedBFloat16:
// bf16 parameters and compute, fp32 master weights, fp32 gradients.
enum class Precision { kFloat32, kBFloat16, kFloat16, kAutocastBFloat16, kAutocastFloat16, kMixedBFloat16 };

constexpr DType parameter_dtype(Precision precision) {
  if (precision == Precision::kBFloat16 || precision == Precision::kMixedBFloat16) return DType::kBFloat16;
  return precision == Precision::kFloat16 ? DType::kFloat16 : DType::kFloat32;
}
constexpr std::optional<DType> autocast_dtype(Precision precision) {
  if (precision == Precision::kAutocastBFloat16) return DType::kBFloat16;
  if (precision == Precision::kAutocastFloat16) return DType::kFloat16;
  return std::nullopt;
}
constexpr bool has_master_weights(Precision precision) { return precision == Precision::kMixedBFloat16; }
constexpr bool has_grad_scaler(Precision precision) { return precision == Precision::kAutocastFloat16; }

enum class TaskChoice { kAutomatic, kCausalLm, kMaskedLm };  // automatic: masked for bert, else causal

struct ModelChoice {
  std::string name;                                            // a preset, a config.json or its folder
  std::optional<int64_t> layers;                               // use only so many layers of the configuration
  std::vector<std::pair<std::string, std::string>> overrides;  // configuration key -> JSON text, in key order
  TaskChoice task = TaskChoice::kAutomatic;

  bool operator==(const ModelChoice&) const = default;
};

struct HardwareChoice {
  std::string gpu;  // name in the catalog or a file; empty: not given
  int64_t gpus = 1;
  std::optional<int64_t> gpus_per_node;  // empty: as the catalog says

  bool operator==(const HardwareChoice&) const = default;
};

// Degrees of the mesh axes; their product with `data` is the number of GPUs.
struct ParallelChoice {
  std::optional<int64_t> data;  // empty: what the other degrees leave
  int64_t tensor = 1;
  int64_t pipeline = 1;
  int64_t context = 1;
  int64_t expert = 1;
  bool sequence = false;  // Megatron's sequence parallelism inside the tensor-parallel group

  bool operator==(const ParallelChoice&) const = default;
};

enum class DataParallelEngine { kNone, kDdp, kFsdp2, kZero };

// What the data-parallel ranks divide among them: 0 nothing, 1 optimizer states, 2 gradients too, 3
// parameters too. Source: Rajbhandari et al., ZeRO, arXiv:1910.02054.
struct ZeroSettings {
  int64_t stage = 3;

  bool operator==(const ZeroSettings&) const = default;
};

// Where what the device doesn't hold all the time is kept.
enum class OffloadTarget { kNone, kHost, kDisk };

// Of framework native. Activations: what blocks keep for the backward goes to the host after their forward.
// Optimizer: masters and states live there, and the update runs on the host. Parameters (stage 3): so do the
// ranks' parts of them. Source: Ren et al., ZeRO-Offload, arXiv:2101.06840; Rajbhandari et al.,
// ZeRO-Infinity, arXiv:2104.07857; torchtune's OffloadActivations.
struct OffloadSettings {
  OffloadTarget activations = OffloadTarget::kNone;
  OffloadTarget optimizer = OffloadTarget::kNone;
  OffloadTarget parameters = OffloadTarget::kNone;
  int64_t min_offload_size = 1024;  // bytes: smaller activations stay
  bool pin_memory = true;           // host memory that is copied to or from the device is page-locked
  std::string directory;            // of the disk tier's file

  bool operator==(const OffloadSettings&) const = default;
};

// torch.nn.parallel.DistributedDataParallel's arguments; the first bucket is kDdpFirstBucketBytes.
inline constexpr int64_t kDdpFirstBucketBytes = int64_t{1} << 20;

struct DdpSettings {
  double bucket_cap_mb = 25;  // MiB
  bool gradient_as_bucket_view = false;
  bool broadcast_buffers = true;
  bool static_graph = false;
  bool find_unused_parameters = false;

  bool operator==(const DdpSettings&) const = default;
};

// Where the model is before fully_shard. kMeta: built on the meta device, and only the shards get memory
// (to_empty). kDevice: the whole model is on every GPU first.
enum class ModelLoad { kMeta, kDevice };

// fully_shard on each block, then on the root. An empty dtype is None: keep the tensors' own.
struct Fsdp2Settings {
  std::optional<DType> param_dtype = DType::kBFloat16;  // gathered and computed in
  std::optional<DType> reduce_dtype = DType::kFloat32;  // of the reduce-scatter
  std::optional<DType> output_dtype;
  bool cast_forward_inputs = true;
  bool reshard_after_forward = true;
  std::optional<bool>
      root_reshard_after_forward;  // empty: false, the root stays gathered; resolved: always there
  ModelLoad load = ModelLoad::kMeta;
  bool split_head = false;   // embedding and head are units of their own
  int64_t replicate = 1;     // HSDP: mesh (replicate, data / replicate)
  bool cpu_offload = false;  // CPUOffloadPolicy: shards, gradients, states on the host
  bool pin_memory = true;    // of the offloaded shards

  bool operator==(const Fsdp2Settings&) const = default;
};

// Which torchtitan's model code, wrapping and loop are run.
enum class TorchtitanRelease { k010, k022 };
// fsdp_reshard_after_forward of torchtitan. Default: blocks give their parameters back after the forward,
// what is needed first in the backward doesn't; with a pipeline nothing does.
enum class ReshardPolicy { kDefault, kAlways, kNever };

// Linears of the blocks in float8 (torchao's Float8Linear): a scale for each tensor, or for each row.
enum class Float8Recipe { kNone, kTensorwise, kRowwise };

struct TorchtitanSettings {
  TorchtitanRelease release = TorchtitanRelease::k022;
  ReshardPolicy reshard_after_forward = ReshardPolicy::kDefault;
  bool compiles_blocks = false;  // torch.compile on every block
  bool compiles_loss = false;
  Float8Recipe float8 = Float8Recipe::kNone;
  bool gathers_float8 =
      false;  // FSDP2 gathers the linears' weights in float8 (enable_fsdp_float8_all_gather)

  bool operator==(const TorchtitanSettings&) const = default;
};

struct BatchChoice {
  std::optional<int64_t> sequence;      // tokens
  std::optional<int64_t> micro_batch;   // sequences per rank and forward
  std::optional<int64_t> accumulation;  // micro-batches per optimizer step
  std::optional<int64_t> global_batch;  // sequences per optimizer step, all ranks together

  bool operator==(const BatchChoice&) const = default;
};

struct Batch {
  int64_t sequence = 4096;
  int64_t micro_batch = 1;
  int64_t accumulation = 1;
  int64_t global_batch = 1;  // == micro_batch * accumulation * data-parallel ranks

  int64_t micro_batch_tokens() const { return micro_batch * sequence; }  // per rank and forward
  bool operator==(const Batch&) const = default;
};

// kAdafactor is Transformers' (no first moment, factored second), kAdam8bit is bitsandbytes' block-wise one.
// kNone: no optimizer step.
enum class OptimizerKind { kAdamW, kSgd, kSgdMomentum, kAdafactor, kAdam8bit, kLion, kMuon, kNone };
// Of torch.optim's AdamW and SGD; the others have one implementation and leave it at kForeach.
enum class OptimizerImplementation { kForeach, kFused, kForLoop };

struct Optimizer {
  OptimizerKind kind = OptimizerKind::kAdamW;
  OptimizerImplementation implementation = OptimizerImplementation::kForeach;

  bool operator==(const Optimizer&) const = default;
};

// kFull wraps every block in torch.utils.checkpoint; kEveryNth the blocks 0, n, 2n ...; kSelective wraps
// every block non-reentrantly with a policy that saves the outputs of `kept_ops` and recomputes the rest.
enum class RecomputeKind { kNone, kFull, kEveryNth, kSelective };

struct Recompute {
  RecomputeKind kind = RecomputeKind::kNone;
  bool is_reentrant = false;  // kFull and kEveryNth only
  int64_t every_nth = 1;      // kEveryNth: at least 2
  // kSelective: ATen op names; "sdpa" stands for the outputs of every fused attention kernel.
  std::vector<std::string> kept_ops = {"mm", "addmm", "sdpa"};

  bool operator==(const Recompute&) const = default;
};

enum class AttentionImplementation { kEager, kSdpa, kFlashAttention2 };
// Which kernel torch.nn.functional.scaled_dot_product_attention takes. kAutomatic: PyTorch's order with flash
// first; kCudnnFirst: the order of newer cuDNN on H100. The others allow one backend only.
enum class SdpaBackend { kAutomatic, kCudnnFirst, kFlash, kEfficient, kCudnn, kMath };

struct AttentionChoice {
  std::optional<AttentionImplementation> implementation;  // empty: the model class's own default
  SdpaBackend sdpa_backend = SdpaBackend::kAutomatic;

  bool operator==(const AttentionChoice&) const = default;
};

// How the experts' products are computed (experts_implementation of Transformers).
enum class ExpertsImplementation { kGroupedMm, kBatchedMm, kEager };

// kFullLogits: ForCausalLMLoss of Transformers, all logits and their fp32 copy. kChunked: head and loss in
// `chunks` pieces of the tokens, recomputed in the backward. kFusedLinear: Liger's fused linear
// cross-entropy.
enum class LossKind { kFullLogits, kChunked, kFusedLinear };

struct Loss {
  LossKind kind = LossKind::kFullLogits;
  int64_t chunks = 8;  // kChunked only

  bool operator==(const Loss&) const = default;
};

enum class ZeroGrad { kSetToNone, kZeros, kNever };
enum class UseCache { kFalse, kTrue, kConfig };  // kConfig: not given to the model, the configuration decides

// The loop around the model.
struct TrainingLoop {
  std::optional<double> clip_max_norm;  // clip_grad_norm_(max_norm, foreach=True); empty: no clipping
  ZeroGrad zero_grad = ZeroGrad::kSetToNone;
  bool no_sync = false;             // no gradient communication before the last micro-batch
  bool has_attention_mask = false;  // a mask of ones, int64, is given to the model
  UseCache use_cache = UseCache::kFalse;
  bool hold_outputs = false;             // the model's output stays in scope until the next forward
  std::optional<std::string> trainable;  // regular expression on parameter names; empty: all
  bool input_require_grads = false;      // always so with reentrant recompute
  bool has_evaluation = true;            // one forward with labels under no_grad
  bool has_save = true;                  // a checkpoint is written

  bool operator==(const TrainingLoop&) const = default;
};

enum class LearningRateSchedule { kConstant, kCosine };
enum class DataFormat { kAutomatic, kText, kJsonLines, kTokens };
enum class TokenDtype { kUInt16, kUInt32 };

// What `plimsoll train` does with the program; no byte of an estimate depends on it.
struct RunSettings {
  int64_t steps = 100;  // optimizer steps
  int64_t seed = 0;     // of fresh weights and of the order of the data
  std::string weights;  // safetensors file, index or folder; empty: fresh weights
  double learning_rate = 3e-4;
  LearningRateSchedule schedule = LearningRateSchedule::kCosine;
  int64_t warmup_steps = 0;
  double final_learning_rate = 0;  // of the cosine schedule, as a part of learning_rate
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0.01;
  double momentum = 0.9;         // of sgd-momentum
  double decay_rate = -0.8;      // of adafactor: beta2 of step t is 1 - t^decay_rate
  double clip_threshold = 1;     // of adafactor: the largest root mean square of an update
  int64_t threads = 0;           // of each rank; 0: the machine's cores over the local ranks
  std::string metrics;           // file for a JSON line a step; empty: none
  int64_t evaluate_every = 0;    // steps; 0: at the end only
  std::string checkpoints;       // folder; empty: none are written
  int64_t checkpoint_every = 0;  // steps; 0: at the end only
  bool resume = true;            // from the last checkpoint in the folder, when there is one

  bool operator==(const RunSettings&) const = default;
};

struct DataChoice {
  std::string path;  // a file or a folder
  DataFormat format = DataFormat::kAutomatic;
  std::vector<std::string> endings;       // of the files to take from folders (".py"); empty: all
  std::string json_key = "text";          // of JSON lines
  std::string document_separator;         // in text; empty: a file is a document
  bool end_of_document = true;            // an id behind each document of bytes
  std::optional<TokenDtype> token_dtype;  // of token files without a sidecar
  std::string held_out;                   // a file or a folder, like `path`; empty: no evaluation

  bool operator==(const DataChoice&) const = default;
};

// How unevenly tokens spread over the experts of a model without a capacity (strategy/routing_load.h). Empty
// quantile: evenly.
struct RoutingChoice {
  std::optional<double> quantile;       // of the rows that a rank computes in a layer
  std::optional<double> max_violation;  // the fullest expert's rows over the mean's, less one

  bool operator==(const RoutingChoice&) const = default;
};

struct AllocatorChoice {
  std::string configuration;  // PYTORCH_ALLOC_CONF as written; empty: PyTorch's defaults

  bool operator==(const AllocatorChoice&) const = default;
};

struct Job {
  ModelChoice model;
  HardwareChoice hardware;
  Framework framework = Framework::kPytorch;
  ParallelChoice parallel;
  std::optional<DataParallelEngine> engine;
  DdpSettings ddp;
  Fsdp2Settings fsdp2;
  ZeroSettings zero;
  OffloadSettings offload;
  TorchtitanSettings torchtitan;
  std::optional<Precision> precision;
  BatchChoice batch;
  Optimizer optimizer;
  Recompute recompute;
  AttentionChoice attention;
  std::optional<ExpertsImplementation> experts;  // empty: the model class's own default
  Loss loss;
  TrainingLoop loop;
  AllocatorChoice allocator;
  RunSettings run;
  DataChoice data;
  std::optional<MegatronSettings> megatron;  // of framework megatron
  RoutingChoice routing;                     // of framework megatron

  // Field paths ("batch.sequence") that were written down; only reports of what was assumed depend on it. A
  // value that differs from its default counts as given in any case.
  std::set<std::string> given;

  bool operator==(const Job&) const = default;
};

struct Assumption {
  std::string field;   // "batch.sequence"
  std::string value;   // as a job file would write it
  std::string reason;  // "the model's limit is lower than 4096"

  std::string to_text() const;  // "batch.sequence = 2048 (the model's limit is lower than 4096)"
  bool operator==(const Assumption&) const = default;
};

// Ranks along each axis. world == data * tensor * pipeline * context; data == replicate * shard.
struct Mesh {
  int64_t world = 1;
  int64_t data = 1;
  int64_t replicate = 1;  // copies of the shards (all of `data` under DDP)
  int64_t shard = 1;      // ranks that share one copy of the states (1 but for FSDP2 and ZeRO-1 to 3)
  int64_t tensor = 1;
  int64_t pipeline = 1;
  int64_t context = 1;
  int64_t expert = 1;
  int64_t gpus_per_node = 1;

  bool operator==(const Mesh&) const = default;
};

struct ResolvedJob {
  Framework framework = Framework::kPytorch;
  Mesh mesh;
  DataParallelEngine engine = DataParallelEngine::kNone;
  DdpSettings ddp;
  Fsdp2Settings fsdp2;
  ZeroSettings zero;
  OffloadSettings offload;
  TorchtitanSettings torchtitan;
  Precision precision = Precision::kBFloat16;
  Batch batch;
  Optimizer optimizer;
  Recompute recompute;
  AttentionImplementation attention = AttentionImplementation::kSdpa;
  SdpaBackend sdpa_backend = SdpaBackend::kAutomatic;
  ExpertsImplementation experts = ExpertsImplementation::kGroupedMm;  // of models with experts
  Loss loss;
  TrainingLoop loop;
  AllocatorChoice allocator;
  RunSettings run;
  DataChoice data;
  std::optional<MegatronSettings> megatron;  // of framework megatron
  int64_t gpu_multiprocessors = 0;           // on which some kernels' scratch depends
  std::optional<int> gpu_compute_capability;

  std::vector<Assumption> assumed;  // every default that was used, in the order of the fields
  std::vector<std::string> notes;   // approximations and oddities that every report shows

  DType matmul_dtype()
      const;  // of matrix products and attention: autocast's, else FSDP2's, else the parameters'
};

}  // namespace plimsoll
