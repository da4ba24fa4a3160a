#include "hash/engine/answer.h"

#include <tbb/info.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "base/memory.h"
#include "base/parallel.h"
#include "base/prefetch.h"
#include "base/streamed_bytes.h"
#include "batch/answers.h"
#include "record/key_check.h"
#include "record/record.h"

namespace breccia::hash {

namespace {

constexpr std::uint64_t kReadsPerPart = 256;
/// Reads whose values together leave the caches before anybody looks at them.
constexpr std::uint64_t kStreamedReadsMin = 128 << 10;

std::uint64_t parts_of(std::uint64_t reads) {
  const auto cores = static_cast<std::uint64_t>(tbb::info::default_concurrency());
  return std::clamp<std::uint64_t>(reads / kReadsPerPart, 1, cores);
}

/// The bytes of a record that somebody will read.
struct Part {
  std::uint64_t offset;
  std::uint64_t bytes;
};

/// Records in the log, those that come next on their way to the caches.
class Records {
 public:
  static constexpr std::uint64_t kFetchedBytesMax = 3 * base::kLineBytes;
  static constexpr Part kFirstLines{0, kFetchedBytesMax};

  explicit Records(const Found& found) : Records(*found.table, found.payload, kFirstLines) {}
  /// `fetched`: of each record, as many lines of it as have kFetchedBytesMax.
  Records(const wal::SegmentTable& table, std::span<const std::uint64_t> payload,
          const Part& fetched)
      : places_(table.places()), payload_(payload), fetched_(fetched) {}

  void fetch_ahead(std::uint64_t i) const {
    if (i + kAhead >= payload_.size() || !is_put(payload_[i + kAhead])) return;
    const std::uint64_t position = record::position_of(payload_[i + kAhead]);
    // Images lie at lines, as their positions do.
    const std::uint64_t skipped = (position + fetched_.offset) % base::kLineBytes;
    const std::byte* const next = places_.at(position) + fetched_.offset - skipped;
    const std::uint64_t bytes = std::min(skipped + fetched_.bytes, kFetchedBytesMax);
    // Into the second cache: the first one would be full of what is needed only later.
    for (std::uint64_t at = 0; at < bytes; at += base::kLineBytes) {
      base::prefetch_far(next + at);
    }
  }
  /// Null: there is none, or a deletion.
  [[nodiscard]] const std::byte* at(std::uint64_t i) const {
    const std::uint64_t payload = payload_[i];
    return is_put(payload) ? places_.at(record::position_of(payload)) : nullptr;
  }

 private:
  static constexpr std::uint64_t kAhead = 48;

  static bool is_put(std::uint64_t payload) {
    return payload != 0 && record::op_of(payload) == record::Op::kPut;
  }

