#include "batch/range_columns.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "base/bytes.h"
#include "base/prefetch.h"
#include "batch/chunks.h"

namespace breccia::batch {

namespace {

/// Entries that are fetched ahead, as in range_entry(), but over the ends of ranges: most lie alone
/// in the log, and a short range has too few of them.
constexpr std::uint64_t kAhead = 16;

/// An entry's place: of a pair, or of a record.
struct Place {
  const std::byte* at;
  bool is_pair;

  static Place of(const RangeResult& range, std::uint64_t j) {
    BRECCIA_ASSERT(j < range.count);
    if (range.pairs == nullptr) return {range.records[j], false};
    return {reinterpret_cast<const std::byte*>(range.pairs + 2 * j), true};
  }
  [[nodiscard]] std::pair<Slice, Slice> entry() const {
    if (is_pair) {
      const auto* const pair = reinterpret_cast<const char*>(at);
      return {Slice(pair, 8), Slice(pair + 8, 8)};
    }
    const record::RecordHeader header = record::record_header(at);
    return {Slice(record::record_key(at), header.key_bytes()),
            Slice(record::record_value(at), header.value_bytes)};
  }
};

/// Ranges of a batch whose entries are numbered through.
template <class Offset>
struct Lists {
  const Requests& requests;
  std::uint64_t first;  // range
  std::uint64_t count;
  const Offset* offsets;

  [[nodiscard]] std::uint64_t at(std::uint64_t range) const {
    return static_cast<std::uint64_t>(offsets[range]);
  }
  [[nodiscard]] std::uint64_t entries() const { return at(count); }

  /// Calls visit(i, key, value) for entries [begin, end).
  template <class Visit>
  void for_each(std::uint64_t begin, std::uint64_t end, const Visit& visit) const {
    BRECCIA_ASSERT(begin < end && end <= entries());
    const Offset* const behind = std::upper_bound(
        offsets, offsets + count + 1, begin,
        [](std::uint64_t entry, Offset list) { return entry < static_cast<std::uint64_t>(list); });
    std::uint64_t range = static_cast<std::uint64_t>(behind - offsets) - 1;
    std::array<Place, kAhead> ahead;
    const auto fetch = [&](std::uint64_t i) {
      while (at(range + 1) <= i) ++range;
      const Place place = Place::of(requests.range_result(first + range), i - at(range));
      base::prefetch(place.at);
      base::prefetch(place.at + 64);
      ahead[i % kAhead] = place;
    };
    for (std::uint64_t i = begin; i < std::min(begin + kAhead, end); ++i) fetch(i);
    for (std::uint64_t i = begin; i < end; ++i) {
      const auto [key, value] = ahead[i % kAhead].entry();
      if (i + kAhead < end) fetch(i + kAhead);
      visit(i, key, value);
    }
  }
};

template <class Offset>
Status too_many(const char* what) {
  return Status::InvalidArgument(
      std::string(what) + ": more than " + std::to_string(std::numeric_limits<Offset>::max()),
      "take offsets of 64 bits, or fewer ranges at once");
}

/// Makes lengths, of which that of string i stands at i + 1, the offsets of their strings.
template <class Offset>
Status sum_up(Offset* offsets, std::uint64_t count, const char* what) {
  constexpr std::uint64_t kBytesMax = std::numeric_limits<Offset>::max();
  BRECCIA_ASSERT(offsets != nullptr && count <= kBytesMax);
  std::uint64_t bytes = 0;
  offsets[0] = 0;
  for (std::uint64_t i = 1; i <= count; ++i) {
    bytes += static_cast<std::make_unsigned_t<Offset>>(offsets[i]);
    if (bytes > kBytesMax) return too_many<Offset>(what);
    offsets[i] = static_cast<Offset>(bytes);
  }
  return Status::OK();
}

/// False if the string has no room of its length.
bool copy_to(const BytesRoom& room, std::uint64_t i, const Slice& string) {
  if (!room.is_wanted()) return true;
  if (room.bytes_at(i) != string.size()) return false;
  BRECCIA_ASSERT(string.size() == 0 || room.at(i) != nullptr);
  base::copy_inline(room.at(i), string.data(), string.size());
  return true;
}

}  // namespace

template <class Offset>
Status range_offsets(const Requests& requests, std::uint64_t first, std::uint64_t count,
                     Offset* lists, std::uint8_t* found) {
  BRECCIA_ASSERT(first <= requests.range_result_count() &&
                 count <= requests.range_result_count() - first);
  constexpr std::uint64_t kEntriesMax = std::numeric_limits<Offset>::max();
  std::uint64_t entries = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    lists[i] = static_cast<Offset>(entries);
    const RangeResult& result = requests.range_result(first + i);
    found[i] = result.code == Status::Code::kOk ? 1 : 0;
    entries += result.count;
    if (entries > kEntriesMax) return too_many<Offset>("entries");
  }
  lists[count] = static_cast<Offset>(entries);
  return Status::OK();
}

