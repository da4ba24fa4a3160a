#include "facade/db/memory_figures.h"

#include <algorithm>

#include "wal/format.h"

namespace breccia::facade {

namespace {

constexpr std::uint64_t kSamplesMax = 4096;
constexpr std::uint64_t kStepsMax = 65'536;

/// What some entries are like, to tell what all are.
class Sample {
 public:
  explicit Sample(const wal::SegmentTable& table) : table_(table) {}

  void add(std::uint64_t payload) {
    ++seen_.entries;
    seen_.deletes += record::is_deletion(record::op_of(payload)) ? 1 : 0;
    seen_.bytes += record::record_header(table_.at(record::position_of(payload))).record_bytes();
  }
  /// The same proportions for `entries` entries.
  [[nodiscard]] Amount scaled_to(std::uint64_t entries) const {
    if (seen_.entries == 0) return {};
    const auto scaled = [&](std::uint64_t part) {
      return static_cast<std::uint64_t>(static_cast<double>(part) / seen_.entries * entries);
    };
    return seen_.entries == entries ? seen_
                                    : Amount{entries, scaled(seen_.deletes), scaled(seen_.bytes)};
  }

 private:
  const wal::SegmentTable& table_;
  Amount seen_;
};

/// Entries [begin, end) of an order.
Amount amount_of_part(const ordered::Order& order, const wal::SegmentTable& table,
                      std::uint64_t begin, std::uint64_t end) {
  const std::uint64_t count = end - begin;
  const std::uint64_t step = std::max<std::uint64_t>(1, count / kSamplesMax);
  Sample sample(table);
  for (std::uint64_t i = begin; i < end; i += step) sample.add(order.payload_at(i, table));
  return sample.scaled_to(count);
}

/// Entries of the memtable from `begin` to below `end`.
Amount amount_in_memtable(const memtable::HostMemtable& memtable, const wal::SegmentTable& table,
                          const Slice& begin, const Slice& end) {
  constexpr std::uint64_t kNewest = ~std::uint64_t{0};
  memtable::HostMemtable::Cursor at(memtable);
  Sample sample(table);
  std::uint64_t entries = 0;
  for (at.seek(begin, kNewest); at.valid() && entries < kStepsMax; at.next()) {
    if (at.key().compare(end) >= 0) break;
    if (entries < kSamplesMax) sample.add(at.payload());
    ++entries;
  }
  return sample.scaled_to(entries);
}

}  // namespace

Amount amount_of_memtable(const ordered::FamilyView& family, const wal::SegmentTable& table) {
  const memtable::HostMemtable& memtable = *family.active;
  const std::uint64_t entries = memtable.count();
  memtable::HostMemtable::Cursor at(memtable);
  Sample sample(table);
  at.seek_to_first();
  for (std::uint64_t i = 0; i < std::min(entries, kSamplesMax) && at.valid(); ++i, at.next()) {
    sample.add(at.payload());
  }
  return sample.scaled_to(entries);
}

Amount amount_of_runs(const ordered::FamilyView& family, const wal::SegmentTable& table) {
  Amount sum;
  for (const ordered::MemRunPtr& run : family.runs) {
    for (const ordered::Order& order : run->orders) {
      sum += amount_of_part(order, table, 0, order.count);
    }
  }
  return sum;
}

Amount amount_of_range(const ordered::FamilyView& family, const wal::SegmentTable& table,
                       const Slice& begin, const Slice& end) {
  constexpr std::uint64_t kNewest = ~std::uint64_t{0};
  Amount sum = amount_in_memtable(*family.active, table, begin, end);
  for (const ordered::MemRunPtr& run : family.runs) {
    for (const ordered::Order& order : run->orders) {
      const std::uint64_t first = ordered::lower_bound(order, table, begin, kNewest);
      const std::uint64_t last = ordered::lower_bound(order, table, end, kNewest);
      if (first < last) sum += amount_of_part(order, table, first, last);
    }
  }
  return sum;
}

}  // namespace breccia::facade
