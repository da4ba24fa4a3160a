#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/prefetch.h"
#include "base/result.h"
#include "disagg/bucket.h"
#include "disagg/key_id.h"

namespace breccia::disagg {

/// The hash index of a server: buckets in memory that others read while this changes it, one bucket
/// at a time, each of which is whole before and behind.
///
/// A bucket that its chain does not need any more is used for another one, and a reader may come to
/// it all the same: it finds nothing there, and believes that only if no bucket on its way has
/// another version meanwhile.
///
/// Owner   the buckets outlive it.
/// Threads one; readers any, of other processes.
/// Source  [hstore] 4.1. Deviation: which key an entry is of is known here, so that a change reads
///         nobody's memory; chains become shorter again.
class HashTable {
 public:
  /// Shape   as many buckets as shape.buckets, at least 2^bucket_bits; they are written.
  HashTable(std::span<Bucket> buckets, const TableShape& shape);

  [[nodiscard]] std::optional<Location> find(const KeyId& id) const;
  /// Whether put() of this key makes a chain longer by a bucket.
  [[nodiscard]] bool wants_bucket(const KeyId& id) const {
    std::optional<Place> empty;
    return !place_of(id, &empty).has_value() && !empty.has_value();
  }
  /// What was there.
  /// Errors  MemoryLimit: there is no bucket for one more entry; nothing has changed.
  Result<std::optional<Location>> put(const KeyId& id, const Location& location);
  std::optional<Location> erase(const KeyId& id);

  /// Readers find no whole bucket where the chain of a key begins, until mend().
  void tear(const KeyId& id);
  void mend(const KeyId& id);

  /// The entries of the chain that begins in a bucket, behind those that are there.
  void append_chain(std::uint32_t first_bucket, std::vector<std::pair<KeyId, Slot>>* entries) const;

  /// Has in the cache before long where a key's chain begins.
  void prefetch(const KeyId& id) const { base::prefetch(&buckets_[shape_.first_bucket(id.hash)]); }
  /// When that is there: the same of where an entry goes that is put there, if its chain is no
  /// longer than two buckets.
  void prefetch_place(const KeyId& id) const;

  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] std::uint64_t free_buckets() const { return free_.size(); }

 private:
  struct Place {
    std::uint32_t bucket;
    std::uint32_t slot;
  };
  [[nodiscard]] std::optional<Place> place_of(const KeyId& id) const;
  [[nodiscard]] std::optional<Place> place_of(const KeyId& id, std::optional<Place>* empty) const;
  KeyId& id_at(const Place& place) { return ids_[place.bucket * Bucket::kSlots + place.slot]; }
  [[nodiscard]] const KeyId& id_at(const Place& place) const {
    return ids_[place.bucket * Bucket::kSlots + place.slot];
  }
  void set(const Place& place, Slot slot);
  void seal(std::uint32_t bucket, const Bucket& changed);
  void store(std::uint32_t bucket, const Bucket& next, std::uint16_t version,
             std::uint16_t checksum);
  void shorten(const KeyId& id, std::uint32_t bucket);

  const std::span<Bucket> buckets_;
  const TableShape shape_;
  static_assert(std::is_trivially_destructible_v<KeyId>);
  struct Free {
    void operator()(KeyId* ids) const { std::free(ids); }
  };
  const std::unique_ptr<KeyId[], Free> ids_;  // of all slots
  std::vector<std::uint32_t> free_;
  std::uint64_t size_ = 0;
};

}  // namespace breccia::disagg
