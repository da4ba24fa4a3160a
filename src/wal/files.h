#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

/// The file system as the log uses it: a seam for fault injection and crash simulation.

namespace breccia::wal {

/// One segment's storage: an image in memory that readers use, and the medium under it.
///
/// Two kinds. Mapped (DAX, tmpfs, the crash simulator): the image is the medium. Buffered (ordinary
/// file): the image is anonymous memory, and write() copies ranges of it to the file by io_uring.
///
/// A file is awake when it was created, and at rest when it was opened. At rest it holds no
/// descriptor, so that a log may have thousands of segments; write() and sync() want it awake.
///
/// Threads rest() to load() of one segment by one thread at a time; the image by anybody.
class SegmentFile {
 public:
  virtual ~SegmentFile() = default;
  /// The image; `size()` bytes, 4096-aligned, stays in place for the life of the object.
  [[nodiscard]] virtual std::byte* image() = 0;
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  /// True if the image is the medium, so that what is stored survives the process at once.
  [[nodiscard]] virtual bool mapped() const = 0;

  /// Puts the file at rest. A later sync says nothing of what was written before: a failure that
  /// the kernel met meanwhile would go unseen.
  virtual void rest() = 0;
  /// Wakes the file, whose name is `path` by now; one that is awake stays so.
  /// Errors  IOError: it is not there, or another file has its name.
  [[nodiscard]] virtual Status wake(const std::string& path) = 0;

  /// Hands image bytes [offset, offset + bytes) to the operating system; on return they survive a
  /// kill of this process. Mapped: a store fence.
  /// Errors  IOError, NoSpace: how much of the range was written is unknown.
  [[nodiscard]] virtual Status write(std::uint64_t offset, std::uint64_t bytes) = 0;
  /// Makes written bytes [offset, offset + bytes) durable against power loss. A failed sync is
  /// final: the caller must not call it again and believe the answer, in this process or a later
  /// one, unless it has written the bytes again.
  [[nodiscard]] virtual Status sync(std::uint64_t offset, std::uint64_t bytes) = 0;
  /// write() and sync(), and where the medium can do that, of no other byte that the file has.
  [[nodiscard]] virtual Status write_through(std::uint64_t offset, std::uint64_t bytes) {
    BRECCIA_TRY(write(offset, bytes));
    return sync(offset, bytes);
  }
  /// True if what was written to it has not been synced for so long that the system will soon write
  /// it by itself, whether or not anybody needs it any more.
  [[nodiscard]] virtual bool is_stale() const { return false; }
  /// Becomes another, new file at `path`, awake, whose space is reserved; the one that it was keeps
  /// its name and bytes, and the image what it has. The file has to be at rest.
  /// Errors  NotSupported, NoSpace, IOError: it is the file that it was, and there is no new one.
  [[nodiscard]] virtual Status renew(const std::string& path) { return Status::NotSupported(path); }
  /// Reads the whole medium into the image (buffered); mapped, it is there. Returns an offset from
  /// which on the image holds only zeros, as low as the medium knows it; size() if it knows none.
  /// To be called right after open(), if at all.
  [[nodiscard]] virtual Result<std::uint64_t> load() = 0;
};

/// Keeps a folder to one log until it is destroyed or its process ends, however that ends.
class FolderLock {
 public:
  FolderLock() = default;
  virtual ~FolderLock() = default;
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
};

/// Bytes of a segment that open() brings into the image.
inline constexpr std::uint64_t kOpenedBytes = 4096;

/// Creates, finds, renames and removes segment files of one folder. What a call that fails has done
/// is unknown: nothing, a part or all.
/// Threads create() by any number, of different paths; the rest by one at a time, not beside it.
class Files {
 public:
  virtual ~Files() = default;
  /// Creates `dir` and says whether it was missing. Durable with sync_dir() of the folder above.
  /// Errors  NotFound: there is no folder above it.
  [[nodiscard]] virtual Result<bool> create_dir(const std::string& dir) = 0;
  /// Locks `dir`, which exists, against every other lock(), of this process too. Does not wait.
  /// Errors  IOError: somebody holds it, or the medium cannot lock.
  [[nodiscard]] virtual Result<std::unique_ptr<FolderLock>> lock(const std::string& dir) = 0;
  /// Names in `dir`, no order.
  [[nodiscard]] virtual Result<std::vector<std::string>> list(const std::string& dir) = 0;
  /// A new file of `bytes` bytes, its space reserved (NoSpace now and not later).
  [[nodiscard]] virtual Result<std::unique_ptr<SegmentFile>> create(const std::string& path,
                                                                    std::uint64_t bytes) = 0;
  /// Opens an existing file. Its first kOpenedBytes, or as many as it has, are in the image; the
  /// rest comes with load().
  [[nodiscard]] virtual Result<std::unique_ptr<SegmentFile>> open(const std::string& path) = 0;
  [[nodiscard]] virtual Status rename(const std::string& from, const std::string& to) = 0;
  /// Removes a file; one that is not there counts as removed.
  [[nodiscard]] virtual Status remove(const std::string& path) = 0;
  /// Makes creations, renames and removals in `dir` durable.
  /// Errors  NotSupported: this user may not read the folder, which a sync needs.
  [[nodiscard]] virtual Status sync_dir(const std::string& dir) = 0;
  /// The same files for whoever only looks: a folder that is not there is an empty one.
  [[nodiscard]] virtual std::shared_ptr<Files> for_looking() = 0;
};

/// The folder that holds `path`.
std::string folder_above(const std::string& path);

/// True if a file in `dir`, which need not be there yet, lies in memory: on tmpfs.
[[nodiscard]] bool lies_in_memory(const std::string& dir);

/// What lock() says of a folder that somebody holds.
Status folder_in_use(const std::string& dir);

/// The real file system: mapped where `dir` lies on DAX or tmpfs, buffered elsewhere.
std::shared_ptr<Files> real_files();

/// The real file system for looking: files are mapped, whatever the medium, and what would change
/// one fails with IOError. lock() shares the folder with others that look, and makes no file.
std::shared_ptr<Files> read_only_files();

/// How buffered files are written on this machine: "io_uring" or "pwrite".
const char* io_engine();

}  // namespace breccia::wal
