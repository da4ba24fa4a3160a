#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>

namespace breccia::exec {

/// Work on a device that nobody waited for. Who changes what it looks at, or gives memory back that
/// it uses, waits for it first.
/// Threads any, of all calls.
class InFlight {
 public:
  class Work {
   public:
    Work() = default;
    virtual ~Work() = default;
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;

    /// Whether finish() need not wait.
    [[nodiscard]] virtual bool is_done() = 0;
    /// Waits for it. Called once or more often, by several threads at a time.
    virtual void finish() = 0;

   private:
    friend class InFlight;
    std::uint64_t number_ = 0;  // of those that were added
  };
  /// A place for some work.
  using Place = std::list<std::shared_ptr<Work>>;

  InFlight() = default;
  ~InFlight() { finish_all(); }
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

  /// While it lives, make_room() waits: what is in flight becomes less. Who is past that already
  /// may still add its work.
  class Pause {
   public:
    explicit Pause(InFlight& all);
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    InFlight& all_;
  };

  /// Lets go of what is done, up to the first that is not. Whether that was all there is.
  /// Cost    a question to the driver for each, a microsecond.
  bool reap() { return reap(/*in_order=*/true); }
  /// The same, of what is behind that, too.
  void reap_all() { (void)reap(/*in_order=*/false); }
  /// Lets go of some of it, and where much is not done waits for the first of that. Called by who
  /// is about to add work, and has no lock that others want.
  void make_room();
  /// The work of a place is under way.
  void add(Place place) noexcept;
  /// Waits for all that was added before.
  void finish_all();
  [[nodiscard]] std::size_t count() const;

 private:
  /// Each has an executor with its stream and a few MiB. Several that come at once may have a few
  /// more.
  static constexpr std::size_t kWorkMax = 16;

  bool reap(bool in_order);
  void let_go(const std::shared_ptr<Work>& work);

  mutable std::mutex mutex_;
  std::condition_variable goes_on_;  // when nobody pauses it
  int pauses_ = 0;
  std::uint64_t added_ = 0;
  Place work_;  // in the order in which it was added
};

}  // namespace breccia::exec
