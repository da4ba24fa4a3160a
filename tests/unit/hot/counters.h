#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "hot/copies.h"

/// Counters in a store that is a map, with copies in front of it as the tier has them.

namespace breccia::hot::testing {

class Counters {
 public:
  Counters(std::uint64_t count, std::uint64_t room) : acknowledged_(count) {
    auto made = Copies::make(room);
    EXPECT_TRUE(made.ok());
    copies_ = made.take();
    for (std::uint64_t i = 0; i < count; ++i) below_[i] = 0;
  }

  static std::uint64_t hash_of(std::uint64_t i) { return base::mix64(i + 1); }
  [[nodiscard]] Copies& copies() { return *copies_; }
  [[nodiscard]] std::uint64_t hits() const { return hits_; }

  /// `tells`: whether copies are to know of it; `keeps`: and are to have what it wrote.
  void raise(std::uint64_t i, bool tells, bool keeps) {
    std::optional<Copies::Write> write;
    if (tells) write = copies_->begin_write(hash_of(i), name(i));
    std::uint64_t now = 0;
    {
      const std::lock_guard lock(mutex_);
      now = ++below_[i];
    }
    if (keeps) {
      copies_->end_write(hash_of(i), name(i), *write, Slice(std::to_string(now)));
    } else if (tells) {
      copies_->end_write(hash_of(i), *write);
    }
    std::uint64_t seen = acknowledged_[i].load();
    while (seen < now && !acknowledged_[i].compare_exchange_weak(seen, now)) {
    }
  }
  /// What was acknowledged before a lookup began.
  [[nodiscard]] std::uint64_t least(std::uint64_t i) const { return acknowledged_[i].load(); }
  /// `looks`: whether copies are asked, and brought.
  void look(std::uint64_t i, bool looks, std::uint64_t least) {
    std::string value;
    const std::uint64_t version = copies_->version(hash_of(i));
    if (looks && copies_->find(hash_of(i), name(i), &value) == Copy::kValue) {
      ++hits_;
      ASSERT_GE(std::stoull(value), least);
      std::uint64_t now = 0;
      {
        const std::lock_guard lock(mutex_);
        now = below_[i];
      }
      ASSERT_TRUE(copies_->version(hash_of(i)) != version || std::stoull(value) == now);
      return;
    }
    const auto lease = looks ? copies_->lease(hash_of(i)) : std::nullopt;
    std::uint64_t now = 0;
    {
      const std::lock_guard lock(mutex_);
      now = below_[i];
    }
    ASSERT_GE(now, least);
    if (lease.has_value()) {
      copies_->bring(hash_of(i), name(i), *lease, Slice(std::to_string(now)));
    }
  }

 private:
  static std::string name(std::uint64_t i) { return "counter " + std::to_string(i); }

  std::unique_ptr<Copies> copies_;
  std::mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> below_;
  std::vector<std::atomic<std::uint64_t>> acknowledged_;
  std::atomic<std::uint64_t> hits_{0};
};

}  // namespace breccia::hot::testing
