#include "allocator/spill_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "allocator/arena.h"

namespace ebbtide {
namespace {

// Transfers of unaligned memory go through a buffer of this size.
constexpr int64_t kBounce = 1 << 20;

struct FileSystem {
  int64_t magic;
  const char* name;
};
constexpr FileSystem kInRam[] = {
    {TMPFS_MAGIC, "tmpfs"},
    {RAMFS_MAGIC, "ramfs"},
    {HUGETLBFS_MAGIC, "hugetlbfs"},
};
constexpr FileSystem kOnDisk[] = {
    {EXT4_SUPER_MAGIC, "ext4"},
    {XFS_SUPER_MAGIC, "xfs"},
    {BTRFS_SUPER_MAGIC, "btrfs"},
    {F2FS_SUPER_MAGIC, "f2fs"},
    {OVERLAYFS_SUPER_MAGIC, "overlay"},
    {NFS_SUPER_MAGIC, "nfs"},
    {FUSE_SUPER_MAGIC, "fuse"},
    {V9FS_MAGIC, "9p"},
    {CEPH_SUPER_MAGIC, "ceph"},
    {0x2fc12fc1, "zfs"},
    {0x0bd00bd0, "lustre"},
    {0x47504653, "gpfs"},
};

// The name of a file system, or nullptr. Only the low 32 bits of a magic number
// count: some are sign-extended.
const char* NameIn(absl::Span<const FileSystem> table, int64_t magic) {
  for (const FileSystem& each : table) {
    if (static_cast<uint32_t>(each.magic) == static_cast<uint32_t>(magic)) {
      return each.name;
    }
  }
  return nullptr;
}

absl::Status DirectoryError(int error, const std::string& directory,
                            const char* what) {
  return absl::ErrnoToStatus(
      error, absl::StrCat("offload directory ", directory, ": ", what));
}

// A file without a name, or -1. The name that it has for a moment, if the file
// system has no O_TMPFILE, is never an existing file or link.
int OpenUnnamed(int directory) {
  const int flags = O_RDWR | O_CLOEXEC;
  int file = openat(directory, ".", O_TMPFILE | O_EXCL | flags, 0600);
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL &&
                    errno != ENOENT)) {
    return file;
  }
  for (int attempt = 0; attempt < 16; ++attempt) {
    uint64_t random = 0;
    if (getrandom(&random, sizeof(random), 0) != sizeof(random)) return -1;
    const std::string name = absl::StrFormat("ebbtide-offload-%016x", random);
    file = openat(directory, name.c_str(),
                  O_CREAT | O_EXCL | O_NOFOLLOW | flags, 0600);
    if (file >= 0) {
      unlinkat(directory, name.c_str(), 0);
      return file;
    }
    if (errno != EEXIST) return -1;
  }
  return -1;
}

struct FreePages {
  void operator()(char* pages) const { free(pages); }
};
using Pages = std::unique_ptr<char[], FreePages>;

Pages AllocatePages(int64_t size) {
  return Pages(static_cast<char*>(aligned_alloc(kPageSize, size)));
}

bool IsAligned(const void* data) {
  return reinterpret_cast<uintptr_t>(data) % kPageSize == 0;
}

// The smaller of `asked` (negative: none) and what the system lets this process
// write.
Bytes FileSizeLimit(Bytes asked) {
  const Bytes limit = asked < Bytes{0} ? Bytes{INT64_MAX} : asked;
  rlimit system = {};
  if (getrlimit(RLIMIT_FSIZE, &system) != 0 ||
      system.rlim_cur > static_cast<rlim_t>(Count(limit))) {
    return limit;
  }
  return Bytes{static_cast<int64_t>(system.rlim_cur)};
}

}  // namespace

const SpillSystem& SpillSystem::Real() {
  static constexpr SpillSystem kReal = {pwrite, pread};
  return kReal;
}

absl::StatusOr<std::unique_ptr<SpillFile>> SpillFile::Open(
    const std::string& directory, Bytes limit, const SpillSystem& system) {
  const int folder =
      open(directory.c_str(), O_DIRECTORY | O_RDONLY | O_CLOEXEC);
  if (folder < 0) return DirectoryError(errno, directory, "open");
  const absl::Cleanup closer = [folder] { close(folder); };
  struct statfs stats = {};
  if (fstatfs(folder, &stats) != 0) {
    return DirectoryError(errno, directory, "statfs");
  }
  if (const char* name = NameIn(kInRam, stats.f_type)) {
    return absl::FailedPreconditionError(
        absl::StrCat("offload directory ", directory, " is on ", name,
                     ", which is RAM again; expected a folder on a disk"));
  }
  const char* name = NameIn(kOnDisk, stats.f_type);
  const int file = OpenUnnamed(folder);
  if (file < 0) return DirectoryError(errno, directory, "cannot create a file");
  std::unique_ptr<SpillFile> spill(new SpillFile(
      file, directory,
      name != nullptr ? name : absl::StrFormat("file system %#x", stats.f_type),
      FileSizeLimit(limit), system));
  spill->ProbeDirect();
  return spill;
}

