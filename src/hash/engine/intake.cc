#include "hash/engine/intake.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "hash/engine/common.h"
#include "hash/engine/index.h"
#include "record/record.h"

namespace breccia::hash {

namespace {

/// Records whose columns a part has at most; those of more are made when it is their turn.
constexpr std::uint64_t kRecordsMax = 1 << 20;

/// Where entries go.
struct EntriesOut {
  std::uint64_t* number;
  std::uint64_t* payload;
};

/// Makes the entry of a record with that header.
void make_entry(const std::byte* record, const record::RecordHeader& header, std::uint64_t position,
                const Numbering& numbering, const EntriesOut& out) {
  *out.number = numbering.of(Slice(record::record_key(record), header.key_bytes()));
  *out.payload = position | static_cast<std::uint64_t>(header.op());
}

/// Entries of records that follow each other.
class EntryWalk {
 public:
  EntryWalk(const wal::RecordSpan& records, const Numbering& numbering)
      : records_(records), numbering_(numbering) {}

  [[nodiscard]] std::uint64_t left() const { return records_.count - index_; }
  /// Of the records so far.
  [[nodiscard]] const Common& common() const { return common_; }

  /// Makes the next `count`.
  void make(std::uint64_t count, const EntriesOut& out) {
    BRECCIA_ASSERT(count <= left());
    for (std::uint64_t i = 0; i < count;) {
      const record::RecordHeader header = record::record_header(records_.at + offset_);
      const std::uint64_t bytes = header.record_bytes();
      common_.add(header);
      // Where those with the same header are is known before they are read.
      do {
        make_entry(records_.at + offset_, header, records_.position + offset_, numbering_,
                   {out.number + i, out.payload + i});
        offset_ += bytes;
      } while (++i < count && record::has_header(records_.at + offset_, header));
    }
    index_ += count;
  }

  /// The same by all cores, if records are of one size; they tell so themselves, one by one.
  void make_by_many(std::uint64_t count, const EntriesOut& out) {
    constexpr std::uint64_t kPerTask = 16 << 10;
    if (count < 2 * kPerTask) return make(count, out);
    const std::uint64_t bytes = record::record_header(records_.at + offset_).record_bytes();
    if (bytes * count > records_.bytes - offset_) return make(count, out);
    std::atomic<bool> is_one_size{true};
    std::mutex mutex;  // guards `all`
    Common all;
    const auto some = [&](const tbb::blocked_range<std::uint64_t>& range) {
      bool same = true;
      Common these;
      for (std::uint64_t i = range.begin(); i < range.end(); ++i) {
        const std::uint64_t offset = offset_ + i * bytes;
        const std::byte* const record = records_.at + offset;
        const record::RecordHeader header = record::record_header(record);
        same = header.record_bytes() == bytes;
        if (!same) break;
        these.add(header);
        make_entry(record, header, records_.position + offset, numbering_,
                   {out.number + i, out.payload + i});
      }
      if (!same) is_one_size = false;
      const std::lock_guard lock(mutex);
      all.add(these);
    };
    base::parallel_for(tbb::blocked_range<std::uint64_t>(0, count, kPerTask), some);
    if (!is_one_size) return make(count, out);
    common_.add(all);
    offset_ += count * bytes;
    index_ += count;
  }

 private:
  const wal::RecordSpan records_;
  const Numbering& numbering_;
  std::uint64_t offset_ = 0;
  std::uint64_t index_ = 0;
  Common common_;
};

EntriesOut extend(Entries* entries, std::uint64_t count) {
  const std::uint64_t before = entries->count();
  entries->number.resize(before + count);
  entries->payload.resize(before + count);
  return {entries->number.data() + before, entries->payload.data() + before};
}

}  // namespace

/// Columns of entries, and behind them what did not fit.
class MapIntake::Columns final : public Part {
 public:
  explicit Columns(const MapIntake& intake) : intake_(intake) {}

  void add(const wal::RecordSpan& records) override {
    if (intake_.failed_) return;
    is_foreign = is_foreign || !records.only_default_points;
    if (!later.empty() || entries.count() + records.count > kRecordsMax) return add_later(records);
    EntryWalk walk(records, intake_.map_->numbering());
    walk.make(records.count, extend(&entries, records.count));
    common.add(walk.common());
  }

  void clear() {
    entries.clear();
    later.clear();
    common = {};
    is_foreign = false;
  }

  Entries entries;
  std::vector<wal::RecordSpan> later;
  Common common;
  bool is_foreign = false;

 private:
  /// Spans of one frame lie one behind the other: as one, many cores go through it.
  void add_later(const wal::RecordSpan& records) {
    if (later.empty() || later.back().position + later.back().bytes != records.position) {
      later.push_back(records);
      return;
    }
    wal::RecordSpan& last = later.back();
    BRECCIA_ASSERT(last.at + last.bytes == records.at);
    BRECCIA_ASSERT(last.only_default_points == records.only_default_points);
    last.bytes += records.bytes;
    last.count += records.count;
  }

  const MapIntake& intake_;
};

MapIntake::MapIntake(KeyMap* map) : map_(map) {}
MapIntake::~MapIntake() = default;

std::unique_ptr<wal::LogIntake::Part> MapIntake::make_part(std::uint64_t records) {
  std::unique_ptr<Columns> part;
  {
    const std::lock_guard lock(mutex_);
    if (!spare_.empty()) {
      part = std::move(spare_.back());
      spare_.pop_back();
    }
  }
  if (part == nullptr) part = std::make_unique<Columns>(*this);
  part->entries.number.reserve(std::min(records, kRecordsMax));
  part->entries.payload.reserve(std::min(records, kRecordsMax));
  return part;
}

void MapIntake::take_in(std::unique_ptr<Part> part, const wal::SegmentTable::Places& log) {
  std::unique_ptr<Columns> columns(static_cast<Columns*>(part.release()));
  if (failed_) return;
  // Also a refill's want of memory: what was read is not at fault.
  status_ = base::or_memory_limit([&] { return take_in(*columns, log); });
  if (!status_.ok()) {
    failed_ = true;
    return;
  }
  columns->clear();
  const std::lock_guard lock(mutex_);
  spare_.push_back(std::move(columns));
}

Status MapIntake::take_in(Columns& part, const wal::SegmentTable::Places& log) {
  if (part.is_foreign) {
    return Status::Corruption("the log holds what no store of the hash engine writes",
                              "it may be that of a store of another engine");
  }
  for (const wal::RecordSpan& records : part.later) {
    EntryWalk walk(records, map_->numbering());
    while (walk.left() > 0) {
      if (part.entries.count() == kRecordsMax) {
        BRECCIA_TRY(map_->take_in(part.entries, part.common, log));
        part.entries.clear();
      }
      const std::uint64_t count = std::min(walk.left(), kRecordsMax - part.entries.count());
      walk.make_by_many(count, extend(&part.entries, count));
      part.common.add(walk.common());
    }
  }
  return map_->take_in(part.entries, part.common, log);
}

Status MapIntake::status() const { return base::copy_of(status_); }

}  // namespace breccia::hash
