#include "hash/engine/evict.h"

#include <algorithm>
#include <cmath>

#include "base/assert.h"
#include "base/memory.h"
#include "hash/engine/engine.h"
#include "record/record.h"

namespace breccia::hash {

namespace {

/// Rows that are scored, or deleted, at once: others wait to enter meanwhile.
constexpr std::uint64_t kRowsAtOnce = 16 << 10;
constexpr std::uint64_t kBytesAtOnce = 16 << 20;

/// Wherever in its record the value lies.
bool is_same_put(const std::byte* a, const std::byte* b) {
  return key_of(a) == key_of(b) && record::have_same_value(a, b);
}

/// work(part) for parts of at most `most` of them.
template <class Work>
Status in_parts(std::span<const std::uint64_t> all, std::size_t most, const Work& work) {
  for (std::size_t begin = 0; begin < all.size(); begin += most) {
    BRECCIA_TRY(work(all.subspan(begin, std::min(most, all.size() - begin))));
  }
  return Status::OK();
}

}  // namespace

Eviction::Eviction(Parts parts, LiveRows rows, const EvictOptions& options)
    : parts_(std::move(parts)),
      rows_(std::move(rows)),
      options_(options),
      rows_at_once_(
          std::clamp<std::uint64_t>(kBytesAtOnce / options.range.row_bytes, 1, kRowsAtOnce)) {}

Status Eviction::run() {
  std::vector<std::uint64_t> payload;
  do {
    payload.clear();
    BRECCIA_TRY(rows_.next(&payload));
    BRECCIA_TRY(in_parts(payload, rows_at_once_, [&](auto part) { return score(part); }));
  } while (!payload.empty());
  return drop_all(lowest());
}

/// Scores rows, and deletes those that are too low.
Status Eviction::score(std::span<const std::uint64_t> payload) {
  ids_.resize(payload.size());
  words_.resize(payload.size() * options_.range.row_bytes / sizeof(std::uint64_t));
  BRECCIA_TRY(rows_.copy(payload, ids_.data(), reinterpret_cast<char*>(words_.data())));
  std::vector<double> score(payload.size());
  BRECCIA_TRY(options_.score(ids_, words_.data(), score));
  if (std::any_of(score.begin(), score.end(), [](double one) { return std::isnan(one); })) {
    return Status::InvalidArgument("a row's score that is no number");
  }
  std::vector<std::uint64_t> low;
  for (std::size_t i = 0; i < payload.size(); ++i) {
    if (score[i] < options_.score_min) {
      low.push_back(payload[i]);
    } else if (options_.rows_max != EvictOptions::kAnyNumber) {
      others_.push_back({score[i], payload[i]});
    }
  }
  return drop_all(low);
}

/// Of the others as many as are too many, those with the lowest scores.
std::vector<std::uint64_t> Eviction::lowest() {
  std::vector<std::uint64_t> payload;
  if (others_.size() <= options_.rows_max) return payload;
  const auto end = others_.end() - static_cast<std::ptrdiff_t>(options_.rows_max);
  std::nth_element(others_.begin(), end, others_.end(),
                   [](const Scored& a, const Scored& b) { return a.score < b.score; });
  std::for_each(others_.begin(), end, [&](const Scored& one) { payload.push_back(one.payload); });
  std::sort(payload.begin(), payload.end());  // by their places, as they are read next
  return payload;
}

Status Eviction::drop_all(std::span<const std::uint64_t> payload) {
  return in_parts(payload, rows_at_once_, [&](auto part) { return drop(part); });
}

Status Eviction::drop(std::span<const std::uint64_t> payload) {
  parts_.help();
  WriteTicket ticket;
  ticket.durability = options_.write.durability;
  std::vector<std::byte> records;
  std::vector<std::uint64_t> left;
  {
    const wal::CommitQueue::Turn turn(parts_.commits);
    BRECCIA_TRY(find_unchanged(payload, &left));
    if (left.empty()) return Status::OK();
    write_deletions(left, &ticket, &records);
    BRECCIA_TRY(parts_.commits->enter_in_turn(
        &ticket, records.size(), static_cast<std::uint32_t>(left.size()), /*descriptors=*/0));
  }
  BRECCIA_TRY(
      write_frame(parts_.log, parts_.commits, wal::RecordsInOnePiece(records.data()), &ticket));
  parts_.note_written(left.size(), records.size());
  evicted_ += left.size();
  return tell(left);
}

/// Those whose keys still have the same row. It may lie elsewhere: the cleaner has copied it.
Status Eviction::find_unchanged(std::span<const std::uint64_t> payload,
                                std::vector<std::uint64_t>* left) const {
  const LiveRecords& then = rows_.records();
  Entries entries;
  for (const std::uint64_t one : payload) {
    entries.add(parts_.state->numbering().of(key_of(then.record(one))), one);
  }
  std::vector<std::uint64_t> newest(payload.size());
  BRECCIA_TRY(parts_.state->newest(entries, then.table(), newest.data()));
  const View now = parts_.state->view();
  for (std::size_t i = 0; i < payload.size(); ++i) {
    if (newest[i] == 0 || record::op_of(newest[i]) != record::Op::kPut) continue;
    if (newest[i] != payload[i] &&
        !is_same_put(then.record(payload[i]), now.table->at(newest[i]))) {
      continue;
    }
    left->push_back(payload[i]);
  }
  return Status::OK();
}

void Eviction::write_deletions(std::span<const std::uint64_t> payload, WriteTicket* ticket,
                               std::vector<std::byte>* records) const {
  const auto header =
      record::RecordHeader::make(record::Op::kDelete, sizeof(std::uint64_t), /*value_bytes=*/0);
  records->resize(payload.size() * header.record_bytes());
  std::uint64_t offset = 0;
  for (const std::uint64_t one : payload) {
    const Slice key = key_of(rows_.records().record(one));
    BRECCIA_ASSERT(key.size() == sizeof(std::uint64_t));
    record::write_record(records->data() + offset, header, key.data(), key.size(), nullptr, 0);
    ticket->entries.add(parts_.state->numbering().of(key),
                        offset | static_cast<std::uint64_t>(record::Op::kDelete));
    offset += header.record_bytes();
  }
}

Status Eviction::tell(std::span<const std::uint64_t> payload) {
  if (!options_.gone) return Status::OK();
  ids_.resize(payload.size());
  words_.resize(payload.size() * options_.range.row_bytes / sizeof(std::uint64_t));
  BRECCIA_TRY(rows_.copy(payload, ids_.data(), reinterpret_cast<char*>(words_.data())));
  options_.gone(ids_, words_.data());
  return Status::OK();
}

Status Engine::EvictRows(const EvictOptions& options, std::uint64_t* evicted) {
  *evicted = 0;
  return base::or_memory_limit([&] {
    BRECCIA_TRY(check_open());
    BRECCIA_TRY(check_row_bytes(options.range.row_bytes));
    if (!options.score) return Status::InvalidArgument("an eviction without a score");
    Eviction eviction(
        {.log = log_.get(),
         .commits = commits_.get(),
         .state = state_.get(),
         .help =
             [this, how = options.write] {
               if (may_wait(how)) cleaner_->help();
             },
         .note_written = [this](std::uint64_t records,
                                std::uint64_t bytes) { note_written(records, bytes); }},
        live_rows(options.range), options);
    const Status status = base::or_memory_limit([&] { return eviction.run(); });
    *evicted = eviction.evicted();
    return base::copy_of(status);
  });
}

}  // namespace breccia::hash
