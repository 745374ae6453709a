// The host tier of CPU mode: one unlinked file on a real disk that holds what
// was evicted from RAM, divided into extents.
//
// Where the file system takes O_DIRECT, whole pages go straight between blocks
// and the disk. Elsewhere the data passes through the page cache, which drops
// it after every transfer: a cgroup is charged for it.
//
// Thread-safe. Write and Read may run at once on different extents; they block
// for the disk. In a child of fork() only Read may be used.
#ifndef EBBTIDE_ALLOCATOR_SPILL_FILE_H_
#define EBBTIDE_ALLOCATOR_SPILL_FILE_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allocator/extents.h"
#include "planner/units.h"

namespace ebbtide {

// The seam to the system; tests make it fail.
struct SpillSystem {
  ssize_t (*write)(int file, const void* data, size_t size, off_t offset);
  ssize_t (*read)(int file, void* data, size_t size, off_t offset);
  static const SpillSystem& Real();
};

class SpillFile {
 public:
  // Creates the file in `directory` and unlinks it. Errors: the directory does
  // not exist or cannot be written (the code of errno), or is on tmpfs, ramfs
  // or hugetlbfs, which would be RAM again (FailedPrecondition).
  // `limit` is the most the file may hold, negative: no limit; where the
  // process has a smaller file size limit (ulimit -f), that holds: exceeding it
  // kills.
  static absl::StatusOr<std::unique_ptr<SpillFile>> Open(
      const std::string& directory, Bytes limit,
      const SpillSystem& system = SpillSystem::Real());
  ~SpillFile();
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;

  // Whole pages for `size` bytes (positive). ResourceExhausted, naming the
  // limit, if there is no room.
  absl::StatusOr<Extent> Take(Bytes size);
  // Gives back what Take returned.
  void Give(Extent extent) { extents_.Give(extent); }

  // The first `size` bytes of the extent. Fastest where `data` is page-aligned
  // and `size` whole pages. Errors: ResourceExhausted when the disk is full,
  // Unavailable when it fails; the extent's content is then unspecified.
  absl::Status Write(Extent extent, const void* data, Bytes size);
  absl::Status Read(Extent extent, void* data, Bytes size);

  Bytes limit() const { return extents_.limit(); }
  Bytes used() const { return extents_.used(); }
  // The largest size that Take has room for.
  Bytes Largest() const { return extents_.Largest(); }
  // For people: "ext4", or the magic number of one without a name here.
  const std::string& file_system() const { return file_system_; }
  bool direct() const { return direct_; }  // O_DIRECT held

 private:
  enum class Way { kWrite, kRead };

  SpillFile(int file, std::string directory, std::string file_system,
            Bytes limit, const SpillSystem& system);
  void ProbeDirect();
  absl::Status Transfer(Way way, Extent extent, char* data, Bytes size);
  absl::Status TransferDirect(Way way, int64_t offset, char* data, Bytes size);
  absl::Status TransferAll(Way way, int64_t offset, char* data, Bytes size);
  absl::Status Failure(Way way, int error, int64_t offset) const;
  void DropFromCache(Way way, Extent extent);

  const int file_;
  const std::string directory_;
  const std::string file_system_;
  const SpillSystem system_;
  bool direct_ = false;
  Extents extents_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_SPILL_FILE_H_