template <class Offset>
Status entry_offsets(const Requests& requests, std::uint64_t first, std::uint64_t count,
                     const Offset* lists, Offset* keys, Offset* values) {
  BRECCIA_ASSERT(first <= requests.range_result_count() &&
                 count <= requests.range_result_count() - first);
  const Lists<Offset> all{requests, first, count, lists};
  for_each_chunk(all.entries(), [&](std::uint64_t, std::uint64_t begin, std::uint64_t end) {
    all.for_each(begin, end, [&](std::uint64_t i, const Slice& key, const Slice& value) {
      if (keys != nullptr) keys[i + 1] = static_cast<Offset>(key.size());
      if (values != nullptr) values[i + 1] = static_cast<Offset>(value.size());
    });
  });
  if (keys != nullptr) BRECCIA_TRY(sum_up(keys, all.entries(), "bytes of keys"));
  return values == nullptr ? Status::OK() : sum_up(values, all.entries(), "bytes of values");
}

template <class Offset>
Status copy_entries(const Requests& requests, std::uint64_t first, std::uint64_t count,
                    const Offset* lists, const BytesRoom& keys, const BytesRoom& values) {
  BRECCIA_ASSERT(first <= requests.range_result_count() &&
                 count <= requests.range_result_count() - first);
  const Lists<Offset> all{requests, first, count, lists};
  if (all.entries() > 1 && (keys.overlaps() || values.overlaps())) {
    return Status::InvalidArgument("keys or values would overlap", "the stride is too short");
  }
  std::atomic<bool> all_fit{true};
  for_each_chunk(all.entries(), [&](std::uint64_t, std::uint64_t begin, std::uint64_t end) {
    bool fit = true;
    all.for_each(begin, end, [&](std::uint64_t i, const Slice& key, const Slice& value) {
      const bool key_fits = copy_to(keys, i, key);
      fit = copy_to(values, i, value) && key_fits && fit;
    });
    if (!fit) all_fit.store(false, std::memory_order_relaxed);
  });
  if (all_fit.load(std::memory_order_relaxed)) return Status::OK();
  return Status::InvalidArgument("an entry has another length than its room");
}

template Status range_offsets(const Requests&, std::uint64_t, std::uint64_t, std::int32_t*,
                              std::uint8_t*);
template Status range_offsets(const Requests&, std::uint64_t, std::uint64_t, std::int64_t*,
                              std::uint8_t*);
template Status entry_offsets(const Requests&, std::uint64_t, std::uint64_t, const std::int32_t*,
                              std::int32_t*, std::int32_t*);
template Status entry_offsets(const Requests&, std::uint64_t, std::uint64_t, const std::int64_t*,
                              std::int64_t*, std::int64_t*);
template Status copy_entries(const Requests&, std::uint64_t, std::uint64_t, const std::int32_t*,
                             const BytesRoom&, const BytesRoom&);
template Status copy_entries(const Requests&, std::uint64_t, std::uint64_t, const std::int64_t*,
                             const BytesRoom&, const BytesRoom&);

}  // namespace breccia::batch
