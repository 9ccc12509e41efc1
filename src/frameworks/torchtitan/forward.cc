// Source: torchtitan 0.1.0 and 0.2.2, train.py (forward_backward_step), components/loss.py.
#include "frameworks/torchtitan/forward.h"

#include "frameworks/torchtitan/transformer.h"

namespace plimsoll::torchtitan {
namespace {

using pytorch::Eager;
using pytorch::ForwardProgram;

// cross_entropy(pred.flatten(0, 1).float(), labels.flatten(0, 1))
Value cross_entropy_loss(const ResolvedJob& job, const Value& logits, const Value& labels) {
  const With<Category> category(logits.recorder().category, Category::kLogits);
  const int64_t vocabulary = logits.size(-1);
  if (job.torchtitan.compiles_loss)
    return ops::fused_cross_entropy(ops::view(logits, {-1, vocabulary}), ops::view(labels, {-1}));
  const Value wide = ops::cast(ops::view(logits, {-1, vocabulary}), DType::kFloat32);
  const Value flat_labels = ops::view(labels, {-1});
  const Value log_probabilities = ops::log_softmax(wide, 1);
  return ops::nll_loss(log_probabilities, flat_labels);
}

// 0.1.0 takes the mean and divides it by the micro-batches of a step, later ones divide the sum by the number
// of tokens in them, a tensor on the device.
Value scaled_loss(const ResolvedJob& job, Value loss) {
  if (job.torchtitan.release == TorchtitanRelease::k010)
    return job.batch.accumulation == 1 ? loss : ops::div(loss, static_cast<double>(job.batch.accumulation));
  const Value tokens = ops::full(loss.recorder(), {}, DType::kInt64);
  return ops::div(loss, tokens);
}

void write(Eager& eager, const ResolvedJob& job, ForwardProgram& forward) {
  Recorder& recorder = eager.recorder();
  const Layout tokens = Layout::contiguous({job.batch.micro_batch, job.batch.sequence});
  const auto input = [&](std::string_view name) {
    return recorder.persistent(tokens, DType::kInt64, Category::kInput, forward.program.module(name));
  };
  const Value ids = input("input_ids");
  const Value labels = input("labels");
  forward.ids = ids.id();
  forward.labels = labels.id();
  Value logits = transformer(eager, job, ids);
  Value loss = cross_entropy_loss(job, logits, labels);
  if (eager.is_training()) loss = scaled_loss(job, std::move(loss));
  logits.reset();  // del pred
  forward.scaling_begins = static_cast<uint32_t>(forward.program.statements.size());
  forward.loss = loss.id();
  recorder.finish();
}

}  // namespace

Result<ForwardProgram> record_forward(const Architecture& architecture, const ResolvedJob& job,
                                      const std::vector<bool>& trainable, pytorch::ForwardOptions options) {
  ForwardProgram forward;
  Recorder recorder(forward.program, Recorder::Mode::kForward);
  recorder.is_grad_enabled = options.is_training;
  Eager eager(recorder, architecture, trainable,
              {.parameter_dtype = options.parameter_dtype,
               .loaded_dtype = parameter_dtype(job.precision),
               .has_one_dtype = true,
               .autocast = autocast_dtype(job.precision),
               .is_training = options.is_training});
  if (job.torchtitan.float8 != Float8Recipe::kNone)
    forward.program.notes.emplace_back(
        "torchtitan.float8: the float8 copies of weights and activations, which live within a compiled "
        "block, are "
        "not counted");
  forward.buffers = eager.buffer_ids();
  write(eager, job, forward);
  return forward;
}

}  // namespace plimsoll::torchtitan
