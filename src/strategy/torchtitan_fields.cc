#include "strategy/torchtitan_fields.h"

#include "strategy/field_builders.h"

namespace plimsoll {

using namespace field_builders;

std::vector<Field> torchtitan_fields() {
  const auto torchtitan = [](auto member) { return at(&Job::torchtitan, member); };
  return {
      choice<TorchtitanRelease>(
          {.path = "torchtitan.release",
           .help =
               "whose model code, wrapping and loop are run; they differ in what FSDP2's units are, in how "
               "grouped heads are attended to and in the attention kernel",
           .reason = "the newest that is known here"},
          torchtitan(&TorchtitanSettings::release)),
      choice<ReshardPolicy>(
          {.path = "torchtitan.reshard_after_forward",
           .help = "parallelism.fsdp_reshard_after_forward; default: all units but what the backward needs "
                   "first",
           .reason = "torchtitan's default"},
          torchtitan(&TorchtitanSettings::reshard_after_forward)),
      boolean({.path = "torchtitan.compile_blocks",
               .help = "torch.compile on every block (compile.enable with the component model); with "
                       "recompute.mode selective or full",
               .reason = "torchtitan's default"},
              torchtitan(&TorchtitanSettings::compiles_blocks)),
      boolean({.path = "torchtitan.compile_loss",
               .help = "torch.compile on the loss (the component loss)",
               .reason = "torchtitan's default"},
              torchtitan(&TorchtitanSettings::compiles_loss)),
      choice<Float8Recipe>(
          {.path = "torchtitan.float8",
           .help = "the blocks' linears in float8 (converter float8), with compile_blocks only",
           .reason = "torchtitan's default"},
          torchtitan(&TorchtitanSettings::float8)),
      boolean(
          {.path = "torchtitan.float8_all_gather",
           .help = "FSDP2 gathers their weights in float8 (enable_fsdp_float8_all_gather); with tensorwise",
           .reason = "torchtitan's default"},
          torchtitan(&TorchtitanSettings::gathers_float8)),
  };
}

}  // namespace plimsoll
