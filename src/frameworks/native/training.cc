#include "frameworks/native/training.h"

#include <fmt/format.h>

#include <memory>

#include "frameworks/native/forward.h"
#include "frameworks/native/span_recorder.h"
#include "program/autograd.h"
#include "program/ops.h"
#include "program/passes/recompute.h"
#include "program/passes/sum_products.h"

namespace plimsoll::native {
namespace {

class TrainingBuilder {
 public:
  TrainingBuilder(const Architecture& architecture, const ResolvedJob& job, const TrainingOptions& options)
      : a_(architecture),
        job_(job),
        options_(options),
        r_(out_.program, Recorder::Mode::kComplete),
        zero_(r_, architecture, job, options.rank) {}

  Result<Training> build() {
    out_.program.is_complete = true;
    PLIMSOLL_CHECK(run("forward", forward_.program, [&]() -> Result<void> {
      forward_ = record_forward(a_, job_);
      return {};
    }));
    PLIMSOLL_CHECK(
        run("recompute", forward_.program, [&] { return mark_recompute(forward_.program, job_.recompute); }));
    zero_.mark_units(forward_.program);
    out_.program.notes = forward_.program.notes;
    PLIMSOLL_CHECK(run("load", out_.program, [&]() -> Result<void> {
      out_.load = section("load", [&] { load(); });
      return {};
    }));
    PLIMSOLL_CHECK(run("differentiate", out_.program, [&] { return micro_steps(); }));
    PLIMSOLL_CHECK(run("optimizer", out_.program, [&]() -> Result<void> {
      out_.step = section("step", [&] { zero_.step(); });
      return {};
    }));
    if (job_.loop.has_evaluation) evaluate();
    schedule();
    out_.units = zero_.tensors();
    out_.squared_norm = zero_.squared_norm();
    r_.finish();
    if (job_.offload.activations != OffloadTarget::kNone)
      PLIMSOLL_CHECK(run("offload activations", out_.program, [&] {
        return offload_activations(
            out_.program, spans_,
            {.to = moved_tier(job_.offload), .least = Bytes{job_.offload.min_offload_size}});
      }));
    PLIMSOLL_CHECK(run("sum products", out_.program, [&] { return sum_products(out_.program); }));
    PLIMSOLL_CHECK(passes().check(out_.program));
    return std::move(out_);
  }

 private:
  PassList& passes() { return options_.passes ? *options_.passes : own_passes_; }
  template <typename Pass>
  Result<void> run(std::string_view name, Program& program, Pass&& pass) {
    return passes().run(name, program, std::forward<Pass>(pass));
  }

  template <typename F>
  uint32_t section(std::string name, F&& write) {
    Program& p = out_.program;
    Section s{.name = std::move(name), .first_statement = static_cast<uint32_t>(p.statements.size())};
    write();
    s.last_statement = static_cast<uint32_t>(p.statements.size());
    p.sections.push_back(std::move(s));
    return static_cast<uint32_t>(p.sections.size() - 1);
  }

  Value make(std::string_view name, const Layout& layout, DType dtype, Category category) {
    const With<Category> c(r_.category, category);
    const With<ModuleId> m(r_.module, out_.program.module(name));
    return ops::empty(r_, layout, dtype);
  }

  void load() {
    zero_.load();
    const Layout tokens = Layout::contiguous({job_.batch.micro_batch, job_.batch.sequence});
    ids_ = make("input_ids", tokens, DType::kInt64, Category::kInput);
    labels_ = make("labels", tokens, DType::kInt64, Category::kInput);
    out_.ids = ids_.id();
    out_.labels = labels_.id();
    if (!forward_.cos) return;
    const Layout angles = forward_.program.tensor(*forward_.cos).layout;
    cos_ = make("rotary.cos", angles, DType::kFloat32, Category::kBuffer);
    sin_ = make("rotary.sin", angles, DType::kFloat32, Category::kBuffer);
    out_.rotary = {.cos = cos_.id(), .sin = sin_.id()};
    r_.emit_effect(OpKind::kRotaryTable, std::vector<TensorId>{cos_.id(), sin_.id()});
  }

  void bind(Autograd& autograd) {
    for (size_t i = 0; i < a_.parameters.size(); ++i)
      autograd.bind(forward_.program.parameters[i], zero_.parameter(i));
    autograd.bind(forward_.ids, ids_);
    autograd.bind(forward_.labels, labels_);
    if (!forward_.cos) return;
    autograd.bind(*forward_.cos, cos_);
    autograd.bind(*forward_.sin, sin_);
  }

  // The first finds no gradients, the last is followed by the step; those between are alike.
  Result<void> micro_steps() {
    const int64_t count = job_.batch.accumulation;
    for (int64_t m = 1; m <= count; ++m) {
      if (m > 2 && m < count)
        out_.micro_steps.push_back(out_.micro_steps.back());
      else
        PLIMSOLL_CHECK(micro_step(m == count));
    }
    return {};
  }

  Result<void> micro_step(bool is_last) {
    zero_.begin_micro_step(is_last);
    SpanRecorder spans(out_.program, forward_.program, zero_);
    auto graph = std::make_unique<Autograd>(r_, forward_.program, zero_, &spans, AutogradOptions{});
    MicroStep step;
    Value loss;
    step.forward = section("forward", [&] {
      bind(*graph);
      loss = graph->forward(forward_.loss);
      graph->release_locals();
    });
    step.loss = loss.id();
    Result<void> done;
    step.backward = section("backward", [&] {
      done = graph->backward(std::move(loss));
      graph.reset();
    });
    out_.micro_steps.push_back(step);
    spans_.push_back(spans.spans());
    return done;
  }

  // The loss is let go of at the end of a section of its own, so that it can be read before.
  void evaluate() {
    MicroStep step;
    Value loss;
    step.forward = section("evaluation", [&] {
      Autograd autograd(r_, forward_.program, zero_, &zero_, {});
      bind(autograd);
      autograd.forward_without_gradients();
      loss = autograd.local(forward_.loss);
      autograd.release_locals();
    });
    step.loss = loss.id();
    step.backward = section("evaluation ends", [&] { loss.reset(); });
    out_.evaluation = step;
  }

  void play(std::string phase, uint32_t section) {
    out_.program.schedule.push_back({.phase = std::move(phase), .section = section});
  }
  void schedule() {
    play("load", out_.load);
    for (int iteration = 1; iteration <= 2; ++iteration) {
      for (size_t m = 0; m < out_.micro_steps.size(); ++m) {
        const std::string suffix = out_.micro_steps.size() == 1 ? fmt::format("{}", iteration)
                                                                : fmt::format("{}.{}", iteration, m + 1);
        play("fwd" + suffix, out_.micro_steps[m].forward);
        play("bwd" + suffix, out_.micro_steps[m].backward);
      }
      play(fmt::format("step{}", iteration), out_.step);
    }
    if (!out_.evaluation) return;
    play("eval", out_.evaluation->forward);
    play("eval", out_.evaluation->backward);
  }

  const Architecture& a_;
  const ResolvedJob& job_;
  const TrainingOptions options_;
  PassList own_passes_;
  Training out_;
  Forward forward_;
  Recorder r_;
  Zero zero_;
  Value ids_, labels_, cos_, sin_;
  std::vector<std::vector<BlockSpans>> spans_;  // of the micro-batches that have sections of their own
};

}  // namespace

Result<Training> build_training(const Architecture& architecture, const ResolvedJob& job,
                                const TrainingOptions& options) {
  TrainingBuilder builder(architecture, job, options);
  return builder.build();
}

}  // namespace plimsoll::native
