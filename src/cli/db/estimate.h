#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "console/console.h"
#include "ordered/read_only.h"

namespace breccia::cli::db {

/// A line on stderr about work whose amount is roughly known: how much is done, how fast, and how
/// long the rest takes.
/// Threads one owner.
class Estimate {
 public:
  /// `total` in units named by `unit` ("bytes" are shown as such); 0: not known.
  Estimate(bool on, std::uint64_t total, std::string unit)
      : line_(on), total_(total), unit_(std::move(unit)) {}

  void advance(std::uint64_t units) { set(done_ + units); }
  void set(std::uint64_t done) {
    done_ = done;
    if ((++calls_ & 1023) == 1 || unit_ == "bytes") show_if_due();
  }
  void clear() { line_.clear(); }

 private:
  void show_if_due();

  console::ProgressLine line_;
  const std::uint64_t total_;
  const std::string unit_;
  std::uint64_t done_ = 0;
  std::uint64_t calls_ = 0;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// Shows how a folder grows towards `total` bytes while it lives: for work that reports nothing.
class FolderGrowth {
 public:
  FolderGrowth(bool on, std::string folder, std::uint64_t total);
  ~FolderGrowth();
  FolderGrowth(const FolderGrowth&) = delete;
  FolderGrowth& operator=(const FolderGrowth&) = delete;

 private:
  void run(const std::stop_token& stop);

  const std::string folder_;
  Estimate estimate_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;  // last: it uses all of the above
};

/// Bytes of the regular files in `folder` and below.
[[nodiscard]] std::uint64_t folder_bytes(const std::string& folder);

/// About how many entries the family has.
[[nodiscard]] std::uint64_t estimated_keys(const ordered::ReadOnlyStore& store,
                                           rocksdb::ColumnFamilyHandle* family);

}  // namespace breccia::cli::db
