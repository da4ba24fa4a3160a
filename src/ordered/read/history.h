#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "ordered/view.h"

namespace breccia::ordered {

/// The versions that flushes took out of memory, as long as somebody may ask what has changed since
/// a position before them: the tree does not know positions.
///
/// Threads any.
class History {
 public:
  /// Keeps at most what filled `bytes_max` of the log.
  explicit History(std::uint64_t bytes_max) : bytes_max_(bytes_max) {}

  /// While it lives, versions from its position on are kept.
  class Hold {
   public:
    Hold() = default;
    Hold(std::shared_ptr<History> history, std::uint64_t since);
    Hold(Hold&& other) noexcept = default;
    Hold& operator=(Hold&& other) noexcept;
    ~Hold() { release(); }

    [[nodiscard]] bool held() const { return history_ != nullptr; }
    [[nodiscard]] std::uint64_t since() const { return since_; }
    void release();
    /// Gives up what lies before `since`, which is not before since().
    void keep_since(std::uint64_t since);

   private:
    std::shared_ptr<History> history_;  // it may outlive the engine
    std::uint64_t since_ = 0;
  };

  /// What a flush takes out of memory, to be called before it does: `view` holds in its runs all
  /// versions from View::flushed to `end`. Kept only if there is a hold from before `end`.
  void add(ViewPtr view, std::uint64_t end);
  /// Lets go of all that is kept.
  void clear();

  /// A view and the position where the next one, or memory, goes on.
  struct Part {
    ViewPtr view;
    std::uint64_t end;
  };
  /// The views that hold every version from `since` to `end`; none if not all of them are kept.
  [[nodiscard]] std::optional<std::vector<Part>> between(std::uint64_t since,
                                                         std::uint64_t end) const;

 private:
  void drop_unneeded(std::list<Part>* dropped);  // under mutex_, as below
  [[nodiscard]] bool over_limit() const;

  const std::uint64_t bytes_max_;
  mutable std::mutex mutex_;
  std::multiset<std::uint64_t> holds_;
  std::list<Part> kept_;  // oldest first, each from where the one before it ends
};

}  // namespace breccia::ordered
