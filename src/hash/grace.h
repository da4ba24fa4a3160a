#pragma once

#include <cstdint>
#include <mutex>
#include <set>

#include "base/assert.h"

namespace breccia::hash {

/// When what was taken out of a table may be used again: when every call that was under way has
/// ended.
/// Threads any.
class Grace {
 public:
  /// While it lives, nothing that is taken out from now on is used again.
  class Stay {
   public:
    explicit Stay(Grace& grace) : grace_(grace), since_(grace.enter()) {}
    ~Stay() { grace_.leave(since_); }
    Stay(const Stay&) = delete;
    Stay& operator=(const Stay&) = delete;

   private:
    Grace& grace_;
    const std::uint64_t since_;
  };

  /// A moment behind which something was taken out: is_over() says when nobody can see it any more.
  [[nodiscard]] std::uint64_t moment() {
    const std::lock_guard lock(mutex_);
    return now_++;
  }
  [[nodiscard]] bool is_over(std::uint64_t moment) const {
    const std::lock_guard lock(mutex_);
    BRECCIA_ASSERT(moment < now_);
    return inside_.empty() || *inside_.begin() > moment;
  }

 private:
  std::uint64_t enter() {
    const std::lock_guard lock(mutex_);
    inside_.insert(now_);
    return now_;
  }
  void leave(std::uint64_t since) {
    const std::lock_guard lock(mutex_);
    const auto at = inside_.find(since);
    BRECCIA_ASSERT(at != inside_.end());
    inside_.erase(at);
  }

  mutable std::mutex mutex_;
  std::uint64_t now_ = 0;
  std::multiset<std::uint64_t> inside_;  // since when each call is under way
};

}  // namespace breccia::hash
