#include "runtime/machine_memory.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/test_folder.h"

namespace plimsoll::runtime {
namespace {

class MachineMemoryFiles : public testing::Test {
 protected:
  void write(const std::filesystem::path& file, const std::string& text) {
    std::filesystem::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  const std::filesystem::path root_ = test_folder();
};

TEST_F(MachineMemoryFiles, IsRamWithSwap) {
  write("proc/meminfo",
        "MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable:  600 kB\nSwapTotal: 200 kB\nSwapFree: 50 kB\n");
  const auto memory = machine_memory(root_);
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->total, kKiB * 1200);
  EXPECT_EQ(memory->available, kKiB * 650);
  EXPECT_EQ(memory->source, "RAM and swap");
}

TEST_F(MachineMemoryFiles, IsWhatTheControlGroupMayHave) {
  write("proc/meminfo", "MemTotal:  1000 kB\nMemAvailable:  600 kB\n");
  write("proc/self/cgroup", "0::/job\n");
  write("sys/fs/cgroup/job/memory.max", "307200\n");
  write("sys/fs/cgroup/job/memory.current", "102400\n");
  const auto memory = machine_memory(root_);
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->total, kKiB * 300);
  EXPECT_EQ(memory->available, kKiB * 200);
  EXPECT_EQ(memory->source, "the control group's limit");
}

TEST_F(MachineMemoryFiles, AGroupWithoutALimitHasAll) {
  write("proc/meminfo", "MemTotal:  1000 kB\nMemAvailable:  600 kB\n");
  write("proc/self/cgroup", "0::/job\n");
  write("sys/fs/cgroup/job/memory.max", "max\n");
  const auto memory = machine_memory(root_);
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->total, kKiB * 1000);
}

TEST_F(MachineMemoryFiles, IsUnknownWithoutProc) { EXPECT_FALSE(machine_memory(root_)); }

}  // namespace
}  // namespace plimsoll::runtime
