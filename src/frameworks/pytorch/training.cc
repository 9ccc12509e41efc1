#include "frameworks/pytorch/training.h"

#include <fmt/format.h>

#include <map>
#include <regex>

#include "frameworks/pytorch/eager.h"
#include "frameworks/pytorch/forward.h"
#include "frameworks/pytorch/optimizer.h"
#include "program/autograd.h"
#include "program/ops.h"
#include "program/passes/recompute.h"

namespace plimsoll::pytorch {
namespace {

// AccumulateGrad: the first gradient is kept as it is when nobody else holds it and it is laid out like the
// parameter. Source: torch/csrc/autograd/functions/accumulate_grad.h.
class Gradients : public GradientSink {
 public:
  explicit Gradients(Recorder& recorder) : r_(recorder) {}

  void accumulate(TensorId parameter, Value gradient) override {
    Value& kept = by_parameter_[parameter.value];
    if (kept) {
      kept = ops::add_(std::move(kept), std::move(gradient));
      return;
    }
    const Layout& wanted = r_.info(parameter).layout;
    const bool is_alike = gradient.layout().strides == wanted.strides || gradient.layout().is_contiguous();
    if (r_.tensor_references(gradient.id()) == 1 && is_alike) {
      kept = std::move(gradient);
    } else {
      Value copy = ops::empty(r_, wanted, gradient.dtype());
      kept = ops::copy_(std::move(copy), std::move(gradient));
    }
    r_.program().storages[kept.info().storage.value].category = Category::kGradient;
  }

  Value of(TensorId parameter) const {
    const auto found = by_parameter_.find(parameter.value);
    return found == by_parameter_.end() ? Value() : found->second;
  }
  bool is_empty() const { return by_parameter_.empty(); }
  void clear() { by_parameter_.clear(); }

 private:
  Recorder& r_;
  std::map<uint32_t, Value> by_parameter_;
};

class TrainingBuilder {
 public:
  TrainingBuilder(const Architecture& architecture, const ResolvedJob& job)
      : a_(architecture),
        job_(job),
        r_(program_, Recorder::Mode::kComplete),
        gradients_(r_),
        optimizer_(r_, job) {}

  Result<Program> build() {
    program_.is_complete = true;
    PLIMSOLL_CHECK(choose_trainable());
    PLIMSOLL_TRY(forward,
                 record_forward(a_, job_, trainable_, {.parameter_dtype = parameter_dtype(job_.precision)}));
    forward_ = std::move(forward);
    PLIMSOLL_CHECK(mark_recompute(forward_.program, job_.recompute));
    load();
    PLIMSOLL_CHECK(steps());
    if (job_.loop.has_evaluation) PLIMSOLL_CHECK(evaluate());
    r_.finish();
    return std::move(program_);
  }

 private:
  Result<void> choose_trainable() {
    trainable_.assign(a_.parameters.size(), true);
    if (!job_.loop.trainable) return {};
    const std::regex wanted(*job_.loop.trainable);
    for (size_t i = 0; i < trainable_.size(); ++i)
      trainable_[i] = std::regex_search(a_.parameters[i].name, wanted);
    return {};
  }

  template <typename F>
  void section(std::string name, std::string phase, F&& write) {
    Section s{.name = std::move(name), .first_statement = static_cast<uint32_t>(program_.statements.size())};
    write();
    s.last_statement = static_cast<uint32_t>(program_.statements.size());
    program_.sections.push_back(std::move(s));
    play_again(static_cast<uint32_t>(program_.sections.size() - 1), std::move(phase));
  }
  void play_again(uint32_t index, std::string phase) {
    program_.schedule.push_back({std::move(phase), index});
  }

  Value make(const Layout& layout, DType dtype, Category category, std::string_view owner) {
    const With<Category> c(r_.category, category);
    const With<ModuleId> m(r_.module, program_.module(owner));
    return ops::empty(r_, layout, dtype);
  }

