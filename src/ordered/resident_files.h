#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/bell.h"
#include "exec/device.h"
#include "residency/file_set.h"

namespace breccia::ordered {

/// What a store has of the keys of its tree's files: where they lie, who loads them, and figures.
///
/// A set of files is part of a view, beside the snapshot of the tree whose contents it says. So
/// that it does:
///  - whoever publishes that the tree says something else drops the family's set and counts
///    (FamilyView::note_tree_change);
///  - a set is made of files that were listed under the tree's change lock, and published only if
///    nothing was counted since. Compactions change files, but not what they say;
///  - who changes the tree past the engine shuts filters (tree_filters.h) before: what was listed
///    until they are open again is thrown away.
///
/// Threads any.
class ResidentFiles {
 public:
  /// None: no files are loaded, ever.
  ResidentFiles() = default;
  /// `bytes_max`: of the keys; who reads files needs kLoadBytes a reader beside.
  ResidentFiles(std::shared_ptr<residency::Backend> backend, std::uint64_t bytes_max,
                std::uint64_t readers)
      : backend_(std::move(backend)), bytes_max_(bytes_max), readers_(readers) {
    backend_->tenant().answer({.give = [this](std::uint64_t) { give(); }, .lost = nullptr});
  }
  ~ResidentFiles() {
    if (backend_ != nullptr) backend_->tenant().be_left_alone();
  }
  ResidentFiles(const ResidentFiles&) = delete;
  ResidentFiles& operator=(const ResidentFiles&) = delete;

  /// Device memory in which a file is decoded, a piece at a time.
  static constexpr std::uint64_t kLoadBytes = 512 << 20;

  /// Null: there are none, or their device was lost.
  [[nodiscard]] std::shared_ptr<residency::Backend> backend() const {
    return backend_ == nullptr || backend_->device().is_lost() ? nullptr : backend_;
  }
  [[nodiscard]] std::uint64_t bytes_max() const { return bytes_max_; }
  /// Files that are read at once, and the device's memory for that.
  [[nodiscard]] std::uint64_t readers() const { return readers_; }
  [[nodiscard]] std::uint64_t load_bytes() const { return readers_ * kLoadBytes; }
  [[nodiscard]] const std::shared_ptr<residency::Usage>& usage() const { return usage_; }
  /// Rung where files may have changed.
  [[nodiscard]] base::Bell& bell() { return bell_; }

  /// Asks for the device's memory, all of it, as somebody else wants some.
  void give() {
    is_asked_.store(true);
    bell_.ring();
  }
  /// Whether that was asked since it was taken last.
  [[nodiscard]] bool is_asked() const { return is_asked_.load(); }
  [[nodiscard]] bool take_asked() { return is_asked_.exchange(false); }

  // ---- figures ----

  void note_load(std::uint64_t files, std::uint64_t bytes, std::uint64_t micros) {
    loads_.fetch_add(files, std::memory_order_relaxed);
    loaded_bytes_.fetch_add(bytes, std::memory_order_relaxed);
    load_micros_.fetch_add(micros, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t loads() const { return loads_.load(std::memory_order_relaxed); }
  /// Of those files.
  [[nodiscard]] std::uint64_t loaded_bytes() const {
    return loaded_bytes_.load(std::memory_order_relaxed);
  }
  /// From where it was looked which they are until lookups know them, or others were given up.
  [[nodiscard]] std::uint64_t load_micros() const {
    return load_micros_.load(std::memory_order_relaxed);
  }

 private:
  const std::shared_ptr<residency::Backend> backend_;
  const std::uint64_t bytes_max_ = 0;
  const std::uint64_t readers_ = 0;
  const std::shared_ptr<residency::Usage> usage_ = std::make_shared<residency::Usage>();
  base::Bell bell_;
  std::atomic<bool> is_asked_{false};
  std::atomic<std::uint64_t> loads_{0};
  std::atomic<std::uint64_t> loaded_bytes_{0};
  std::atomic<std::uint64_t> load_micros_{0};
};

}  // namespace breccia::ordered
