#include "cli/device_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hardware/catalog.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;

PlayedDevice device_of(const DeviceOptions& options) {
  const auto device = options.device();
  EXPECT_TRUE(device) << device.error().to_text();
  return device && *device ? **device : PlayedDevice{};
}

TEST(DeviceOptions, ABareSizeKeepsTheLargestContextOfTheCatalog) {
  const PlayedDevice device = device_of({.capacity = "40GiB"});
  EXPECT_EQ(device.total, kGiB * 40);
  EXPECT_EQ(device.for_allocator(), kGiB * 40 - device.context);
  const auto gpus = list_gpus();
  ASSERT_TRUE(gpus);
  for (const Gpu& gpu : *gpus) EXPECT_GE(device.context, gpu.context) << gpu.name;
  EXPECT_THAT(device.text, HasSubstr("on a device of 40.00 GiB, less"));
}

TEST(DeviceOptions, AGpuHasItsOwn) {
  const auto gpu = find_gpu("a100-40gb");
  ASSERT_TRUE(gpu);
  EXPECT_EQ(device_of({.gpu = "a100-40gb"}).for_allocator(), gpu->usable_memory - gpu->context);
  const PlayedDevice cut = device_of({.capacity = "10GiB", .gpu = "a100-40gb"});
  EXPECT_EQ(cut.for_allocator(), kGiB * 10 - gpu->context);
}

TEST(DeviceOptions, AContextIsTakenAsGiven) {
  EXPECT_EQ(device_of({.capacity = "6G", .context = "512m"}).for_allocator(), kMiB * (6 * 1024 - 512));
  for (const char* none : {"0", "0B", "0G"})
    EXPECT_EQ(device_of({.capacity = "40GiB", .context = none}).for_allocator(), kGiB * 40) << none;
  EXPECT_EQ(device_of({.capacity = "40GiB", .context = "3GiB"}).for_allocator(), kGiB * 37);
}

TEST(DeviceOptions, Errors) {
  const auto text_of = [](const DeviceOptions& options) {
    const auto device = options.device();
    return device ? std::string() : device.error().to_text();
  };
  EXPECT_THAT(text_of({.capacity = "40"}), HasSubstr("--capacity: \"40\" is no size of memory"));
  EXPECT_THAT(text_of({.capacity = "0B"}), HasSubstr("is no size of memory"));
  EXPECT_THAT(text_of({.capacity = "0"}), HasSubstr("is no size of memory"));
  EXPECT_THAT(text_of({.context = "1GiB"}), HasSubstr("--context: is of no device"));
  EXPECT_THAT(text_of({.capacity = "1GiB", .context = "2GiB"}), HasSubstr("leave the allocator nothing"));
  EXPECT_THAT(text_of({.capacity = "100MiB"}), HasSubstr("hint: --context 0 gives the allocator all"));
  EXPECT_FALSE(text_of({.gpu = "no-such-gpu"}).empty());
  const auto none = DeviceOptions{}.device();
  ASSERT_TRUE(none);
  EXPECT_FALSE(*none);
}

}  // namespace
}  // namespace plimsoll
