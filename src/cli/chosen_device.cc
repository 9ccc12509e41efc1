#include "cli/chosen_device.h"

#include <fmt/format.h>

#include <algorithm>

namespace plimsoll {

std::string devices_text(const TorchSnapshot& snapshot) {
  std::string text;
  for (const AllocationTrace& trace : snapshot.devices)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", trace.device);
  return text;
}

Result<size_t> find_device(const TorchSnapshot& snapshot, const std::string& number,
                           const std::string& file) {
  const auto found = std::ranges::find(
      snapshot.devices, number, [](const AllocationTrace& trace) { return std::to_string(trace.device); });
  if (found != snapshot.devices.end()) return static_cast<size_t>(found - snapshot.devices.begin());
  return fail({.position = {.file = "--device"},
               .message = fmt::format("{} holds no memory of device \"{}\"", file, number),
               .expected = (snapshot.devices.size() > 1 ? "one of " : "") + devices_text(snapshot)});
}

}  // namespace plimsoll