  // Parameters in the order in which the modules make them, then what is tied is let go, then the inputs.
  void load() {
    section("load", "load", [&] {
      const With<bool> no_grad(r_.is_grad_enabled, false);
      const DType dtype = parameter_dtype(job_.precision);
      std::vector<Value> tied;
      for (const ParameterTensor& p : a_.parameters) {
        parameters_.push_back(make(Layout::contiguous(p.shape), dtype, Category::kParameter, p.name));
        program_.parameters.push_back(parameters_.back().id());
      }
      for (const BufferTensor& b : a_.buffers)
        buffers_.push_back(make(Layout::contiguous(b.shape), buffer_dtype(b), Category::kBuffer, b.name));
      for (size_t i = 0; i < parameters_.size(); ++i)
        for (const std::string& name : a_.parameters[i].tied_names)
          tied.push_back(make(Layout::contiguous(a_.parameters[i].shape), dtype, Category::kParameter, name));
      tied.clear();
      for (size_t i = 0; i < parameters_.size(); ++i)
        program_.tensors[parameters_[i].id().value].requires_grad = trainable_[i];
      const Layout tokens = Layout::contiguous({job_.batch.micro_batch, job_.batch.sequence});
      inputs_.push_back(make(tokens, DType::kInt64, Category::kInput, "input_ids"));
      inputs_.push_back(make(tokens, DType::kInt64, Category::kInput, "labels"));
      if (forward_.mask) inputs_.push_back(make(tokens, DType::kInt64, Category::kInput, "attention_mask"));
    });
  }

  void bind(Autograd& autograd, const ForwardProgram& forward) {
    for (size_t i = 0; i < parameters_.size(); ++i)
      autograd.bind(forward.program.parameters[i], parameters_[i]);
    for (size_t i = 0; i < buffers_.size(); ++i) autograd.bind(forward.buffers[i], buffers_[i]);
    autograd.bind(forward.ids, inputs_[0]);
    autograd.bind(forward.labels, inputs_[1]);
    if (forward.mask) autograd.bind(*forward.mask, inputs_[2]);
  }

  Result<void> steps() {
    for (int iteration = 1; iteration <= 2; ++iteration) {
      for (int64_t g = 1; g <= job_.batch.accumulation; ++g) {
        const std::string suffix =
            job_.batch.accumulation == 1 ? fmt::format("{}", iteration) : fmt::format("{}.{}", iteration, g);
        PLIMSOLL_CHECK(micro_step(suffix));
      }
      Result<void> result;
      section("step", fmt::format("step{}", iteration), [&] { result = optimizer_.step(trained_tensors()); });
      PLIMSOLL_CHECK(result);
      section("zero", fmt::format("zero{}", iteration), [&] { zero(); });
    }
    return {};
  }

  Result<void> micro_step(const std::string& suffix) {
    Autograd autograd(r_, forward_.program, gradients_, nullptr, {});
    Value loss;
    section("forward", "fwd" + suffix, [&] {
      bind(autograd, forward_);
      loss = autograd.forward(forward_.loss);
      autograd.release_locals();
    });
    section("backward", "bwd" + suffix, [&] { autograd.backward(std::move(loss)); });
    if (autograd.error()) return fail(*autograd.error());
    return {};
  }

  std::vector<TrainedTensor> trained_tensors() const {
    std::vector<TrainedTensor> tensors;
    for (const Value& p : parameters_)
      if (Value g = gradients_.of(p.id())) tensors.push_back({.parameter = p, .gradient = std::move(g)});
    return tensors;
  }

  void zero() {
    const With<Holder> holder(r_.holder, Holder::kGradient);
    if (job_.loop.zero_grad == ZeroGrad::kSetToNone) gradients_.clear();
  }

  Result<void> evaluate() {
    PLIMSOLL_TRY(forward,
                 record_forward(a_, job_, trainable_,
                                {.parameter_dtype = parameter_dtype(job_.precision), .is_training = false}));
    section("evaluation", "eval", [&] {
      Autograd autograd(r_, forward.program, gradients_, nullptr, {});
      bind(autograd, forward);
      autograd.forward_without_gradients();
      autograd.release_locals();
    });
    return {};
  }

  const Architecture& a_;
  const ResolvedJob& job_;
  Program program_;
  Recorder r_;
  ForwardProgram forward_;
  Gradients gradients_;
  OptimizerWriter optimizer_;
  std::vector<bool> trainable_;
  std::vector<Value> parameters_, buffers_, inputs_;
};

}  // namespace

Result<Program> build_training(const Architecture& architecture, const ResolvedJob& job) {
  TrainingBuilder builder(architecture, job);
  return builder.build();
}

}  // namespace plimsoll::pytorch
