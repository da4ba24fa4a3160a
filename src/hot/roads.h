#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "base/passages.h"
#include "hot/model.h"

namespace breccia::hot {

/// What holds between two steps of a change.
struct Rule {
  ModelPtr lookups;
  ModelPtr writes;
  ModelPtr writes_too;
};

/// Which requests go by the cache of hot keys: lookups of keys that are hot, and writes of all keys
/// that anybody may have a copy of, or bring one.
///
/// A change of the model, from M to N, takes steps; behind each but the last all requests that
/// began before have ended:
///
///     lookups   writes
///        M         M
///        M      M and N    whoever writes a key of N says so from here on
///        N      M and N    nobody has, or brings, a copy that is not of N
///        N      M and N    copies that are not of N go
///        N         N
///
/// So no key is looked up in the cache while somebody writes it past the cache, and no request
/// waits for a change, or fails.
///
/// Threads any. A change at a time.
/// Source  [kvcg] section 7. Deviation: as writes go through, there is nothing to replay, and
///         nothing to try again.
class Roads {
 public:
  /// One request's way.
  class Way {
   public:
    explicit Way(Roads& roads)
        : roads_(roads), pass_(roads.requests_.enter()), now_(roads.now_.load()) {}
    ~Way() { roads_.requests_.leave(pass_); }
    Way(const Way&) = delete;
    Way& operator=(const Way&) = delete;

    /// Whether nothing is hot, so nobody has a copy of anything while this lives.
    [[nodiscard]] bool is_idle() const {
      return now_->lookups == nullptr && now_->writes == nullptr && now_->writes_too == nullptr;
    }
    [[nodiscard]] bool looks(std::uint64_t hash) const { return is_of(now_->lookups, hash); }
    [[nodiscard]] bool tells(std::uint64_t hash) const {
      return is_of(now_->writes, hash) || is_of(now_->writes_too, hash);
    }

   private:
    static bool is_of(const ModelPtr& model, std::uint64_t hash) {
      return model != nullptr && model->is_hot(hash);
    }
    Roads& roads_;
    const base::Passages::Pass pass_;
    const Rule* const now_;
  };

  /// `evict` takes out what is not of a model, when nobody looks for it any more.
  explicit Roads(std::function<void(const Model& next)> evict);
  ~Roads();
  Roads(const Roads&) = delete;
  Roads& operator=(const Roads&) = delete;

  /// Lets `next` be the model by which lookups go that begin behind this; settle() does the rest.
  /// Shape   not by who has a Way.
  /// Bound   as long as the longest request that is under way; and settle() of the change before.
  void change(ModelPtr next);
  /// Takes what is not of the model out.
  /// Bound   as long as the longest request that is under way, twice.
  void settle();
  [[nodiscard]] ModelPtr model() const;
  [[nodiscard]] std::uint64_t changes() const { return changes_.load(); }

 private:
  void let(std::unique_ptr<const Rule> rule);
  void wait();
  void settle_here();

  const std::function<void(const Model&)> evict_;
  base::Passages requests_;
  std::atomic<const Rule*> now_;
  mutable std::mutex mutex_;            // of what follows
  std::unique_ptr<const Rule> owned_;   // what now_ points to
  std::mutex change_;                   // one changes or settles
  std::unique_ptr<const Rule> before_;  // some may still go by it; null: nobody does
  std::atomic<std::uint64_t> changes_{0};
};

}  // namespace breccia::hot
