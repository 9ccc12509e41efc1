#include "strategy/offload_fields.h"

#include "strategy/field_builders.h"
#include "strategy/limits.h"

namespace plimsoll {

using namespace field_builders;

std::vector<Field> offload_fields() {
  const auto offload = [](auto member) { return at(&Job::offload, member); };
  return {
      choice<OffloadTarget>(
          {.path = "offload.activations",
           .help = "none, or host: what a block keeps for the backward is copied out after its "
                   "forward and fetched one block ahead of its backward (native)",
           .reason = "off unless asked for"},
          offload(&OffloadSettings::activations)),
      choice<OffloadTarget>(
          {.path = "offload.optimizer",
           .help = "where masters and optimizer states live; host and disk: the update runs on the "
                   "host, as ZeRO-Offload and ZeRO-Infinity (native)",
           .reason = "off unless asked for"},
          offload(&OffloadSettings::optimizer)),
      choice<OffloadTarget>(
          {.path = "offload.parameters",
           .help = "none, or host: where the ranks' parts of the parameters live; with zero.stage 3 "
                   "and an offloaded optimizer (native)",
           .reason = "off unless asked for"},
          offload(&OffloadSettings::parameters)),
      integer({.path = "offload.min_offload_size",
               .unit = "bytes",
               .help = "activations of fewer bytes stay on the device",
               .reason = "as torchtune's OffloadActivations"},
              {0, kMaxOffloadSize}, offload(&OffloadSettings::min_offload_size)),
      boolean({.path = "offload.pin_memory",
               .help = "host memory that is copied to or from the device is page-locked",
               .reason = "copies that run beside the computation need it"},
              offload(&OffloadSettings::pin_memory)),
      words({.path = "offload.directory",
             .help = "folder of the disk tier's file, on a fast local disk; the file goes with the run"},
            offload(&OffloadSettings::directory)),
  };
}

}  // namespace plimsoll
