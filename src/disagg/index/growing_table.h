#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/result.h"
#include "disagg/index/hash_table.h"
#include "disagg/key_id.h"
#include "disagg/location.h"
#include "fabric/port.h"

namespace breccia::disagg {

/// The hash index in a region of a server's, which gets twice as large when it is well filled,
/// while it is read and written.
///
/// A larger table is made beside, then chains are copied a few at a time, while all that changes
/// goes to both; when all are there, it is the table that new readers are told of. Who read the one
/// before may do so until the time is over that it was told: up to then changes go there, too.
///
/// Owner   the port outlives it.
/// Threads the port's; readers any, of other processes. A new table is filled with nothing by a
///         thread of its own.
/// Source  [hstore] has a table of one size.
class GrowingTable {
 public:
  static constexpr std::uint32_t kBitsMax = 30;

  struct Options {
    std::uint32_t bucket_bits = 16;        // it has 2^so many buckets at first
    std::uint32_t more_buckets = 1 << 14;  // by which chains become longer, at first
    std::uint32_t bucket_bits_max = 16;    // and not more than that at last
    std::uint32_t full_percent = 70;       // of the first buckets' slots; beyond that it grows
    std::uint32_t chains_at_once = 256;    // that are copied in a turn
    bool makes_aside = true;  // by a thread; tests that want the same steps each time do without
  };

  /// Errors  MemoryLimit; those of the port.
  static Result<std::unique_ptr<GrowingTable>> make(fabric::Port* port, const Options& options);
  ~GrowingTable() = default;
  GrowingTable(const GrowingTable&) = delete;
  GrowingTable& operator=(const GrowingTable&) = delete;

  /// Goes on with growing. Who was told of the table as it is now may read it until `told_until`;
  /// 0: nobody reads it.
  void tend(fabric::TimeUs told_until);
  /// When tend() has something to do.
  [[nodiscard]] fabric::TimeUs wake() const;

  [[nodiscard]] const TableShape& shape() const { return now_->shape; }
  [[nodiscard]] fabric::RegionName region() const { return now_->region->name(); }
  /// Another one with each table.
  [[nodiscard]] std::uint64_t number() const { return number_; }
  [[nodiscard]] std::uint64_t size() const { return now_->table->size(); }
  [[nodiscard]] std::uint64_t free_buckets() const { return now_->table->free_buckets(); }
  /// Whether there will be more room before long.
  [[nodiscard]] bool will_grow() const;

  [[nodiscard]] std::optional<Location> find(const KeyId& id) const {
    return now_->table->find(id);
  }
  [[nodiscard]] bool wants_bucket(const KeyId& id) const { return now_->table->wants_bucket(id); }
  /// Whether put() finds room also in the table before; if not, it will when that is gone.
  [[nodiscard]] bool takes(const KeyId& id) const;
  /// What was there.
  /// Shape   takes(id).
  /// Errors  MemoryLimit: there is no room; nothing has changed.
  Result<std::optional<Location>> put(const KeyId& id, const Location& location);
  std::optional<Location> erase(const KeyId& id);
  void prefetch(const KeyId& id) const { now_->table->prefetch(id); }
  void prefetch_place(const KeyId& id) const { now_->table->prefetch_place(id); }

  /// Entries of whole chains, those that begin at `position` among all hashes, or behind it, until
  /// there are `entries_max` or more, or many chains; returns the position behind them, 0: there
  /// are no more.
  std::uint64_t append_chains(std::uint64_t position, std::size_t entries_max,
                              std::vector<std::pair<KeyId, Slot>>* entries) const;
  /// Readers of the table as it is now see it; those of the one before hear of this one.
  void set_watermark(std::uint64_t sequence);

 private:
  struct One {
    TableShape shape;
    std::unique_ptr<fabric::Region> region;
    std::unique_ptr<HashTable> table;
  };

  class Torn;

  GrowingTable(fabric::Port* port, const Options& options) : port_(port), options_(options) {}

  Result<One> make_one(const TableShape& shape) const;
  static std::unique_ptr<HashTable> fill(const One& one);
  [[nodiscard]] bool is_to_grow() const;
  Status begin();
  void copy(std::size_t chains);
  void give_up();
  void change_over(fabric::TimeUs told_until);

  fabric::Port* const port_;
  const Options options_;
  std::optional<One> now_;
  std::optional<One> next_;  // that is being made, and copied to
  std::future<std::unique_ptr<HashTable>> making_;
  std::uint32_t copied_ = 0;   // chains of now_ that next_ has
  std::optional<One> before_;  // that may be read yet
  fabric::TimeUs before_until_ = 0;
  fabric::TimeUs begin_again_ = 0;  // it could not be made, or not be filled
  std::uint64_t number_ = 1;
  std::uint64_t watermark_ = 0;
};

}  // namespace breccia::disagg
