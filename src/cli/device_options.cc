#include "cli/device_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "hardware/catalog.h"

namespace plimsoll {
namespace {

Result<Bytes> size_of(const char* option, const std::string& text, int64_t least) {
  const std::optional<Bytes> size = text == "0" ? Bytes{} : parse_bytes(text);
  if (size && size->value >= least) return *size;
  return fail(
      {.position = {.file = option},
       .message = fmt::format("\"{}\" is no size of memory", text),
       .expected = "a number with a unit: 40GiB or 40G (2^30 bytes each), 40GB (10^9), 42949672960B"});
}

// Of a device that isn't known: better too much than too little.
Result<Bytes> largest_context() {
  PLIMSOLL_TRY(gpus, list_gpus());
  Bytes largest;
  for (const Gpu& gpu : gpus) largest = std::max(largest, gpu.context);
  return largest;
}

}  // namespace

std::vector<Argument> DeviceOptions::arguments() {
  return {
      {.name = "--capacity",
       .value = "SIZE",
       .help = "of a device, such as 40GiB or 40G (2^30 bytes each; 40GB: 10^9), of which the context takes "
               "its part: would it have run out, and where",
       .target = &capacity},
      {.name = "--gpu",
       .value = "NAME",
       .help = "the same of a GPU of the catalog (`plimsoll gpus`)",
       .target = &gpu},
      {.name = "--context",
       .value = "SIZE",
       .help =
           "what of that device lies outside of PyTorch's allocator: context, libraries, NCCL; 0 gives the "
           "allocator all",
       .target = &context}};
}

std::vector<std::string> DeviceOptions::given() const {
  std::vector<std::string> names;
  if (capacity) names.emplace_back("--capacity");
  if (gpu) names.emplace_back("--gpu");
  if (context) names.emplace_back("--context");
  return names;
}

Result<std::optional<PlayedDevice>> DeviceOptions::device() const {
  if (!capacity && !gpu) {
    if (!context) return std::optional<PlayedDevice>();
    return fail({.position = {.file = "--context"},
                 .message = "is of no device",
                 .expected = "--capacity SIZE or --gpu NAME with it"});
  }
  PlayedDevice device;
  std::string whose, source;
  if (gpu) {
    PLIMSOLL_TRY(known, find_gpu(*gpu));
    device = {.total = known.usable_memory, .context = known.context};
    whose = known.title;
    source = "its context";
  } else {
    PLIMSOLL_TRY(largest, largest_context());
    device.context = largest;
    whose = "a device";
    source = "the context, the largest of the catalog's (--gpu and --context say it better)";
  }
  if (capacity) {
    PLIMSOLL_TRY(total, size_of("--capacity", *capacity, 1));
    device.total = total;
  }
  if (context) {
    PLIMSOLL_TRY(outside, size_of("--context", *context, 0));
    device.context = outside;
    source = "what --context keeps";
  }
  if (device.context >= device.total)
    return fail({.position = {.file = context ? "--context" : "--capacity"},
                 .message = fmt::format("{} of {} leave the allocator nothing", to_gib_text(device.context),
                                        to_gib_text(device.total)),
                 .expected = "a device larger than its context",
                 .hint = context ? "" : "--context 0 gives the allocator all"});
  device.text = fmt::format("on {} of {}, less {} for {}", whose, to_gib_text(device.total),
                            to_gib_text(device.context), source);
  return std::optional(std::move(device));
}

}  // namespace plimsoll
