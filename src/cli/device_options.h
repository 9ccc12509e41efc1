// The device on which `replay` plays requests again: --capacity, --gpu and --context. What a device offers
// isn't all the allocator's: the context of CUDA takes its part.
//
//   PLIMSOLL_TRY(device, options.device());
//   if (device) play_on(device->for_allocator());
//
// Errors: no size, an unknown GPU, a context without a device or as large as it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "cli/command.h"

namespace plimsoll {

struct PlayedDevice {
  Bytes total;    // that the driver offers
  Bytes context;  // of it, outside of PyTorch's allocator
  std::string text;

  Bytes for_allocator() const { return total - context; }
};

struct DeviceOptions {
  std::optional<std::string> capacity, gpu, context;

  std::vector<Argument> arguments();
  Result<std::optional<PlayedDevice>> device() const;
  // Those given: "--capacity".
  std::vector<std::string> given() const;
};

}  // namespace plimsoll