  const wal::SegmentTable::Places places_;
  const std::span<const std::uint64_t> payload_;
  const Part fetched_;
};

void answer_part(const Found& found, std::uint64_t begin, std::uint64_t end, batch::Reads* reads,
                 bool in_place, batch::ResultArena* arena) {
  batch::Answers answers(reads, arena);
  if (reads->count() >= kStreamedReadsMin) answers.stream_values();
  const Records records(found);
  record::KeyCheck check(reads->keys());
  for (std::uint64_t i = begin; i < end; ++i) {
    records.fetch_ahead(i);
    const std::byte* const record = check.of(i, records.at(i));
    if (record == nullptr) {
      answers.add(i, Status::Code::kNotFound);
      continue;
    }
    const Slice value(record::record_value(record), record::record_header(record).value_bytes);
    in_place ? answers.add_place(i, value) : answers.add_value(i, value);
  }
}

/// Where in a record a row of `row_bytes` begins; 0: it has none.
std::uint64_t row_offset(const std::byte* record, std::uint64_t row_bytes) {
  const record::RecordHeader header = record::record_header(record);
  return header.value_bytes == row_bytes ? header.value_offset() : 0;
}

/// gather_rows() of payloads [begin, end). offset(record): where its row begins; 0: it has none.
/// Both are copies: in a loop that stores bytes what they have stays in registers.
template <class Offset>
void gather(const Records records, std::uint64_t begin, std::uint64_t end, std::uint64_t row_bytes,
            const Offset offset, std::byte* to, std::uint8_t* found) {
  const auto each = [&](const auto& copy) {
    for (std::uint64_t i = begin; i < end; ++i) {
      records.fetch_ahead(i);
      const std::byte* const record = records.at(i);
      const std::uint64_t begins = record == nullptr ? 0 : offset(record);
      found[i] = begins != 0;
      copy(begins == 0 ? nullptr : record + begins);
    }
  };
  if (row_bytes % base::kLineBytes == 0 && base::bytes_before_line(to) == 0) {
    each([&](const std::byte* row) {
      if (row != nullptr) base::stream_lines(to, row, row_bytes);
      to += row_bytes;
    });
    return base::end_stream();
  }
  base::StreamedBytes stream(to);
  each([&](const std::byte* row) {
    std::byte* const room = stream.next(row_bytes);
    if (row != nullptr) std::memcpy(room, row, row_bytes);
  });
}

}  // namespace

Status prepare_answers(batch::Requests* requests) {
  if (requests->prepare_results(parts_of(requests->read_count()), /*with_bounds=*/false)) {
    return Status::OK();
  }
  return Status::MemoryLimit("no memory for the results");
}

void answer(const Found& found, batch::Requests* requests) {
  const bool in_place = requests->values_in_place();
  if (in_place) requests->hold(found.table);
  for (const auto& reads : requests->reads()) {
    const std::uint64_t n = reads->count();
    if (n == 0) continue;
    BRECCIA_ASSERT(reads->family() == kDefaultFamily && found.payload.size() == n);
    BRECCIA_ASSERT(found.table != nullptr);
    const std::uint64_t parts = std::min(parts_of(n), requests->arena_count());
    const auto run_part = [&](std::uint64_t part) {
      const std::uint64_t begin = n * part / parts;
      const std::uint64_t end = n * (part + 1) / parts;
      const Status status = base::or_memory_limit([&] {
        answer_part(found, begin, end, reads.get(), in_place, &requests->arena(part));
        return Status::OK();
      });
      if (status.ok()) return;
      // What a lookup says that found no memory: its code is all there is of a status.
      batch::Answers answers(reads.get(), /*arena=*/nullptr);
      for (std::uint64_t i = begin; i < end; ++i) answers.add(i, Status::Code::kAborted);
    };
    base::shared_or_alone(parts, run_part);
  }
  requests->deliver();
}

void gather_rows(const RowPlaces& places, std::span<const std::uint64_t> payload,
                 std::uint64_t row_bytes, char* rows, std::uint8_t* found) {
  const std::uint64_t n = payload.size();
  const std::uint64_t parts = parts_of(n);
  const auto gather_all = [&](const Part& fetched, const auto& offset) {
    const Records records(*places.table, payload, fetched);
    base::shared_or_alone(parts, [&](std::uint64_t part) {
      const std::uint64_t begin = n * part / parts;
      const std::uint64_t end = n * (part + 1) / parts;
      auto* const to = reinterpret_cast<std::byte*>(rows) + begin * row_bytes;
      gather(records, begin, end, row_bytes, offset, to, found);
    });
  };
  if (places.put.has_value() && places.put->value_bytes == row_bytes) {
    const std::uint64_t offset = places.put->value_offset();
    return gather_all({offset, row_bytes}, [offset, put = *places.put](const std::byte* record) {
      BRECCIA_INVARIANT(record::has_header(record, put));
      return offset;
    });
  }
  gather_all(Records::kFirstLines,
             [row_bytes](const std::byte* record) { return row_offset(record, row_bytes); });
}

bool is_unchanged(const record::KeyColumnsRef& keys, const Found& before, const Found& now) {
  BRECCIA_ASSERT(before.payload.size() == keys.count && now.payload.size() == keys.count);
  const Records then(before);
  const Records later(now);
  record::KeyCheck check(keys);
  for (std::uint64_t i = 0; i < keys.count; ++i) {
    if (before.payload[i] == now.payload[i]) continue;
    // It was written again, by the cleaner maybe, or an entry is of another key.
    const std::byte* const a = check.of(i, then.at(i));
    const std::byte* const b = check.of(i, later.at(i));
    if ((a == nullptr) != (b == nullptr)) return false;
    if (a != nullptr && !record::have_same_value(a, b)) return false;
  }
  return true;
}

Status OwnWrites::look(const batch::Writes& writes, const batch::Reads& reads) {
  return order_.build(&writes, &reads) ? Status::OK()
                                       : Status::MemoryLimit("no memory for the batch's order");
}

void OwnWrites::show(const batch::Writes& writes, std::uint64_t position, Found* found) const {
  const std::uint64_t write_count = writes.point_count();
  for (std::uint64_t i = 0; i < found->payload.size(); ++i) {
    const std::uint32_t before = order_.before(write_count + i);
    if (before == batch::KeyOrder::kNone) continue;
    // A lookup of the same key has its answer by now.
    found->payload[i] = before < write_count ? position + writes.offsets()[before]
                                             : found->payload[before - write_count];
  }
}

}  // namespace breccia::hash
