#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

/// What the real files really ask of the system: a deleted sync shows here, where the simulated
/// disks know only that sync() was called.
///
/// The test program is linked so that the calls of this project's own code (open, pwrite,
/// fdatasync, rename, ...; cmake/tests.cmake lists them) come by here before the system has them.

namespace breccia::testing {

/// Watches the calls on what lies in a folder while it lives; one at a time.
/// Threads any.
class RecordedCalls {
 public:
  explicit RecordedCalls(std::string folder);
  ~RecordedCalls();
  RecordedCalls(const RecordedCalls&) = delete;
  RecordedCalls& operator=(const RecordedCalls&) = delete;

  /// What a power cut may take now: files whose bytes or length, and names of files and folders,
  /// that changed since their last successful sync.
  [[nodiscard]] std::vector<std::string> unsynced() const;
  /// Broken rules: a file got its name by a rename before its bytes were synced. Those of a segment
  /// are its first page, synced alone: what a recycled one held before is of no worth.
  [[nodiscard]] std::vector<std::string> faults() const;
  /// True if flushes to persistent memory have covered [at, at + bytes) since the last
  /// forget_flushes(), and a fence came behind them.
  [[nodiscard]] bool flushed(const std::byte* at, std::uint64_t bytes) const;
  void forget_flushes();

  // ---- for the wrapped calls ----
  /// Of a file's length `offset` 0 stands.
  void wrote(int descriptor, std::uint64_t offset = 0, std::uint64_t bytes = ~std::uint64_t{0});
  void synced(int descriptor);
  /// Its length and bytes that lie in its first page, and no others.
  void synced_head(int descriptor);
  /// A file or folder has got the name `path`.
  void named(const std::string& path);
  void renames(const std::string& from, const std::string& to);
  void removed(const std::string& path);
  void flush(const void* at, std::size_t bytes);
  void fence();

 private:
  using Inode = std::pair<std::uint64_t, std::uint64_t>;  // device, number
  /// Of a file some bytes are not synced.
  struct Unsynced {
    std::string path;
    bool head = false;        // in its first page, or its length
    bool rest = false;        // behind that
    bool head_alone = false;  // the head was synced, by itself
  };
  static constexpr std::uint64_t kHeadBytes = 4096;
  [[nodiscard]] bool is_mine(const std::string& path) const;
  [[nodiscard]] static bool is_unfinished(const std::string& path);

  const std::string folder_;
  mutable std::mutex mutex_;
  std::map<Inode, Unsynced> unsynced_bytes_;
  std::map<std::string, std::set<std::string>> unsynced_names_;  // by folder
  std::vector<std::string> faults_;
  using Ranges = std::vector<std::pair<std::uintptr_t, std::uintptr_t>>;
  Ranges flushes_;
  Ranges fenced_;
};

}  // namespace breccia::testing
