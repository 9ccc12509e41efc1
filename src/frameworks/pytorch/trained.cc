#include "frameworks/pytorch/trained.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "strategy/trainable.h"

namespace plimsoll::pytorch {
namespace {

// Names of trained parameters that have no gradient.
std::vector<std::string_view> without_gradient(const Architecture& architecture,
                                               const std::vector<bool>& trainable,
                                               const std::vector<TrainedTensor>& trained,
                                               const Program& program) {
  std::set<std::string_view> reached;
  for (const TrainedTensor& t : trained)
    reached.insert(program.module_name(program.storage_of(t.parameter.id()).owner));
  std::vector<std::string_view> names;
  for (size_t i = 0; i < architecture.parameters.size(); ++i)
    if (const std::string& name = architecture.parameters[i].name; trainable[i] && !reached.contains(name))
      names.emplace_back(name);
  return names;
}

// Liger's forward makes the weight's gradient only when the hidden states want one too.
std::string hint_for(const ResolvedJob& job) {
  if (job.loss.kind != LossKind::kFusedLinear)
    return job.engine == DataParallelEngine::kDdp ? "ddp.find_unused_parameters=true" : "";
  return "Liger's kernel gives the head's weight a gradient only when the hidden states require one: another "
         "loss.path, or loop.input_require_grads=true";
}

}  // namespace

Result<std::vector<bool>> trainable_flags(const ResolvedJob& job, const Architecture& architecture) {
  if (!job.loop.trainable) return std::vector<bool>(architecture.parameters.size(), true);
  return trainable_parameters(*job.loop.trainable, architecture);
}

Result<void> check_gradients(const Architecture& architecture, const std::vector<bool>& trainable,
                             const std::vector<TrainedTensor>& trained, const ResolvedJob& job,
                             Program& program) {
  const std::vector<std::string_view> missing = without_gradient(architecture, trainable, trained, program);
  if (missing.empty()) return {};
  const auto wanted = static_cast<size_t>(std::ranges::count(trainable, true));
  const std::string text = fmt::format("{} of {} trained parameters get no gradient (first {})",
                                       missing.size(), wanted, missing.front());
  const bool is_ddp = job.engine == DataParallelEngine::kDdp && !job.ddp.find_unused_parameters;
  if (missing.size() == wanted || is_ddp)
    return fail({.position = {.key = "loop.trainable"},
                 .message = is_ddp ? text + ", and DDP waits for all of them" : text,
                 .expected = "parameters that the loss depends on",
                 .hint = hint_for(job)});
  program.notes.push_back(text + ": the optimizer leaves them out");
  return {};
}

}  // namespace plimsoll::pytorch