SpillFile::SpillFile(int file, std::string directory, std::string file_system,
                     Bytes limit, const SpillSystem& system)
    : file_(file),
      directory_(std::move(directory)),
      file_system_(std::move(file_system)),
      system_(system),
      extents_(limit, kPageSize) {}

SpillFile::~SpillFile() { close(file_); }

// Use alone shows if O_DIRECT works, and at page alignment.
void SpillFile::ProbeDirect() {
  const Pages page = AllocatePages(kPageSize);
  const int flags = fcntl(file_, F_GETFL);
  if (page == nullptr || limit() < Bytes{kPageSize} || flags < 0 ||
      fcntl(file_, F_SETFL, flags | O_DIRECT) != 0) {
    return;
  }
  std::memset(page.get(), 0, kPageSize);
  direct_ = system_.write(file_, page.get(), kPageSize, 0) == kPageSize &&
            system_.read(file_, page.get(), kPageSize, 0) == kPageSize;
  if (!direct_) fcntl(file_, F_SETFL, flags);
}

absl::StatusOr<Extent> SpillFile::Take(Bytes size) {
  const std::optional<Extent> extent = extents_.Take(size);
  if (extent) return *extent;
  return absl::ResourceExhaustedError(
      absl::StrFormat("offload file in %s: no room for %d bytes; %d of its "
                      "limit of %d are used",
                      directory_, Count(size), Count(used()), Count(limit())));
}

absl::Status SpillFile::Write(Extent extent, const void* data, Bytes size) {
  // Way::kWrite only reads through the pointer.
  char* bytes = const_cast<char*>(static_cast<const char*>(data));
  return Transfer(Way::kWrite, extent, bytes, size);
}

absl::Status SpillFile::Read(Extent extent, void* data, Bytes size) {
  return Transfer(Way::kRead, extent, static_cast<char*>(data), size);
}

absl::Status SpillFile::Transfer(Way way, Extent extent, char* data,
                                 Bytes size) {
  if (size > extent.size) {
    return absl::InvalidArgumentError(
        absl::StrFormat("offload file: %d bytes in an extent of %d",
                        Count(size), Count(extent.size)));
  }
  if (direct_) return TransferDirect(way, extent.offset, data, size);
  absl::Status status = TransferAll(way, extent.offset, data, size);
  DropFromCache(way, extent);
  return status;
}

// Whole pages of aligned memory as they are, the rest through a buffer.
absl::Status SpillFile::TransferDirect(Way way, int64_t offset, char* data,
                                       Bytes size) {
  int64_t left = Count(size);
  if (IsAligned(data)) {
    const int64_t whole = left & ~(kPageSize - 1);
    absl::Status status = TransferAll(way, offset, data, Bytes{whole});
    if (!status.ok()) return status;
    offset += whole;
    data += whole;
    left -= whole;
  }
  if (left == 0) return absl::OkStatus();
  const int64_t room = std::min(kBounce, Count(RoundUpToPage(Bytes{left})));
  const Pages buffer = AllocatePages(room);
  if (buffer == nullptr) {
    return absl::ResourceExhaustedError("offload file: no memory for a buffer");
  }
  while (left > 0) {
    const int64_t part = std::min(left, room);
    const Bytes padded = RoundUpToPage(Bytes{part});
    if (way == Way::kWrite) {
      std::memcpy(buffer.get(), data, part);
      std::memset(buffer.get() + part, 0, Count(padded) - part);
    }
    absl::Status status = TransferAll(way, offset, buffer.get(), padded);
    if (!status.ok()) return status;
    if (way == Way::kRead) std::memcpy(data, buffer.get(), part);
    offset += part;
    data += part;
    left -= part;
  }
  return absl::OkStatus();
}

absl::Status SpillFile::TransferAll(Way way, int64_t offset, char* data,
                                    Bytes size) {
  int64_t left = Count(size);
  while (left > 0) {
    const ssize_t moved = way == Way::kWrite
                              ? system_.write(file_, data, left, offset)
                              : system_.read(file_, data, left, offset);
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0) return Failure(way, errno, offset);
    // A short direct transfer continues at the last whole page.
    const int64_t step = direct_ ? moved & ~(kPageSize - 1) : moved;
    if (step == 0) {
      return Failure(way, way == Way::kWrite ? ENOSPC : EIO, offset);
    }
    offset += step;
    data += step;
    left -= step;
  }
  return absl::OkStatus();
}

absl::Status SpillFile::Failure(Way way, int error, int64_t offset) const {
  const std::string message = absl::StrFormat(
      "offload file in %s (%s): %s at byte %d: %s", directory_, file_system_,
      way == Way::kWrite ? "write" : "read", offset, std::strerror(error));
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  return full ? absl::ResourceExhaustedError(message)
              : absl::UnavailableError(message);
}

// Only clean pages can be dropped, so a write is pushed to the disk first.
void SpillFile::DropFromCache(Way way, Extent extent) {
  if (way == Way::kWrite) {
    sync_file_range(file_, extent.offset, Count(extent.size),
                    SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                        SYNC_FILE_RANGE_WAIT_AFTER);
  }
  posix_fadvise(file_, extent.offset, Count(extent.size), POSIX_FADV_DONTNEED);
}

}  // namespace ebbtide
