#include "allocator/spill_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "allocator/arena.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ebbtide {
namespace {

using testing::HasSubstr;

constexpr Bytes MiB(int64_t n) { return Bytes{n << 20}; }

// A folder on whatever disk the tests run on.
std::string Folder() { return testing::TempDir(); }

std::unique_ptr<SpillFile> MustOpen(
    Bytes limit, const SpillSystem& system = SpillSystem::Real()) {
  auto file = SpillFile::Open(Folder(), limit, system);
  EXPECT_TRUE(file.ok()) << file.status();
  return *std::move(file);
}

// Page-aligned memory with a pattern.
class Block {
 public:
  explicit Block(int64_t size, unsigned seed = 1) : size_(size) {
    data_ = static_cast<unsigned char*>(
        aligned_alloc(kPageSize, Count(RoundUpToPage(Bytes{size + 64}))));
    for (int64_t i = 0; i < size + 64; ++i) data_[i] = (seed + i) * 131 >> 3;
  }
  ~Block() { free(data_); }
  unsigned char* data() { return data_; }
  Bytes size() const { return Bytes{size_}; }

 private:
  int64_t size_;
  unsigned char* data_;
};

int EntriesIn(const std::string& folder) {
  int entries = 0;
  DIR* dir = opendir(folder.c_str());
  while (readdir(dir) != nullptr) ++entries;
  closedir(dir);
  return entries;
}

void WriteAndRead(SpillFile& file) {
  for (const int64_t size : {int64_t{1}, int64_t{4095}, int64_t{4096},
                             int64_t{70001}, int64_t{3 << 20}}) {
    for (const int shift : {0, 8}) {  // aligned and not
      Block out(size, size + shift), in(size, 77);
      const auto extent = file.Take(out.size());
      ASSERT_TRUE(extent.ok());
      EXPECT_EQ(Count(extent->size) % kPageSize, 0);
      EXPECT_TRUE(file.Write(*extent, out.data() + shift, out.size()).ok());
      const unsigned char guard = in.data()[shift + size];
      EXPECT_TRUE(file.Read(*extent, in.data() + shift, in.size()).ok());
      EXPECT_EQ(std::memcmp(in.data() + shift, out.data() + shift, size), 0);
      EXPECT_EQ(in.data()[shift + size], guard);
    }
  }
}

TEST(SpillFileTest, WhatIsWrittenIsRead) { WriteAndRead(*MustOpen(MiB(64))); }

// A file system that accepts the flag and then refuses the transfer.
ssize_t NoDirectWrite(int file, const void* data, size_t size, off_t offset) {
  if ((fcntl(file, F_GETFL) & O_DIRECT) == 0) {
    return pwrite(file, data, size, offset);
  }
  errno = EINVAL;
  return -1;
}

TEST(SpillFileTest, ThePageCacheServesWhereDirectTransfersFail) {
  const auto file = MustOpen(MiB(64), {NoDirectWrite, pread});
  EXPECT_FALSE(file->direct());
  WriteAndRead(*file);
}

TEST(SpillFileTest, TheFileHasNoName) {
  const int before = EntriesIn(Folder());
  const auto file = MustOpen(MiB(1));
  EXPECT_EQ(EntriesIn(Folder()), before);
  EXPECT_FALSE(file->file_system().empty());
}

TEST(SpillFileTest, RamIsRefusedAsADisk) {
  struct statfs stats = {};
  ASSERT_EQ(statfs("/dev/shm", &stats), 0) << std::strerror(errno);
  ASSERT_EQ(stats.f_type, 0x01021994)
      << "expected a tmpfs at /dev/shm, as shm_open needs it";
  const auto file = SpillFile::Open("/dev/shm", MiB(1));
  EXPECT_EQ(file.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(file.status().message()),
              HasSubstr("/dev/shm is on tmpfs, which is RAM again"));
}

TEST(SpillFileTest, AMissingFolderAndAFileAreRefused) {
  const auto missing = SpillFile::Open(Folder() + "/missing-folder", MiB(1));
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()),
              HasSubstr("missing-folder"));
  EXPECT_FALSE(SpillFile::Open("/proc/self/exe", MiB(1)).ok());
  EXPECT_FALSE(SpillFile::Open("/proc", MiB(1)).ok());
}

TEST(SpillFileTest, TheLimitIsKeptAndNamed) {
  const auto file = MustOpen(MiB(1));
  ASSERT_TRUE(file->Take(Bytes{1000 << 10}).ok());
  const auto refused = file->Take(Bytes{100 << 10});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("1024000 of its limit of 1048576"));
  EXPECT_TRUE(file->Take(Bytes{24 << 10}).ok());
}

