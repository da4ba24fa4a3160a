#include "hash/engine/cleaner.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/memory.h"
#include "record/record.h"
#include "wal/read/walk.h"

namespace breccia::hash {

namespace {

/// Records that are looked at, and copied, at once: others wait to enter meanwhile.
constexpr std::uint64_t kRecordsAtOnce = 32 << 10;
constexpr std::uint64_t kBytesAtOnce = 16 << 20;
/// Log bytes behind which it is looked at again.
constexpr std::uint64_t kLookEveryBytes = 1 << 20;

}  // namespace

Cleaner::Cleaner(const Parts& parts, MarkFile mark, std::uint64_t store_id, const Room& room)
    : parts_(parts), mark_(std::move(mark)), store_id_(store_id), room_(room) {}

void Cleaner::start() {
  thread_ = std::thread([this] { work(); });
}

void Cleaner::stop() {
  stops_ = true;
  bell_.ring();
  if (thread_.joinable()) thread_.join();
}

void Cleaner::note_written(std::uint64_t records, std::uint64_t bytes) {
  records_ += records;
  bytes_ += bytes;
  // Every write comes here, and how long the log may be is not asked for nothing.
  const std::uint64_t end = parts_.log->end();
  if (end < look_at_) return;
  look_at_ = end + kLookEveryBytes;
  look();
}

/// Looks how long the log is: whether to clean, and whether who writes is to help.
void Cleaner::look() {
  const std::uint64_t bytes = parts_.log->bytes_in_use();
  const std::uint64_t most = log_bytes_max();
  is_far_too_long_ = bytes / 2 > most;
  if (bytes > most) bell_.ring();
}

std::uint64_t Cleaner::log_bytes_max() const {
  std::uint64_t keys = 0;
  parts_.state->look([&](const KeyMap& map) { keys = map.keys(); });
  const double record_bytes =
      static_cast<double>(bytes_) / static_cast<double>(std::max<std::uint64_t>(records_, 1));
  constexpr double kMost = 1ULL << 60;
  const double live = std::min(static_cast<double>(keys) * record_bytes * room_.factor, kMost);
  return std::max(measured_max_.load(), room_.bytes + static_cast<std::uint64_t>(live));
}

void Cleaner::help() {
  if (!is_far_too_long_) return;
  bool was_done = false;
  // What went wrong stops the store, or is tried again.
  clean_one(&was_done).PermitUncheckedError();
  look();
}

void Cleaner::work() {
  while (!stops_) {
    bell_.wait();
    bool was_done = true;
    while (was_done && !stops_ && parts_.log->bytes_in_use() > log_bytes_max()) {
      const Status status = clean_one(&was_done);
      if (status.ok()) continue;
      base::as_memory_allows(
          [&] { log(LogLevel::kWarning, "the log is not cleaned: " + status.ToString()); });
      break;
    }
  }
}

Status Cleaner::clean_one(bool* was_done) {
  *was_done = false;
  const std::lock_guard lock(mutex_);
  BRECCIA_TRY(parts_.fault->get());
  return base::or_memory_limit([&] {
    const wal::SegmentTablePtr table = parts_.log->table();
    const wal::Segment& oldest = *table->segments().front();
    // All that was written there must have happened.
    if (table->segments().size() < 2 || parts_.state->visible() < oldest.end()) return Status::OK();
    begin_pass_if_over(oldest);
    BRECCIA_TRY(clean_segment(oldest, *table));
    BRECCIA_TRY(release(oldest.end()));
    ++segments_;
    *was_done = true;
    return Status::OK();
  });
}

/// A pass goes through all that was there when it began, so it learns how much of that lives, where
/// sizes of keys and of records tell only what should. The log may take so many times that much; an
/// eighth more at least, or it would be cleaned again at once.
void Cleaner::begin_pass_if_over(const wal::Segment& oldest) {
  if (oldest.base < pass_.end) return;
  if (pass_.looked_at > 0) {
    const double share = static_cast<double>(pass_.copied) / static_cast<double>(pass_.looked_at);
    const double live = share * static_cast<double>(pass_.log_bytes);
    measured_max_ = static_cast<std::uint64_t>(live * std::max(room_.factor, 1.125));
  }
  pass_ = {parts_.log->end(), parts_.log->bytes_in_use(), 0, 0};
}

Status Cleaner::clean_segment(const wal::Segment& segment, const wal::SegmentTable& table) {
  Entries records;
  std::uint64_t bytes = 0;
  BRECCIA_TRY(wal::walk_frames(
      table, segment.base, segment.end(),
      [&](const wal::RecoveredFrame& frame, std::uint64_t /*end*/) {
        Status status;
        record::for_each_operation(
            frame.records, frame.record_count, [&](const record::Operation& one) {
              if (!status.ok()) return;
              records.add(parts_.state->numbering().of(one.key), payload_of(frame, one));
              bytes += one.bytes;
              pass_.looked_at += one.bytes;
              if (records.count() < kRecordsAtOnce && bytes < kBytesAtOnce) return;
              status = copy_newest(records, table);
              records.clear();
              bytes = 0;
            });
        return status;
      }));
  return copy_newest(records, table);
}

/// Those that are the newest of their keys, and no deletions.
Result<Entries> Cleaner::newest_of(const Entries& records, const wal::SegmentTable& table) const {
  std::vector<std::uint64_t> newest(records.count());
  BRECCIA_TRY(parts_.state->newest(records, table, newest.data()));
  Entries found;
  for (std::uint64_t i = 0; i < records.count(); ++i) {
    const std::uint64_t payload = records.payload[i];
    if (newest[i] != payload || record::op_of(payload) != record::Op::kPut) continue;
    found.add(records.number[i], payload);
  }
  return found;
}

Status Cleaner::copy_newest(const Entries& records, const wal::SegmentTable& table) {
  BRECCIA_TAKE(const Entries candidates, newest_of(records, table));
  if (candidates.count() == 0) return Status::OK();
  WriteTicket ticket;
  std::vector<std::byte> copies;
  {
    const wal::CommitQueue::Turn turn(parts_.commits);
    BRECCIA_TAKE(ticket.entries, newest_of(candidates, table));
    if (ticket.entries.count() == 0) return Status::OK();
    for (std::uint64_t& payload : ticket.entries.payload) {
      const std::byte* const record = table.at(record::position_of(payload));
      const record::RecordHeader header = record::record_header(record);
      payload = copies.size() | static_cast<std::uint64_t>(header.op());
      copies.insert(copies.end(), record, record + header.record_bytes());
      ticket.common.add(header);
      ticket.aligned = ticket.aligned || header.gap_words() > 0;
    }
    BRECCIA_TRY(parts_.commits->enter_in_turn(&ticket, copies.size(),
                                              static_cast<std::uint32_t>(ticket.entries.count()),
                                              /*descriptors=*/0));
  }
  BRECCIA_TRY(
      write_frame(parts_.log, parts_.commits, wal::RecordsInOnePiece(copies.data()), &ticket));
  copied_bytes_ += copies.size();
  pass_.copied += copies.size();
  return Status::OK();
}

/// Nothing below `end` is needed any more. Copies are as durable as what they were made of, before
/// that goes.
Status Cleaner::release(std::uint64_t end) {
  BRECCIA_TRY(parts_.commits->keep(/*sync=*/true));
  Status status = mark_.write({store_id_, end});
  if (status.ok()) status = parts_.log->release_below(end);
  if (!status.ok()) parts_.fault->set(base::Fault::Place::kLog, status);
  parts_.view->let_go(parts_.log->table());
  return status;
}

}  // namespace breccia::hash
