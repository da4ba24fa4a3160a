#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/result.h"
#include "hash/refs.h"
#include "record/record.h"

/// What verbs on ids take and give: keys of 8 bytes whose columns lie in a backend's memory.

namespace breccia::hash {

/// Ids as a column: keys of 8 bytes each, as they lie.
/// Order   they are read behind what `stream` has to do by then, a cudaStream_t of the caller's;
///         null: the default stream. Elsewhere than on CUDA it says nothing.
struct IdsRef {
  const std::uint64_t* id = nullptr;
  std::uint64_t count = 0;
  void* stream = nullptr;
  /// Of begun lookups: where it lies how many they are, `count` at most; null: `count`.
  const std::uint64_t* asked = nullptr;
};

/// Where rows of ids go.
/// Shape   row[ids.count * row_bytes], found[ids.count]: 1 if there is one, else 0, and the row is
///         of no sense. row_bytes and the rows' address divide by 8.
struct RowsOutRef {
  IdsRef ids;
  char* row = nullptr;
  std::uint64_t row_bytes = 0;
  std::uint8_t* found = nullptr;
};

/// So many ids are few, if their rows are small: what a lookup of them takes is launches and waits,
/// not bytes.
inline constexpr std::uint64_t kFewIds = 16 << 10;
inline constexpr std::uint64_t kFewRowBytesMax = 4096;      // of a row
inline constexpr std::uint64_t kFewBytesMax = 16ULL << 20;  // of all of them
inline bool are_few(std::uint64_t ids, std::uint64_t row_bytes, std::uint64_t few_ids) {
  return ids <= few_ids && row_bytes <= kFewRowBytesMax && ids * row_bytes <= kFewBytesMax;
}

class Cache;

/// What a lookup of rows may use.
struct RowSources {
  Cache* cache = nullptr;  // which learns of what it had not; null: none
  /// The log that payloads point into, which outlasts the lookup.
  LogRef log;
  /// Of records that kernels may read there: puts of ids with such rows.
  record::RecordHeader logged{};
  /// So many ids are few, if their rows are small.
  std::uint64_t few_ids = kFewIds;
};

/// Where the numbers of requests that found nothing go.
/// Shape   found[count], count below 2^32; missing[count], of which the first *missing_count are
///         written, in ascending order.
/// Order   as IdsRef.
struct MissingListRef {
  const std::uint8_t* found = nullptr;
  std::uint64_t count = 0;
  std::uint32_t* missing = nullptr;
  std::uint64_t* missing_count = nullptr;
  void* stream = nullptr;
};

/// Copies rows of payloads from where they lie.
/// Shape   rows[payload.size() * row_bytes] and found[payload.size()], in memory of the host.
using Gather =
    std::function<void(std::span<const std::uint64_t> payload, char* rows, std::uint8_t* found)>;

class Table;

/// One call that looks up rows of ids: first where they are, then those that are not at hand. What
/// Backend::make_begun_lookup() makes differs in what it says there.
/// Threads one owner.
class RowLookup {
 public:
  RowLookup() = default;
  virtual ~RowLookup() = default;
  RowLookup(const RowLookup&) = delete;
  RowLookup& operator=(const RowLookup&) = delete;

  /// Looks the ids up in a table of payloads, and copies the rows that the cache has.
  /// Order   at one moment; done on return.
  /// Errors  as Backend::run_here.
  /// Cost    a wait; four kernels, or one for few ids.
  [[nodiscard]] virtual Status look(Table& table) = 0;
  /// Brings the other rows of puts from the host, and lets the cache have them.
  /// Shape   behind look().
  /// Errors  MemoryLimit; IOError: the device.
  /// Cost    8 bytes each to the host, and a row back, gathered a piece while the one before
  ///         crosses the bus; few ids: a wait.
  [[nodiscard]] virtual Status bring(const Gather& gather) = 0;
};

/// Copies of rows in a device's memory, by their ids and payloads: what a payload points to never
/// changes. It gives its memory back when other tenants of the device want it, and holds nothing
/// from then on.
/// Threads any.
class Cache {
 public:
  explicit Cache(std::uint64_t row_bytes) : row_bytes_(row_bytes) {}
  virtual ~Cache() = default;
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  [[nodiscard]] std::uint64_t row_bytes() const { return row_bytes_; }
  /// Rows that it has room for.
  [[nodiscard]] virtual std::uint64_t rows() const = 0;
  [[nodiscard]] virtual std::uint64_t bytes() const = 0;
  /// Gives all back.
  virtual void drop() = 0;
  /// Whether it has not given all back.
  [[nodiscard]] virtual bool is_there() const = 0;
  /// Ids that were looked up, and those that needed nothing else: it had their rows, or they have
  /// none.
  [[nodiscard]] virtual std::uint64_t lookups() const = 0;
  [[nodiscard]] virtual std::uint64_t hits() const = 0;
  /// Rows that are pinned, by each of those who do.
  [[nodiscard]] virtual std::uint64_t pinned() const = 0;

 private:
  const std::uint64_t row_bytes_;
};
using CachePtr = std::shared_ptr<Cache>;

/// Rows of a cache that keep their places until this ends, and the cache gives all back.
/// Threads one at a time.
class Pins {
 public:
  Pins() = default;
  virtual ~Pins() = default;
  Pins(const Pins&) = delete;
  Pins& operator=(const Pins&) = delete;

  /// Rows that are pinned.
  [[nodiscard]] virtual std::uint64_t rows() const = 0;
  /// Ids whose rows found no place, as often as they were asked for.
  [[nodiscard]] virtual std::uint64_t refused() const = 0;
};

/// Ids and rows as puts of a log, or ids as deletions, one behind the other, in memory of the host;
/// and what an index will have of them, in that of a backend.
/// Threads one owner.
class RowRecords {
 public:
  RowRecords(std::uint64_t count, const record::RecordHeader& header)
      : count_(count), header_(header) {}
  virtual ~RowRecords() = default;
  RowRecords(const RowRecords&) = delete;
  RowRecords& operator=(const RowRecords&) = delete;

  [[nodiscard]] std::uint64_t count() const { return count_; }
  /// Of each.
  [[nodiscard]] const record::RecordHeader& header() const { return header_; }
  [[nodiscard]] std::uint64_t bytes() const { return count_ * header_.record_bytes(); }
  /// Whether they are deletions.
  [[nodiscard]] bool deletes() const { return header_.op() == record::Op::kDelete; }
  [[nodiscard]] virtual const std::byte* data() const = 0;

 private:
  const std::uint64_t count_;
  const record::RecordHeader header_;
};

/// Rows of ids that become records.
/// Shape   ids.count rows of header.value_bytes, which divides by 8, as does their address. The
///         header, of all records, is that of a put; or of a deletion, and there are no rows.
struct RowsInRef {
  IdsRef ids;
  const char* row = nullptr;
  record::RecordHeader header{};
};

}  // namespace breccia::hash
