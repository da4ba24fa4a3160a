#pragma once

#include <rocksdb/snapshot.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "ordered/state.h"

namespace breccia::facade {

/// A snapshot as users hold it.
class Snapshot final : public rocksdb::Snapshot {
 public:
  Snapshot(ordered::Pin pin, std::int64_t unix_time)
      : pin_(std::move(pin)), unix_time_(unix_time) {}

  [[nodiscard]] rocksdb::SequenceNumber GetSequenceNumber() const override { return pin_.visible; }
  [[nodiscard]] std::int64_t GetUnixTime() const override { return unix_time_; }
  [[nodiscard]] std::uint64_t GetTimestamp() const override { return ~std::uint64_t{0}; }

  [[nodiscard]] const ordered::Pin& pin() const { return pin_; }
  /// Takes out the view that it holds.
  [[nodiscard]] ordered::ViewPtr take_view() { return std::move(pin_.view); }

 private:
  ordered::Pin pin_;
  const std::int64_t unix_time_;
};

/// The snapshots of one database that were not released.
///
/// They are known by their addresses. Of those that were released the last kReleasedMax objects
/// stay, empty, so that no new snapshot takes the place of one that somebody still reads at.
///
/// Threads any number.
class Snapshots {
 public:
  static constexpr std::size_t kReleasedMax = 1024;

  [[nodiscard]] const rocksdb::Snapshot* take(ordered::Pin pin);
  /// False if `snapshot` is none of these.
  [[nodiscard]] bool release(const rocksdb::Snapshot* snapshot);
  void release_all();
  /// What `snapshot` sees; none if it is none of these.
  [[nodiscard]] std::optional<ordered::Pin> find(const rocksdb::Snapshot* snapshot) const;

  struct Figures {
    std::uint64_t count = 0;
    std::uint64_t oldest_time = 0;  // 0 if there is none
    std::uint64_t oldest_position = 0;
  };
  [[nodiscard]] Figures figures() const;

 private:
  mutable std::mutex mutex_;
  std::map<const rocksdb::Snapshot*, std::unique_ptr<Snapshot>> live_;
  std::deque<std::unique_ptr<Snapshot>> released_;  // oldest first
};

}  // namespace breccia::facade
