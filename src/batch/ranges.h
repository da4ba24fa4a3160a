#pragma once

#include <breccia/family.h>

#include <cstdint>
#include <deque>
#include <span>

#include "batch/columns.h"
#include "batch/results.h"
#include "batch/writes.h"
#include "exec/host_vector.h"
#include "record/key_columns.h"

namespace breccia::batch {

/// The range requests of a batch in one column family, and their results.
/// Threads one owner; results of different ranges may be written by several threads.
class Ranges {
 public:
  Ranges(FamilyId family, exec::HostMemory& memory)
      : family_(family),
        begin_(memory),
        end_(memory),
        limits_(memory),
        after_(memory),
        bounds_(memory),
        results_(memory),
        memory_(memory) {}

  /// `after` as for Reads.
  /// Errors  false: out of memory; nothing was added.
  [[nodiscard]] bool add(const Slice& begin, const Slice& end, std::uint32_t limit,
                         std::uint64_t after);
  /// Adds ranges in one go.
  /// Shape   limits[begins.count()], or limits[1] for all.
  /// Errors  false: out of memory; nothing was added.
  [[nodiscard]] bool add(const KeyArray& begins, const KeyArray& ends,
                         std::span<const std::uint32_t> limits, std::uint64_t after);
  /// As those of Reads.
  [[nodiscard]] bool append(const Ranges& other, const Flags* chosen, BytesBefore* before);
  void hand_over(Ranges* to, const Flags* chosen);
  void clear();
  /// As Reads::prepare.
  [[nodiscard]] bool prepare(bool with_bounds);

  [[nodiscard]] FamilyId family() const { return family_; }
  [[nodiscard]] std::uint64_t count() const { return limits_.size(); }
  [[nodiscard]] record::KeyColumnsRef begin() const { return begin_.ref(); }
  [[nodiscard]] record::KeyColumnsRef end() const { return end_.ref(); }
  [[nodiscard]] const std::uint32_t* limits() const { return limits_.data(); }
  /// What a walk costs for each run beyond the first, in lookups: of a range one to find its begin,
  /// and one for every kEntriesPerProbe entries that may lie in it.
  [[nodiscard]] std::uint64_t probes() const { return probes_; }
  [[nodiscard]] const std::uint64_t* after() const { return after_.data(); }
  [[nodiscard]] std::uint64_t* bounds() { return bounds_.data(); }
  /// Room for `count` more pairs of results, until the next prepare or clear; null: out of memory.
  [[nodiscard]] std::uint64_t* make_pairs(std::uint64_t count);
  [[nodiscard]] RangeResult* results() { return results_.data(); }
  [[nodiscard]] const RangeResult* results() const { return results_.data(); }
  [[nodiscard]] std::uint64_t result_count() const { return results_.size(); }

 private:
  static constexpr std::uint64_t kEntriesPerProbe = 8;

  const FamilyId family_;
  record::KeyColumns begin_;
  record::KeyColumns end_;
  exec::HostVector<std::uint32_t> limits_;
  std::uint64_t probes_ = 0;
  exec::HostVector<std::uint64_t> after_;
  exec::HostVector<std::uint64_t> bounds_;
  exec::HostVector<RangeResult> results_;
  std::uint64_t handed_over_ = 0;
  exec::HostMemory& memory_;
  std::deque<exec::HostVector<std::uint64_t>> pairs_;
};

}  // namespace breccia::batch
