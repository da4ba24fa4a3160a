#pragma once

#include <breccia/store_options.h>

#include <array>
#include <cstdint>

namespace breccia::batch {

/// Whether requests wait for others, to be executed with them.
enum class Mode : std::uint8_t { kAlone, kTogether };

/// Defaults are those of [hrocks] sections 6 and 6.7 where it names one.
struct AdmissionOptions {
  /// Waiting requests that are worth a large batch: the first and lowest threshold.
  std::uint64_t threshold_min = 10'000;
  /// What a large batch can hold. A store sets its own: StoreOptions::admission_requests_max.
  std::uint64_t threshold_max = 250'000'000;
  /// A threshold that is reached within raise_us_max grows by raise_factor.
  std::uint64_t raise_us_max = 1'000;
  std::uint64_t raise_factor = 10;
  /// No request waits longer. The default is the time in which a threshold that was just raised is
  /// reached if the rate stays: raise_us_max * raise_factor.
  std::uint64_t wait_us_max = 10'000;
  /// Requests under way alone from which on others wait: about what is done in a millisecond.
  std::uint64_t alone_requests_max = 1'000;
  /// Switches of mode in a second that are no reason to pin it.
  std::uint64_t switches_max = 3;
  /// Requests per second up to which a rate is low, and from which on it is high.
  std::uint64_t ops_low_max = 50'000;
  std::uint64_t ops_high_min = 1'000'000;
};

/// As a store's options say, within what is sound.
[[nodiscard]] AdmissionOptions admission_options(const StoreOptions& options);

/// What to do now.
struct Decision {
  static constexpr std::uint64_t kNever = ~0ULL;

  Mode mode;                    // of what is taken
  std::uint64_t take;           // all requests that wait, with those that just arrived; or none
  std::uint64_t look_again_us;  // on_timer is to be called by then; kNever: nothing waits
};

/// Arrivals and switches of the last second, in windows of 10 ms.
/// Threads one at a time.
class RecentSecond {
 public:
  static constexpr std::uint64_t kWindowUs = 10'000;
  static constexpr std::uint64_t kWindows = 100;

  /// A window's rate of arrivals.
  enum class Band : std::uint8_t { kLow, kMiddle, kHigh };

  /// The second before `now_us` was idle.
  RecentSecond(const AdmissionOptions& options, std::uint64_t now_us);

  /// Ends the windows that lie before `now_us`.
  /// Bound   kWindows + 1 steps.
  void advance(std::uint64_t now_us);
  void add_requests(std::uint64_t requests) { requests_ += requests; }
  void add_switch();

  /// Of the last kWindows windows that have ended, those in `band`.
  [[nodiscard]] std::uint64_t count(Band band) const {
    return band_counts_[static_cast<int>(band)];
  }
  /// All of them lie in one band.
  [[nodiscard]] bool stable() const;
  /// Switches in those windows and the current one: never fewer than in the last second.
  [[nodiscard]] std::uint64_t switches() const { return switches_; }

 private:
  struct Window {
    Band band = Band::kLow;
    std::uint32_t switches = 0;
  };
  void end_window();

  const std::uint64_t ops_low_max_;
  const std::uint64_t ops_high_min_;
  std::array<Window, kWindows> windows_{};
  std::array<std::uint64_t, 3> band_counts_{kWindows, 0, 0};
  std::uint64_t switches_ = 0;
  std::uint64_t oldest_ = 0;  // index in windows_
  std::uint64_t begin_us_;    // of the current window
  std::uint64_t requests_ = 0;
  std::uint32_t window_switches_ = 0;
};

/// Decides when arriving requests are executed: at once, or together with others as a large batch.
/// Where they are executed is not its business: that goes by a batch's size. It holds numbers only:
/// the requests themselves wait with the owner, which takes them out of its queue as each decision
/// says before it reports the next event.
///
///  1. Alone, requests go at once while fewer than alone_requests_max are under way so; else they
///     wait. Together, they wait.
///  2. As many as the threshold wait: they go together, and what follows is to.
///  3. wait_us_max passed since the queue was last emptied: what waits goes, and what follows takes
///     its mode. That is together if it is threshold_min requests or more, those under way alone
///     included, and alone else.
///  4. The threshold grows by raise_factor when it is reached within raise_us_max after the queue
///     was last emptied, and is halved whenever wait_us_max passes in which it was not reached.
///  5. A switch of mode that is one more than switches_max in a second pins the mode for a second,
///     to the one for the last second's rates. Unless that second's rate was stable, the mode is
///     then chosen and pinned again. Pinned to alone, all goes at once; pinned to together, batches
///     of any size.
///
/// Bound   no request waits longer than wait_us_max, given on_timer in time; at most
///         switches_max + 1 switches in any second of the times told; nothing is allocated.
/// Threads one at a time: the owner's lock. A time before the last one counts as the last one. A
///         time read long before its event is reported counts as it is: on the owner's clock the
///         next switches may follow sooner by that much, unless it reads the time under the lock.
/// Source  [hrocks] sections 4 (4), 6 and 6.7, where requests that go alone take the CPU path and
///         those that go together the device's. Deviation: so the mode decides about waiting only;
///         the paper has no bound on waiting, so rule 3 is ours; a falling rate is one that did not
///         fill the threshold in that time; the CPU's low service rate shows as alone_requests_max;
///         "mostly low" is more than half of a second's windows, "often high" a quarter of them and
///         goes first, else together; when to release a pin is left open by the paper.
class Admission {
 public:
  Admission(const AdmissionOptions& options, std::uint64_t now_us);

  /// `requests` (at least 1) that belong together arrived; a decision never divides them.
  [[nodiscard]] Decision on_arrival(std::uint64_t now_us, std::uint64_t requests);
  /// Time went by. May come early or late; a late one makes requests wait longer.
  [[nodiscard]] Decision on_timer(std::uint64_t now_us);
  /// `requests` of those that went alone are finished. Those that went together need no event.
  /// Those of a group may be reported in parts.
  [[nodiscard]] Decision on_alone_done(std::uint64_t now_us, std::uint64_t requests);

  [[nodiscard]] Mode mode() const { return mode_; }
  [[nodiscard]] bool pinned() const { return pinned_until_us_ != 0; }
  [[nodiscard]] std::uint64_t threshold() const { return threshold_; }

 private:
  void advance(std::uint64_t now_us);
  void lower_threshold();
  void reach_threshold();
  void review_pin();
  void pin();
  void want(Mode mode);
  void set_mode(Mode mode);
  [[nodiscard]] Mode mode_for_rates() const;
  [[nodiscard]] bool takes_at_once() const;
  [[nodiscard]] Decision decide();
  [[nodiscard]] Decision take_all();

  const AdmissionOptions options_;
  RecentSecond recent_;
  std::uint64_t now_us_;
  std::uint64_t emptied_us_;  // when the queue was last emptied
  std::uint64_t judged_us_;   // when the threshold was last reached or halved
  std::uint64_t threshold_;
  std::uint64_t waiting_ = 0;
  std::uint64_t alone_ = 0;            // under way
  std::uint64_t pinned_until_us_ = 0;  // 0: not pinned
  Mode mode_ = Mode::kAlone;
};

}  // namespace breccia::batch
