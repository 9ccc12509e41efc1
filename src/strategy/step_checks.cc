// Checks of the optimizer step, recompute, the loss and what is trained (strategy/case.h).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "strategy/allocator_configuration.h"
#include "strategy/case.h"
#include "strategy/names.h"
#include "strategy/path_match.h"
#include "strategy/recompute_ops.h"
#include "strategy/trainable.h"

namespace plimsoll {
namespace {

void check_optimizer(const Case& c, Errors& errors) {
  const Optimizer& optimizer = c.resolved.optimizer;
  if (!has_known_step(optimizer))
    add(errors, {.field = "optimizer.name",
                 .message = fmt::format("{} is not supported: PyTorch has no shape function of fused SGD to "
                                        "check its memory against",
                                        name_of(optimizer)),
                 .expected = "sgd, sgd-loop, sgd-momentum, sgd-momentum-loop"});
}

void check_recompute(const Case& c, Errors& errors) {
  const Recompute& recompute = c.job.recompute;
  if (recompute.kind != RecomputeKind::kSelective) return;
  for (const std::string& op : recompute.kept_ops)
    if (!is_recompute_op(op))
      add(errors, {.field = "recompute.kept_ops",
                   .message = fmt::format("\"{}\" is not an op whose output can be kept", op),
                   .expected = fmt::format("{}", fmt::join(recompute_ops(), ", ")),
                   .hint = did_you_mean(op, recompute_ops())});
}

// A sequence's first token is predicted by none.
void check_chunks(const Case& c, Errors& errors) {
  const Batch& batch = c.resolved.batch;
  const int64_t predicted = batch.micro_batch * (batch.sequence - 1);
  if (c.job.loss.chunks <= predicted) return;
  add(errors, {.field = "loss.chunks",
               .message = fmt::format("{} pieces of micro_batch {} x (sequence {} - 1) = {} predicted tokens",
                                      c.job.loss.chunks, batch.micro_batch, batch.sequence, predicted),
               .expected = predicted == 0 ? "batch.sequence = 2 or more" : "at most one piece a token"});
}

void check_loss(const Case& c, Errors& errors) {
  const Loss& loss = c.job.loss;
  if (loss.kind != LossKind::kFullLogits && c.architecture.task == Task::kMaskedLm)
    add(errors, {.field = "loss.path",
                 .message = fmt::format("{} needs a causal language model, {} has a masked one",
                                        name_of(loss.kind), c.architecture.name),
                 .expected = "full"});
  if (loss.kind == LossKind::kChunked) check_chunks(c, errors);
}

void check_task(const Case& c, Errors& errors) {
  const TaskChoice task = c.job.model.task;
  const bool is_wrong = (task == TaskChoice::kMaskedLm && c.architecture.task != Task::kMaskedLm) ||
                        (task == TaskChoice::kCausalLm && c.architecture.task != Task::kCausalLm);
  if (!is_wrong) return;
  add(errors, {.field = "model.task",
               .message = fmt::format("{} is not what {} is", name_of(task), c.architecture.class_name),
               .expected = "automatic"});
}

void check_trainable(const Case& c, Errors& errors) {
  if (!c.job.loop.trainable) return;
  const auto trained = trainable_parameters(*c.job.loop.trainable, c.architecture);
  if (!trained) {
    errors.push_back(trained.error());
  } else if (std::ranges::none_of(*trained, std::identity{})) {
    add(errors,
        {.field = "loop.trainable",
         .message =
             fmt::format("\"{}\" matches none of {} parameters", *c.job.loop.trainable, trained->size()),
         .expected = "at least one trained parameter",
         .hint = trained->empty() ? std::string()
                                  : fmt::format("a name is \"{}\"", c.architecture.parameters.back().name)});
  }
}

void check_allocator(const Case& c, Errors& errors) {
  const auto settings = parse_allocator_configuration(c.job.allocator.configuration);
  if (!settings) errors.push_back(settings.error());
}

}  // namespace

bool has_known_step(const Optimizer& optimizer) {
  const bool is_sgd = optimizer.kind == OptimizerKind::kSgd || optimizer.kind == OptimizerKind::kSgdMomentum;
  return !is_sgd || optimizer.implementation != OptimizerImplementation::kFused;
}

void check_step(const Case& c, Errors& errors) {
  check_task(c, errors);
  check_optimizer(c, errors);
  check_recompute(c, errors);
  check_loss(c, errors);
  check_trainable(c, errors);
  check_allocator(c, errors);
}

}  // namespace plimsoll
