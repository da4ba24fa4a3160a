#include "batch/admission.h"

#include <algorithm>

#include "base/assert.h"

namespace breccia::batch {

namespace {

constexpr std::uint64_t kSecondUs = 1'000'000;
static_assert(RecentSecond::kWindowUs * RecentSecond::kWindows == kSecondUs);

}  // namespace

AdmissionOptions admission_options(const StoreOptions& options) {
  AdmissionOptions admission;
  admission.threshold_min = std::max<std::uint64_t>(options.admission_requests_min, 1);
  admission.threshold_max = std::max(options.admission_requests_max, admission.threshold_min);
  admission.wait_us_max = std::max<std::uint64_t>(options.admission_wait_us_max, 1);
  admission.raise_us_max = std::min(admission.raise_us_max, admission.wait_us_max - 1);
  admission.switches_max = options.admission_switches_max;
  return admission;
}

RecentSecond::RecentSecond(const AdmissionOptions& options, std::uint64_t now_us)
    : ops_low_max_(options.ops_low_max), ops_high_min_(options.ops_high_min), begin_us_(now_us) {
  BRECCIA_ASSERT(ops_low_max_ < ops_high_min_);
}

void RecentSecond::advance(std::uint64_t now_us) {
  const std::uint64_t ended = (now_us - begin_us_) / kWindowUs;
  for (std::uint64_t i = 0; i < std::min(ended, kWindows + 1); ++i) end_window();
  begin_us_ += ended * kWindowUs;
}

void RecentSecond::add_switch() {
  ++switches_;
  ++window_switches_;
}

bool RecentSecond::stable() const {
  return std::find(band_counts_.begin(), band_counts_.end(), kWindows) != band_counts_.end();
}

void RecentSecond::end_window() {
  const std::uint64_t ops = requests_ * kWindows;  // per second
  const Band band = ops <= ops_low_max_   ? Band::kLow
                    : ops < ops_high_min_ ? Band::kMiddle
                                          : Band::kHigh;
  Window& window = windows_[oldest_];
  --band_counts_[static_cast<int>(window.band)];
  ++band_counts_[static_cast<int>(band)];
  switches_ -= window.switches;
  window = {band, window_switches_};
  oldest_ = (oldest_ + 1) % kWindows;
  requests_ = 0;
  window_switches_ = 0;
}

Admission::Admission(const AdmissionOptions& options, std::uint64_t now_us)
    : options_(options),
      recent_(options, now_us),
      now_us_(now_us),
      emptied_us_(now_us),
      judged_us_(now_us),
      threshold_(options.threshold_min) {
  BRECCIA_ASSERT(options.threshold_min > 0 && options.threshold_min <= options.threshold_max);
  BRECCIA_ASSERT(options.raise_factor > 0 && options.raise_us_max < options.wait_us_max);
  BRECCIA_ASSERT(options.alone_requests_max > 0);
}

Decision Admission::on_arrival(std::uint64_t now_us, std::uint64_t requests) {
  BRECCIA_ASSERT(requests > 0);
  advance(now_us);
  recent_.add_requests(requests);
  waiting_ += requests;
  return decide();
}

Decision Admission::on_timer(std::uint64_t now_us) {
  advance(now_us);
  return decide();
}

Decision Admission::on_alone_done(std::uint64_t now_us, std::uint64_t requests) {
  BRECCIA_ASSERT(requests <= alone_);
  advance(now_us);
  alone_ -= requests;
  return decide();
}

void Admission::advance(std::uint64_t now_us) {
  now_us_ = std::max(now_us_, now_us);
  recent_.advance(now_us_);
  lower_threshold();
  review_pin();
}

void Admission::lower_threshold() {
  const std::uint64_t waits = (now_us_ - judged_us_) / options_.wait_us_max;
  judged_us_ += waits * options_.wait_us_max;
  threshold_ = std::max(options_.threshold_min, threshold_ >> std::min<std::uint64_t>(waits, 63));
}

void Admission::reach_threshold() {
  judged_us_ = now_us_;
  if (now_us_ - emptied_us_ > options_.raise_us_max) return;
  const bool fits = threshold_ <= options_.threshold_max / options_.raise_factor;
  threshold_ = fits ? threshold_ * options_.raise_factor : options_.threshold_max;
}

void Admission::review_pin() {
  if (!pinned() || now_us_ < pinned_until_us_) return;
  pinned_until_us_ = 0;
  if (!recent_.stable()) pin();
}

void Admission::pin() {
  pinned_until_us_ = now_us_ + kSecondUs;
  set_mode(mode_for_rates());
}

void Admission::want(Mode mode) {
  if (pinned() || mode == mode_) return;
  if (recent_.switches() < options_.switches_max) {
    set_mode(mode);
  } else {
    pin();
  }
}

void Admission::set_mode(Mode mode) {
  if (mode == mode_) return;
  mode_ = mode;
  recent_.add_switch();
}

Mode Admission::mode_for_rates() const {
  using Band = RecentSecond::Band;
  const bool often_high = recent_.count(Band::kHigh) * 4 >= RecentSecond::kWindows;
  const bool mostly_low = recent_.count(Band::kLow) * 2 > RecentSecond::kWindows;
  return mostly_low && !often_high ? Mode::kAlone : Mode::kTogether;
}

bool Admission::takes_at_once() const {
  return mode_ == Mode::kAlone && (pinned() || alone_ < options_.alone_requests_max);
}

Decision Admission::decide() {
  if (waiting_ == 0) return {mode_, 0, Decision::kNever};
  const bool reached = waiting_ >= threshold_;
  const bool overdue = now_us_ - emptied_us_ >= options_.wait_us_max;
  if (reached) {
    reach_threshold();
    want(Mode::kTogether);
  } else if (overdue && !takes_at_once()) {
    want(waiting_ + alone_ >= options_.threshold_min ? Mode::kTogether : Mode::kAlone);
  }
  if (reached || overdue || takes_at_once()) return take_all();
  return {mode_, 0, emptied_us_ + options_.wait_us_max};
}

Decision Admission::take_all() {
  const std::uint64_t taken = waiting_;
  if (mode_ == Mode::kAlone) alone_ += taken;
  waiting_ = 0;
  emptied_us_ = now_us_;
  return {mode_, taken, Decision::kNever};
}

}  // namespace breccia::batch
