// What a recipe of Transformers' modelling code is written with: modules by path, parameters by name, and the
// operators under autocast. A recipe mirrors the Python it stands for line by line: a local there is a Value
// here, and dies where the local is rebound or its function returns. Arguments of a module's call live until
// the call returns (the caller's frame holds them), so functions that stand for modules take `const Value&`;
// operators take Values by value and let go.
//
//   Eager eager(recorder, architecture, {.autocast = DType::kBFloat16, .is_training = true});
//   Eager::Module module(eager, "self_attn");          // path: model.layers.0.self_attn
//   Value q = eager.linear("q_proj", hidden);
//
// Source: torch/nn/modules, aten/src/ATen/autocast_mode.cpp (which operators cast to what, and the cache of
// weights).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "model/architecture.h"
#include "program/ops.h"
#include "program/recorder.h"

namespace plimsoll::pytorch {

struct EagerOptions {
  DType parameter_dtype = DType::kBFloat16;  // that the modules see
  DType loaded_dtype = DType::kBFloat16;     // that the model was made in: of its buffers
  bool has_one_dtype =
      false;  // parameters made in fp32 whatever the model's dtype are seen in it too (FSDP2)
  std::optional<DType> autocast;
  int64_t tensor_parallel = 1;       // ranks that share each block's linears (tensor_parallel.h)
  bool is_training = true;           // dropout is active, gradients are wanted
  bool input_require_grads = false;  // enable_input_require_grads()
};

DType buffer_dtype(const BufferTensor& buffer, DType model_dtype);

class Eager {
 public:
  // Declares every parameter and buffer of the model in the recorder's program.
  // REQUIRES trainable.size() == architecture.parameters.size().
  Eager(Recorder& recorder, const Architecture& architecture, const std::vector<bool>& trainable,
        EagerOptions options);

  Recorder& recorder() { return recorder_; }
  const Architecture& architecture() const { return architecture_; }
  bool is_training() const { return options_.is_training; }
  bool has_input_require_grads() const { return options_.input_require_grads; }
  bool is_autocast() const { return autocast_.has_value(); }
  std::optional<DType> autocast_dtype() const { return autocast_; }
  DType parameter_dtype() const { return options_.parameter_dtype; }
  const std::string& path() const { return path_; }

  // A module being called: extends the path for a scope.
  class Module {
   public:
    Module(Eager& eager, std::string_view name);
    ~Module();
    Module(const Module&) = delete;
    Module& operator=(const Module&) = delete;

   private:
    Eager& eager_;
    size_t old_length_;
    With<ModuleId> module_;
  };
  // with torch.autocast(enabled=False): for a scope.
  class WithoutAutocast {
   public:
    explicit WithoutAutocast(Eager& eager) : without_(eager.autocast_, std::nullopt) {}

   private:
    With<std::optional<DType>> without_;
  };

  // The parameter or buffer of that name below the current path ("weight", "q_proj.weight"); undefined when
  // there is none.
  Value parameter(std::string_view name) const;
  Value buffer(std::string_view name) const;
  // A tensor that the module at the current path makes in its first forward and keeps.
  Value made_once(std::string_view name, const Layout& layout, DType dtype);
  const std::vector<TensorId>& made_once_ids() const { return made_once_ids_; }
  const std::vector<TensorId>& buffer_ids() const { return buffer_ids_; }  // as architecture.buffers
  double dropout_probability(double configured) const { return is_training() ? configured : 0; }

  // ---- modules ----
  Value linear(std::string_view module, const Value& x);       // nn.Linear below the path
  Value conv1d(std::string_view module, const Value& x);       // Transformers' Conv1D: weight [in, out]
  Value embedding(std::string_view module, const Value& ids);  // nn.Embedding
  Value layer_norm(std::string_view module, const Value& x);   // nn.LayerNorm
  Value dropout(std::string_view module, const Value& x, double probability);  // nn.Dropout

  // ---- operators under autocast: arguments and their casts live until the operator returns ----
  Value linear_op(Value x, Value weight, Value bias);
  Value matmul(Value a, Value b);
  Value bmm(Value a, Value b);
  Value baddbmm(Value c, Value a, Value b, double alpha);
  Value addmm(Value bias, Value a, Value b);
  Value layer_norm_op(Value x, Value weight, Value bias);
  Value softmax(Value x, int dim, std::optional<DType> dtype = std::nullopt);
  Value log_softmax(Value x, int dim);
  Value pow(Value x, double exponent);
  Value rsqrt(Value x);
  Value sum(Value x, int dim, bool keep_dims = false);  // in fp32, without a copy of x
  Value cat(std::vector<Value> parts, int dim);
  Value low_precision(
      Value x);  // cast to the autocast dtype, weights through the cache; itself without autocast
  Value full_precision(Value x);  // cast to fp32 under autocast

  // requires_grad_(True): what no op with a graph made becomes a leaf.
  void require_grad(const Value& x);
  // The outermost autocast ends: the cached copies of weights and other leaves are let go.
  void clear_autocast_cache();

 private:
  Value find(const std::unordered_map<std::string, Value>& table, std::string_view name) const;

  Recorder& recorder_;
  const Architecture& architecture_;
  EagerOptions options_;
  std::optional<DType> autocast_;
  std::string path_;
  std::unordered_map<std::string, Value> parameters_;
  std::unordered_map<std::string, Value> buffers_;
  std::vector<TensorId> buffer_ids_, made_once_ids_;
  std::unordered_map<uint32_t, Value> cache_;  // by leaf: its copy in the autocast dtype
  std::vector<Value> cached_leaves_;           // those that the copies' graph nodes hold
  std::unordered_set<uint32_t> leaves_;        // besides parameters
};

}  // namespace plimsoll::pytorch