TEST(SpillFileTest, AFileSizeLimitOfTheProcessHoldsInsteadOfKilling) {
  rlimit old = {};
  getrlimit(RLIMIT_FSIZE, &old);
  const rlimit small = {.rlim_cur = 1 << 20, .rlim_max = old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto file = MustOpen(Bytes{-1});
  EXPECT_EQ(file->limit(), MiB(1));
  Block block(1 << 20);
  EXPECT_TRUE(file->Write(*file->Take(MiB(1)), block.data(), MiB(1)).ok());
  setrlimit(RLIMIT_FSIZE, &old);
}

TEST(SpillFileTest, MoreThanTheExtentIsRefused) {
  const auto file = MustOpen(MiB(1));
  Block block(8192);
  EXPECT_EQ(
      file->Write(*file->Take(Bytes{4096}), block.data(), Bytes{4097}).code(),
      absl::StatusCode::kInvalidArgument);
}

constexpr size_t kTwoPages = 8192;
int fail_with = 0;
int calls_until_failure = 0;
ssize_t FaultyWrite(int file, const void* data, size_t size, off_t offset) {
  if (calls_until_failure-- > 0) {
    // Short transfers that end inside a page.
    return pwrite(file, data, std::min(size, kTwoPages), offset);
  }
  errno = fail_with;
  return -1;
}
ssize_t FaultyRead(int file, void* data, size_t size, off_t offset) {
  if (calls_until_failure-- > 0) {
    if (calls_until_failure % 2 == 0) {
      errno = EINTR;
      return -1;
    }
    return pread(file, data, std::min(size, kTwoPages), offset) -
           (size > 4096 ? 100 : 0);
  }
  errno = fail_with;
  return -1;
}
constexpr SpillSystem kFaulty = {FaultyWrite, FaultyRead};

// A file that fails when the test says so, not while it is opened.
std::unique_ptr<SpillFile> OpenFaulty() {
  calls_until_failure = 1000;
  return MustOpen(MiB(1), kFaulty);
}

TEST(SpillFileTest, AFullDiskIsResourceExhausted) {
  const auto file = OpenFaulty();
  Block block(64 << 10);
  fail_with = ENOSPC;
  calls_until_failure = 3;
  const absl::Status status =
      file->Write(*file->Take(block.size()), block.data(), block.size());
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("write at byte 24576"));
}

TEST(SpillFileTest, ABrokenDiskIsUnavailable) {
  const auto file = OpenFaulty();
  Block block(64 << 10);
  fail_with = EIO;
  calls_until_failure = 0;
  const absl::Status status =
      file->Read(*file->Take(block.size()), block.data(), block.size());
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("read at byte 0"));
}

TEST(SpillFileTest, ShortAndInterruptedTransfersGoOn) {
  const auto file = OpenFaulty();
  Block out(64 << 10), in(64 << 10, 5);
  const Extent extent = *file->Take(out.size());
  EXPECT_TRUE(file->Write(extent, out.data(), out.size()).ok());
  EXPECT_TRUE(file->Read(extent, in.data(), in.size()).ok());
  EXPECT_EQ(std::memcmp(in.data(), out.data(), 64 << 10), 0);
}

TEST(SpillFileTest, ThreadsWriteAndReadAtOnce) {
  const auto file = MustOpen(MiB(32));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&file, t] {
      for (int i = 0; i < 5; ++i) {
        Block out(300'000, t * 7 + i), in(300'000, 99);
        const auto extent = file->Take(out.size());
        if (!extent.ok() ||
            !file->Write(*extent, out.data(), out.size()).ok() ||
            !file->Read(*extent, in.data(), in.size()).ok() ||
            std::memcmp(in.data(), out.data(), 300'000) != 0) {
          ADD_FAILURE() << "thread " << t << ", round " << i;
        }
        if (i % 2 == 0) file->Give(*extent);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// An ext4 file system of 8 MiB in a file; only root can mount one.
class SmallDisk {
 public:
  SmallDisk()
      : image_(Folder() + "/ebbtide-small-disk.img"),
        mount_(Folder() + "/ebbtide-small-disk") {
    mkdir(mount_.c_str(), 0700);
    mounted_ = geteuid() == 0 &&
               std::system(("dd if=/dev/zero of=" + image_ +
                            " bs=1M count=8 status=none && mkfs.ext4 -q -F " +
                            image_ + " && mount -o loop " + image_ + " " +
                            mount_ + " 2>/dev/null")
                               .c_str()) == 0;
  }
  ~SmallDisk() {
    if (mounted_) umount2(mount_.c_str(), MNT_DETACH);
    rmdir(mount_.c_str());
    unlink(image_.c_str());
  }
  bool mounted() const { return mounted_; }
  const std::string& path() const { return mount_; }

 private:
  std::string image_, mount_;
  bool mounted_ = false;
};

// Where none can be mounted: no byte behind the first 6 MiB can be written.
ssize_t WriteToSmall(int file, const void* data, size_t size, off_t offset) {
  constexpr off_t kEnd = 6 << 20;
  if (offset >= kEnd) {
    errno = ENOSPC;
    return -1;
  }
  return pwrite(file, data, std::min(size, static_cast<size_t>(kEnd - offset)),
                offset);
}
const SpillSystem& SmallSystem() {
  static const SpillSystem system = {WriteToSmall, SpillSystem::Real().read};
  return system;
}

TEST(SpillFileTest, ADiskThatFillsUpSaysSoAndKeepsWhatItHas) {
  const SmallDisk disk;
  const bool real = disk.mounted();
  const auto file = SpillFile::Open(real ? disk.path() : Folder(), MiB(100),
                                    real ? SpillSystem::Real() : SmallSystem());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(!real || (*file)->file_system() == "ext4");
  Block out(2 << 20), in(2 << 20, 9);
  const Extent first = *(*file)->Take(out.size());
  ASSERT_TRUE((*file)->Write(first, out.data(), out.size()).ok());
  absl::Status status;
  for (int i = 0; i < 10 && status.ok(); ++i) {
    status = (*file)->Write(*(*file)->Take(out.size()), out.data(), out.size());
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_TRUE((*file)->Read(first, in.data(), in.size()).ok());
  EXPECT_EQ(std::memcmp(in.data(), out.data(), 2 << 20), 0);
}

}  // namespace
}  // namespace ebbtide
