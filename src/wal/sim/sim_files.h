#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "wal/files.h"

/// A file system in memory that loses what a power cut may lose: real_files()' simulated twin.
///
/// What survives a cut, chosen by seed:
///   buffered  of each 512-byte block any of the contents written since its last sync, or the
///             content it had then; blocks are independent of each other, but for files of which
///             all or none survive
///   growing   as buffered, and any length from the one at the last sync to the present one: a
///             block that was lost below it is zero
///   mapped    of each 64-byte line that differs from its last synced content the new or the old
///   names     of the creations, renames and removals in a folder since its last sync_dir a prefix,
///             and any removals behind it; each is atomic, and folders are independent of each
///             other. A folder's own name lies in its parent: a folder that is lost takes all that
///             is in it along. A name that survives says nothing of the file's bytes.
/// A kill of the process loses nothing that was written (buffered) or stored (mapped).
///
/// A sync of a buffered file that fails leaves the file's blocks as Linux does: whoever reads them
/// sees what was written, each may be on the medium or not, and none counts as written any more,
/// so that the next sync succeeds without them. Names are journalled: a later sync_dir finds those
/// that an earlier one has failed on.

namespace breccia::wal {

enum class SimKind { kBuffered, kMapped };

/// What a power cut leaves of what was not synced.
enum class Survives {
  kNothing,
  kSome,   // by seed, as above
  kTails,  // the same, but what growing files lose is their tails alone: no block below their
           // length
  kEverything
};

/// A file of no fixed size, as a database below the log has them.
/// Threads one that writes; any that read.
class SimGrowing {
 public:
  virtual ~SimGrowing() = default;
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  /// Bytes that were read: fewer only at the end.
  [[nodiscard]] virtual std::size_t read(std::uint64_t offset, std::size_t bytes,
                                         char* to) const = 0;
  [[nodiscard]] virtual Status append(const Slice& bytes) = 0;
  [[nodiscard]] virtual Status sync() = 0;
};

/// Threads as Files; the disk itself by one thread, but for what is said of growing files.
class SimDisk {
 public:
  explicit SimDisk(SimKind kind);
  ~SimDisk();
  SimDisk(const SimDisk&) = delete;
  SimDisk& operator=(const SimDisk&) = delete;

  /// A disk that holds what this one holds now, on and above the medium; nobody has a file of it
  /// open. Buffered disks only.
  [[nodiscard]] std::unique_ptr<SimDisk> clone() const;

  /// The disk as the log sees it. Files opened through it must be closed before kill or power_cut.
  [[nodiscard]] std::shared_ptr<Files> files();

  // ---- growing files, in the same folders; buffered disks only. Threads any ----

  /// A new, empty file, perhaps instead of another one.
  [[nodiscard]] Result<std::unique_ptr<SimGrowing>> create(const std::string& path);
  /// Errors  NotFound.
  [[nodiscard]] Result<std::unique_ptr<SimGrowing>> open(const std::string& path);
  /// One more name for a file.
  [[nodiscard]] Status link(const std::string& from, const std::string& to);
  [[nodiscard]] bool has_folder(const std::string& path) const;
  /// Names of files and folders in `folder`.
  [[nodiscard]] std::vector<std::string> children(const std::string& folder) const;

  // ---- what happens to it ----

  /// What a watcher sees of a sync: the path of the file or folder, and copies of the disk before
  /// and after.
  struct SyncSeen {
    std::string path;
    std::unique_ptr<SimDisk> before;
    std::unique_ptr<SimDisk> after;
  };
  /// Calls `watcher` at each sync, while nothing else happens to the disk. Null: nobody watches.
  void watch_syncs(std::function<void(SyncSeen)> watcher);
  /// Calls `watcher` with a copy of the disk before each step, while nothing else happens to it.
  /// Null: nobody watches.
  void watch_steps(std::function<void(std::unique_ptr<SimDisk> before)> watcher);
  /// From now on syncs of paths of which `lies` is true do nothing and say OK. To plant faults.
  void ignore_syncs(std::function<bool(const std::string& path)> lies);

  /// Calls that changed the disk so far.
  [[nodiscard]] std::uint64_t steps() const;
  /// The power fails in step `step`, counted from 1: it and every call after it return IOError.
  /// Whether the failing call still takes effect on the volatile state is chosen by seed.
  void fail_at(std::uint64_t step, std::uint64_t seed);
  /// Step `step` alone returns IOError: without effect (of a write, some blocks; of a sync, see
  /// above), or, if `after`, when it has done its work.
  void fail_once(std::uint64_t step, bool after, std::uint64_t seed);
  /// True if the power is off.
  [[nodiscard]] bool failed() const;

  /// The process died: what was written stays. Calls work again.
  void kill();
  /// The power failed: what was not synced survives or not, by seed. Calls work again.
  void power_cut(std::uint64_t seed) { power_cut(seed, Survives::kSome); }
  void power_cut(std::uint64_t seed, Survives survives);
  /// Which of so many ways, counted from 0, one thing goes that was not synced.
  using Choose = std::function<std::uint64_t(std::uint64_t ways)>;
  /// The same, chosen way by way, so that all that a cut may leave can be gone through. Of lengths
  /// of a growing file there are three: the least, one in the middle, the most. Buffered disks
  /// only.
  void power_cut(const Choose& choose);

  /// Flips bits of the stored byte at `offset` of `path`, durably; for tests of damage.
  void damage(const std::string& path, std::uint64_t offset, std::uint8_t mask);
  [[nodiscard]] std::vector<std::string> names() const;
  /// A checksum of all that processes would find: names and bytes. Buffered disks only.
  [[nodiscard]] std::uint64_t digest() const;
  /// True if a power cut cannot take the name `path` away.
  [[nodiscard]] bool is_durable(const std::string& path) const;

  struct State;

 private:
  const std::shared_ptr<State> state_;
};

}  // namespace breccia::wal
