#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "exec/device.h"
#include "hash/backend.h"
#include "hash/refs.h"
#include "wal/segment_table.h"

namespace breccia::hash {

/// A log as the kernels of a device read it. It keeps the segments where they are.
class LogWindows {
 public:
  LogWindows(wal::SegmentTablePtr table, exec::Array<const char*> window, std::uint64_t first,
             std::uint64_t adoptions)
      : table_(std::move(table)),
        window_(std::move(window)),
        first_(first),
        adoptions_(adoptions) {}

  [[nodiscard]] LogRef ref() const { return {window_.data(), first_, window_.count()}; }
  /// Whether it shows newer segments than this table has.
  [[nodiscard]] bool is_ahead_of(const wal::SegmentTable& table) const {
    return table_->segments().front()->base > table.segments().front()->base ||
           table_->segments().back()->end() > table.segments().back()->end();
  }
  /// Whether it shows these segments, of which so many were adopted.
  [[nodiscard]] bool is_of(const wal::SegmentTablePtr& table, std::uint64_t adoptions) const {
    return table_ == table && adoptions_ == adoptions;
  }

 private:
  const wal::SegmentTablePtr table_;
  const exec::Array<const char*> window_;
  const std::uint64_t first_;
  const std::uint64_t adoptions_;
};
using LogWindowsPtr = std::shared_ptr<const LogWindows>;

/// Makes a log readable for a device where it lies. From the first time on that somebody asks, the
/// device adopts images of segments in a thread of the view's, one after the other, as that pins
/// their memory, which takes long. What is not readable yet is read by the host.
/// Threads any.
class LogView {
 public:
  explicit LogView(std::shared_ptr<Backend> backend) : backend_(std::move(backend)) {}
  ~LogView() { stop(); }
  LogView(const LogView&) = delete;
  LogView& operator=(const LogView&) = delete;

  /// What a log does with images: wal::LogOptions::on_map and on_unmap.
  void map(std::byte* image, std::uint64_t bytes);
  void unmap(std::byte* image);

  /// What can be read now of the log whose table this is; null: nothing. It may be a moment old.
  [[nodiscard]] LogWindowsPtr get(const wal::SegmentTablePtr& table);
  /// Holds on to no segments but these any more.
  void let_go(const wal::SegmentTablePtr& table);
  /// Nothing is adopted, and nothing held, from now on.
  void stop();
  /// Bytes of images that the device has adopted.
  [[nodiscard]] std::uint64_t adopted_bytes() const;

 private:
  enum class State : std::uint8_t { kMapped, kBeingAdopted, kAdopted, kRefused };
  struct Image {
    std::uint64_t bytes;
    State state;
    const char* there = nullptr;  // where kernels read it, if it is adopted
  };

  void adopt_all();
  [[nodiscard]] LogWindowsPtr make(const wal::SegmentTablePtr& table, std::uint64_t adoptions);
  void refresh(const wal::SegmentTablePtr& table);

  const std::shared_ptr<Backend> backend_;
  mutable std::mutex mutex_;
  std::condition_variable changes_;
  std::map<std::byte*, Image> images_;  // this and what follows: under mutex_
  std::uint64_t adoptions_ = 0;         // changes with what is adopted
  bool stops_ = false;
  std::thread thread_;
  LogWindowsPtr windows_;
  std::mutex making_;  // of windows_: by one at a time
};

}  // namespace breccia::hash
