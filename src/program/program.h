// One rank's work as ops in issue order on streams, reading and writing tensors that are views of storages.
//
// A Program has two stages of life:
//   forward   what a framework's recipe writes: ops, and `drop` where a local of the modelling code lets go
//   of a tensor. complete  what `differentiate` and the passes make of it: ops, and `free` exactly where a
//   storage's last holder lets go.
// Executors (simulator/, runtime/) walk the statements of a complete program section by section: an op
// allocates the storages of its outputs that are not views, runs, and a `free` gives one back. They decide
// nothing themselves.
//
// Invariant (verify.h): every read is of a live storage, every storage is freed at most once after each
// allocation. All tables are flat arrays; ids are indices into them.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/dtype.h"
#include "base/units.h"
#include "program/layout.h"
#include "program/op.h"

namespace plimsoll {

template <typename Tag>
struct Index {
  uint32_t value = 0;
  friend auto operator<=>(Index, Index) = default;
};
using StorageId = Index<struct StorageTag>;
using TensorId = Index<struct TensorTag>;
using OpId = Index<struct OpTag>;
using ModuleId = Index<struct ModuleTag>;  // module 0 is "", the whole model
using RegionId = Index<struct RegionTag>;

// Every byte has exactly one category.
enum class Category : uint8_t {
  kParameter,
  kMasterParameter,
  kBuffer,
  kGradient,
  kOptimizerState,
  kInput,
  kActivation,
  kTemporary,
  kLogits,
  kGatherBuffer,
  kUnshardedParameter,
  kUnshardedGradient,    // of a whole unit, before it is reduced
  kAccumulatedGradient,  // the same, kept over micro-batches in the dtype of the reduction
  kReduceBuffer,
  kCommunicationBucket,
  kWorkspace
};
inline constexpr int kCategoryCount = 16;
std::string_view name_of(Category category);  // "parameter", "master_parameter", ...

// kGpu is the device, whichever it is; kHostPinned is page-locked; kDisk is a file.
enum class Tier : uint8_t { kGpu, kHostPinned, kHost, kDisk };
inline constexpr int kTierCount = 4;
std::string_view name_of(Tier tier);

// Who let go of a storage last: why it lived until then.
enum class Holder : uint8_t { kLocal, kSaved, kGradient, kCommunication, kOptimizer, kPersistent };
std::string_view name_of(Holder holder);

enum class Stream : uint8_t {
  kCompute,
  kAllGather,
  kReduceScatter,
  kAllReduce,
  kCopyIn,  // host to device
  kCopyOut,
  kDiskRead,
  kDiskWrite
};
inline constexpr int kStreamCount = 8;
// Their ops move bytes between tiers and run beside all others.
constexpr bool is_transfer(Stream stream) { return stream >= Stream::kCopyIn; }
std::string_view name_of(Stream stream);

struct Storage {
  Bytes bytes;
  Category category = Category::kActivation;
  Tier tier = Tier::kGpu;
  ModuleId owner;
};

struct TensorInfo {
  StorageId storage;
  DType dtype = DType::kFloat32;
  bool requires_grad = false;
  bool is_view = false;  // made by a view op: its base keeps the storage too, so nobody owns it alone
  Layout layout;
};

struct Op {
  OpKind kind = OpKind::kView;
  Stream stream = Stream::kCompute;
  bool is_recomputed = false;
  ModuleId module;
  std::optional<OpKind> backward_of;            // the forward op whose gradient this is part of
  uint32_t first_input = 0, input_count = 0;    // into Program::operands
  uint32_t first_output = 0, output_count = 0;  // into Program::operands
  uint32_t attributes = 0;                      // into Program::attributes; 0 is none
  Bytes workspace;                              // taken and returned within the op
};

enum class StatementKind : uint8_t { kOp, kDrop, kFree, kBegin, kEnd };
struct Statement {
  StatementKind kind = StatementKind::kOp;
  Holder holder = Holder::kLocal;  // of a kFree
  uint32_t index = 0;              // op, tensor (kDrop), storage (kFree) or region (kBegin, kEnd)
};

// A module's call in a forward program: where strategies attach (checkpoints, sharding units).
enum class RegionKind : uint8_t { kModel, kEmbedding, kBlock, kHead, kLoss };
std::string_view name_of(RegionKind kind);
enum class Checkpoint : uint8_t { kNone, kNonReentrant, kReentrant, kSelective };
std::string_view name_of(Checkpoint checkpoint);

// The inverse of name_of, for Category, Tier, Holder, Stream, RegionKind and Checkpoint.
template <typename Enum>
std::optional<Enum> enum_from_name(std::string_view name);

struct Region {
  RegionKind kind = RegionKind::kBlock;
  ModuleId module;
  std::vector<TensorId> arguments;  // tensors given to the call by position
  std::vector<TensorId> keywords;   // tensors given by keyword: a checkpoint holds them too
  std::vector<TensorId> results;
  // Set by passes:
  Checkpoint checkpoint = Checkpoint::kNone;
  std::vector<OpKind> kept;  // kSelective: results of these ops are kept, the rest is computed again
  std::vector<OpKind>
      alternately_kept;            // of these kinds within the call only the first result, the third ...
  bool keeps_only_needed = false;  // of `kept` only what the backward reads (compiled calls)
  bool is_recomputed_whole =
      false;             // to its end, although what the backward wants is there before (no early stop)
  bool is_unit = false;  // parameters are gathered before the call and given back after it
};

// Sections are stretches of statements that phases play, each maybe several times.
struct Section {
  std::string name;
  uint32_t first_statement = 0, last_statement = 0;  // half open
};
struct PhaseStep {
  std::string phase;  // "load", "fwd1", "bwd1.2", "step2", "eval", "save"
  uint32_t section = 0;
};

class Program {
 public:
  bool is_complete = false;
  std::vector<Storage> storages;
  std::vector<TensorInfo> tensors;
  std::vector<Op> ops;  // in the order in which the statements run them
  std::vector<TensorId> operands;
  std::vector<Attributes> attributes{std::monostate{}};
  std::vector<Statement> statements;
  std::vector<Region> regions;
  std::vector<std::string> modules{""};
  std::vector<Section> sections;
  std::vector<PhaseStep> schedule;
  std::vector<TensorId> parameters;  // in registration order; owner names them
  std::vector<std::string> groups;   // process groups by name
  std::vector<std::string> notes;    // approximations that every report shows

  const TensorInfo& tensor(TensorId id) const { return tensors[id.value]; }
  const Storage& storage(StorageId id) const { return storages[id.value]; }
  const Storage& storage_of(TensorId id) const { return storages[tensors[id.value].storage.value]; }
  const Op& op(OpId id) const { return ops[id.value]; }
  std::span<const TensorId> inputs(const Op& op) const {
    return {operands.data() + op.first_input, op.input_count};
  }
  std::span<const TensorId> outputs(const Op& op) const {
    return {operands.data() + op.first_output, op.output_count};
  }
  const Attributes& attributes_of(const Op& op) const { return attributes[op.attributes]; }
  const std::string& module_name(ModuleId id) const { return modules[id.value]; }

  ModuleId module(std::string_view name);  // finds or adds
  uint32_t add_attributes(const Attributes& a);
  // Room for a program of so many times the size of another; what is never used costs nothing.
  void reserve(const Program& other, size_t times);

 private:
  std::unordered_map<std::string, uint32_t> module_index_{{"", 0}};
};

}  // namespace plimsoll
