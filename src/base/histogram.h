#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace breccia::base {

/// Counts values in log-linear buckets, so that percentiles are exact to three significant digits.
///
/// Values below 2048 have a bucket each. Above, each power of two is cut into 1024 buckets, so the
/// width of a bucket is less than a thousandth of the values in it:
///
///   value        0 .. 2047   2048 .. 4095   4096 .. 8191   ...   2^40 .. 2^41 - 1
///   bucket width     1             2              4        ...        2^30
///
/// Units   any; the benchmarks count nanoseconds (2^41 ns are 36 minutes; more counts as that).
/// Bound   256 KiB, allocated and touched by the constructor; recording allocates nothing.
/// Threads one recorder; readers at the same time see figures that may be a moment apart.
/// Source  HdrHistogram (Tene), with half-open powers of two instead of its bucket offsets.
class Histogram {
 public:
  static constexpr int kExactBits = 11;
  static constexpr int kValueBits = 41;
  static constexpr std::uint64_t kValueMax = (1ULL << kValueBits) - 1;
  static constexpr std::uint64_t kHalf = 1ULL << (kExactBits - 1);
  static constexpr std::size_t kBuckets = (kValueBits - kExactBits + 2) * kHalf;

  Histogram() : counts_(std::make_unique<std::atomic<std::uint64_t>[]>(kBuckets)) {}

  void record(std::uint64_t value) { record_many(value, 1); }

  /// Counts `value` `times` times.
  void record_many(std::uint64_t value, std::uint64_t times) {
    value = std::min(value, kValueMax);
    add(counts_[bucket_of(value)], times);
    add(count_, times);
    add(sum_, value * times);
    if (value > load(max_)) max_.store(value, std::memory_order_relaxed);
    if (value < load(min_)) min_.store(value, std::memory_order_relaxed);
  }

  /// Adds what `other` counted.
  void merge(const Histogram& other) {
    for (std::size_t i = 0; i < kBuckets; ++i) {
      const std::uint64_t times = load(other.counts_[i]);
      if (times != 0) add(counts_[i], times);
    }
    add(count_, load(other.count_));
    add(sum_, load(other.sum_));
    max_.store(std::max(load(max_), load(other.max_)), std::memory_order_relaxed);
    min_.store(std::min(load(min_), load(other.min_)), std::memory_order_relaxed);
  }

  [[nodiscard]] std::uint64_t count() const { return load(count_); }
  [[nodiscard]] std::uint64_t max() const { return load(max_); }
  /// The smallest value; 0 if there is none.
  [[nodiscard]] std::uint64_t min() const { return count() == 0 ? 0 : load(min_); }
  /// The mean of the values; 0 if there is none.
  [[nodiscard]] double mean() const {
    return count() == 0 ? 0 : static_cast<double>(load(sum_)) / static_cast<double>(count());
  }

  /// The smallest bucket bound that at least `percent` of the values do not exceed; 0 if empty.
  [[nodiscard]] std::uint64_t percentile(double percent) const {
    return percentile_since(percent, nullptr);
  }

  /// The same of the values recorded after `earlier` was merged from this histogram; all of them
  /// if it is null.
  [[nodiscard]] std::uint64_t percentile_since(double percent, const Histogram* earlier) const {
    const std::uint64_t total = count() - (earlier == nullptr ? 0 : earlier->count());
    if (total == 0) return 0;
    const auto exact = std::ceil(static_cast<double>(total) * percent / 100.0);
    const std::uint64_t wanted =
        std::clamp(static_cast<std::uint64_t>(exact), std::uint64_t{1}, total);
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < kBuckets; ++i) {
      seen += load(counts_[i]) - (earlier == nullptr ? 0 : load(earlier->counts_[i]));
      if (seen >= wanted) return std::min(bucket_max(i), max());
    }
    return max();
  }

  /// The bucket that counts `value`, at most kValueMax.
  static std::size_t bucket_of(std::uint64_t value) {
    const int shift = std::bit_width(value | (2 * kHalf - 1)) - kExactBits;
    return static_cast<std::size_t>(shift) * kHalf + (value >> shift);
  }

  /// The largest value that bucket `index` counts.
  static std::uint64_t bucket_max(std::size_t index) {
    if (index < 2 * kHalf) return index;
    const std::uint64_t shift = index / kHalf - 1;
    return ((index - shift * kHalf + 1) << shift) - 1;
  }

 private:
  static std::uint64_t load(const std::atomic<std::uint64_t>& from) {
    return from.load(std::memory_order_relaxed);
  }
  // One recorder: a load and a store are enough, and cost no locked instruction.
  static void add(std::atomic<std::uint64_t>& to, std::uint64_t more) {
    to.store(load(to) + more, std::memory_order_relaxed);
  }

  std::unique_ptr<std::atomic<std::uint64_t>[]> counts_;
  std::atomic<std::uint64_t> count_{0};
  std::atomic<std::uint64_t> sum_{0};
  std::atomic<std::uint64_t> max_{0};
  std::atomic<std::uint64_t> min_{kValueMax};
};

}  // namespace breccia::base
