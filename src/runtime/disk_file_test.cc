// The disk tier's file: bytes come back, it leaves nothing behind, and what is wrong with its folder is said
// before anything runs.
#include "runtime/disk_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/test_folder.h"
#include "runtime/host_memory.h"

namespace plimsoll::runtime {
namespace {

using testing::HasSubstr;

constexpr int64_t kPage = kHostAlignment;

// Pages of one letter each.
class Pages {
 public:
  explicit Pages(const std::string& letters) : size_(letters.size() * kPage) {
    data_.reset(static_cast<std::byte*>(std::aligned_alloc(kHostAlignment, size_)));
    for (size_t i = 0; i < letters.size(); ++i) std::memset(data_.get() + i * kPage, letters[i], kPage);
  }
  std::span<std::byte> bytes() { return {data_.get(), size_}; }
  std::string letters() const {
    std::string text;
    for (size_t i = 0; i < size_; i += kPage) {
      const auto first = static_cast<char>(data_.get()[i]),
                 last = static_cast<char>(data_.get()[i + kPage - 1]);
      text += first == last ? first : '?';
    }
    return text;
  }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  size_t size_;
  std::unique_ptr<std::byte[], Free> data_;
};

class DiskFileTest : public testing::Test {
 protected:
  std::string error_of(const std::filesystem::path& folder, int64_t bytes = 4 * kPage) {
    const auto file = DiskFile::create(folder, Bytes{bytes});
    return file ? std::string() : file.error().to_text();
  }
  std::filesystem::path folder_ = test_folder();
};

TEST_F(DiskFileTest, BytesComeBack) {
  auto file = DiskFile::create(folder_, Bytes{4 * kPage});
  ASSERT_TRUE(file) << file.error().to_text();
  ASSERT_TRUE(file->write(0, Pages("abcd").bytes()));
  ASSERT_TRUE(file->write(2 * kPage, Pages("xy").bytes()));
  Pages all("0000"), part("00");
  ASSERT_TRUE(file->read(0, all.bytes()));
  ASSERT_TRUE(file->read(kPage, part.bytes()));
  EXPECT_EQ(all.letters(), "abxy");
  EXPECT_EQ(part.letters(), "bx");
}

// Where the file system takes direct requests they are made; where not, a note says so.
TEST_F(DiskFileTest, RequestsAreDirectOrANoteSaysWhyNot) {
  const auto file = DiskFile::create(folder_, Bytes{kPage});
  ASSERT_TRUE(file) << file.error().to_text();
  const bool is_direct = (fcntl(file->descriptor(), F_GETFL) & O_DIRECT) != 0;
  EXPECT_EQ(file->is_direct(), is_direct);
  const std::string notes = testing::PrintToString(file->notes());
  EXPECT_EQ(notes.find("O_DIRECT") == std::string::npos, is_direct) << notes;
}

// The process gets EINVAL for asking for direct requests, as file systems answer that have none.
void refuse_direct_requests() {
  constexpr uint32_t kCommand = offsetof(seccomp_data, args[1]), kFlags = offsetof(seccomp_data, args[2]);
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fcntl, 0, 5),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kCommand),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_SETFL, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kFlags),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_DIRECT, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{.len = std::size(filter), .filter = filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    _exit(3);
}

TEST_F(DiskFileTest, WithoutDirectRequestsThePageCacheIsUsedAndANoteSaysSo) {
  const auto run = [&] {
    refuse_direct_requests();
    const auto file = DiskFile::create(folder_, Bytes{2 * kPage});
    if (!file || file->is_direct() || file->notes().size() != 1) _exit(4);
    Pages back("00");
    if (!file->write(0, Pages("ab").bytes()) || !file->read(0, back.bytes())) _exit(5);
    if (back.letters() != "ab") _exit(6);
    if (file->notes()[0].find("takes no direct requests (O_DIRECT: Invalid argument)") == std::string::npos)
      _exit(7);
    _exit(0);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "");
}

TEST_F(DiskFileTest, NothingIsLeftInTheFolder) {
  const auto file = DiskFile::create(folder_, Bytes{kPage});
  ASSERT_TRUE(file);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(DiskFileTest, SpaceIsReserved) {
  const auto file = DiskFile::create(folder_, Bytes{256 * kPage});
  ASSERT_TRUE(file);
  EXPECT_EQ(lseek(file->descriptor(), 0, SEEK_END), 256 * kPage);
}

TEST_F(DiskFileTest, WhatIsWrongWithTheFolderIsSaidAtOnce) {
  EXPECT_THAT(error_of(folder_ / "none"),
              HasSubstr("none, key \"offload.directory\": no file can be made there: No such"));
  put(folder_ / "file", "text");
  EXPECT_THAT(error_of(folder_ / "file"), HasSubstr("Not a directory"));
  EXPECT_THAT(error_of("/proc"), HasSubstr("/proc, key \"offload.directory\": no file can be made there"));
}

TEST_F(DiskFileTest, ADiskWithoutRoomIsRefused) {
  EXPECT_THAT(error_of(folder_, int64_t{1} << 60),
              HasSubstr("are free, a rank's masters and optimizer states take"));
}

// What the system refuses for another reason than space.
TEST_F(DiskFileTest, AFileThatMayNotGrowIsRefused) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit low{.rlim_cur = 2 * kPage, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  const std::string error = error_of(folder_);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_THAT(error, HasSubstr("can't be given 16.00 KiB: File too large"));
}

TEST_F(DiskFileTest, AFileThatEndsEarlyIsAnError) {
  auto file = DiskFile::create(folder_, Bytes{4 * kPage});
  ASSERT_TRUE(file);
  ASSERT_EQ(ftruncate(file->descriptor(), kPage), 0);
  Pages pages("0000");
  const auto read = file->read(0, pages.bytes());
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().to_text(), HasSubstr("ends before byte 4097"));
}

TEST_F(DiskFileTest, WritesThatFailSayWhy) {
  auto file = DiskFile::create("/dev/shm", Bytes{kPage});
  ASSERT_TRUE(file) << file.error().to_text();
  const int full = open("/dev/full", O_RDWR | O_CLOEXEC);
  ASSERT_GE(full, 0);
  ASSERT_EQ(dup3(full, file->descriptor(), O_CLOEXEC), file->descriptor());
  const auto written = file->write(0, Pages("a").bytes());
  close(full);
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().to_text(), HasSubstr("can't be written: No space left on device"));
}

}  // namespace
}  // namespace plimsoll::runtime
