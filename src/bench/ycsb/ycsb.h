#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/suite_flags.h"
#include "bench/ycsb/properties.h"

/// YCSB's core workload as steps of a suite.
///
/// Choosing records by Zipf's law costs more than a request may, so the requests of each thread are
/// chosen before the clock starts, eight bytes each. A record is one value of fieldcount times
/// fieldlength bytes; an update writes all of it, as with YCSB's writeallfields=true.
namespace breccia::bench {

/// The key of record `number` as YCSB writes it: `user` and a decimal number. Returns its size.
/// Shape   room for ycsb_key_size_max bytes at `to`.
std::size_t write_ycsb_key(const YcsbWorkload& workload, std::uint64_t number, char* to);
std::size_t ycsb_key_size_max(const YcsbWorkload& workload);

/// Chosen requests of one thread: kind in the upper bits, record number below.
class YcsbChoices {
 public:
  YcsbChoices() = default;
  /// Chooses the requests of `thread` in a run of `threads`; other ones for another seed.
  ///
  /// Thread t inserts the records recordcount + t, recordcount + t + threads, ... so that threads
  /// need not talk. It looks up what was loaded and, under `latest`, what it has inserted itself:
  /// so every record that is looked up exists.
  YcsbChoices(const YcsbWorkload& workload, std::uint64_t seed, std::uint32_t thread,
              std::uint32_t threads);

  [[nodiscard]] std::uint64_t size() const { return packed_.size(); }
  [[nodiscard]] Kind kind(std::uint64_t i) const {
    return static_cast<Kind>(packed_[i] >> kKindShift);
  }
  [[nodiscard]] std::uint64_t record(std::uint64_t i) const {
    return packed_[i] & ((1ULL << kLengthShift) - 1);
  }
  /// Entries that request `i` reads, if it is a scan.
  [[nodiscard]] std::uint32_t scan_entries(std::uint64_t i) const {
    return packed_[i] >> kLengthShift & kScanLengthMax;
  }

 private:
  // Three bits of the kind, 16 of a scan's length, 45 of the record's number.
  static constexpr int kKindShift = 61;
  static constexpr int kLengthShift = 45;
  static_assert(kScanLengthMax < 1U << (kKindShift - kLengthShift));
  std::vector<std::uint64_t> packed_;
};

/// A workload that runs, and what its step is called.
struct YcsbRun {
  std::string name;
  YcsbWorkload workload;
};

/// Whether these can run one behind the other on what is loaded once.
/// Errors  InvalidArgument: they have other records or keys, choose among them by other laws (rows
///         name one), are called alike, or two insert records, of which the second would find the
///         first's.
Status check_runs(const std::vector<YcsbRun>& runs);

/// The loading step, unless the flags say to use what is there, and a running step for each
/// workload that has something to run. Each has its own requests.
/// Shape   check_runs is ok; at least one.
std::vector<Step> ycsb_steps(const SuiteFlags& flags, const std::vector<YcsbRun>& runs,
                             double target_per_s);

/// Prints the summary lines that YCSB prints.
void print_ycsb_summary(const DriverOutcome& outcome);

}  // namespace breccia::bench
