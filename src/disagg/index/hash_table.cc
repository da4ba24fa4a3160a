#include "disagg/index/hash_table.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <memory>
#include <new>

#include "base/assert.h"
#include "exec/host/host_memory.h"

namespace breccia::disagg {

namespace {

/// On huge pages, if there are such: keys are looked up in no order.
KeyId* make_ids(std::size_t count) {
  auto* const ids =
      static_cast<KeyId*>(exec::host::take_memory(count * sizeof(KeyId), alignof(KeyId)));
  if (ids == nullptr) throw std::bad_alloc();
  std::uninitialized_value_construct_n(ids, count);
  return ids;
}

/// The first slot without an entry; kSlots: there is none. All are looked at before one is chosen,
/// as nobody foresees which that is.
std::uint32_t first_empty(const Bucket& bucket) {
  std::uint32_t empty = 1U << Bucket::kSlots;
  for (std::uint32_t i = 0; i < Bucket::kSlots; ++i) empty |= (bucket.slot[i] == 0 ? 1U : 0U) << i;
  return static_cast<std::uint32_t>(std::countr_zero(empty));
}

}  // namespace

HashTable::HashTable(std::span<Bucket> buckets, const TableShape& shape)
    : buckets_(buckets), shape_(shape), ids_(make_ids(buckets.size() * Bucket::kSlots)) {
  BRECCIA_ASSERT(buckets.size() == shape.buckets && shape.bucket_bits < 32);
  const std::uint32_t first = 1U << shape.bucket_bits;
  BRECCIA_ASSERT(buckets.size() >= first);
  const Bucket empty;
  const std::uint16_t version = 1, checksum = empty.sum(version);
  for (std::uint32_t i = 0; i < buckets_.size(); ++i) store(i, empty, version, checksum);
  for (std::uint32_t i = shape.buckets; i-- > first;) free_.push_back(i);
}

std::optional<Location> HashTable::find(const KeyId& id) const {
  const auto place = place_of(id);
  if (!place.has_value()) return std::nullopt;
  return location_in(buckets_[place->bucket].slot[place->slot]);
}

/// Where the key's entry is. Otherwise in `empty`, which has none, there is the first place of its
/// chain that no entry has, if there is such a one.
std::optional<HashTable::Place> HashTable::place_of(const KeyId& id,
                                                    std::optional<Place>* empty) const {
  const std::uint32_t fingerprint = fingerprint_of(id.hash);
  std::uint32_t at = shape_.first_bucket(id.hash);
  do {
    const Bucket& bucket = buckets_[at];
    for (std::uint32_t i = 0; i < Bucket::kSlots; ++i) {
      const Slot slot = bucket.slot[i];
      if (slot == 0 && !empty->has_value()) *empty = Place{at, i};
      if (slot == 0 || fingerprint_in(slot) != fingerprint) continue;
      if (id_at({at, i}) == id) return Place{at, i};
    }
    at = bucket.next;
  } while (at != 0);
  return std::nullopt;
}

void HashTable::prefetch_place(const KeyId& id) const {
  const std::uint32_t first = shape_.first_bucket(id.hash);
  const Bucket& bucket = buckets_[first];
  if (const std::uint32_t empty = first_empty(bucket); empty < Bucket::kSlots) {
    base::prefetch(&id_at({first, empty}));
  } else if (bucket.next != 0) {
    base::prefetch(&buckets_[bucket.next]);
    base::prefetch(&id_at({bucket.next, 0}));
  }
}

std::optional<HashTable::Place> HashTable::place_of(const KeyId& id) const {
  std::optional<Place> empty;
  return place_of(id, &empty);
}

void HashTable::append_chain(std::uint32_t first_bucket,
                             std::vector<std::pair<KeyId, Slot>>* entries) const {
  BRECCIA_ASSERT(first_bucket < 1U << shape_.bucket_bits);
  std::uint32_t at = first_bucket;
  do {
    const Bucket& bucket = buckets_[at];
    for (std::uint32_t i = 0; i < Bucket::kSlots; ++i) {
      if (bucket.slot[i] != 0) entries->emplace_back(id_at({at, i}), bucket.slot[i]);
    }
    at = bucket.next;
  } while (at != 0);
}

Result<std::optional<Location>> HashTable::put(const KeyId& id, const Location& location) {
  const Slot slot = slot_of(fingerprint_of(id.hash), location);
  std::optional<Place> place;
  if (const auto there = place_of(id, &place)) {
    const Location before = location_in(buckets_[there->bucket].slot[there->slot]);
    set(*there, slot);
    return std::optional(before);
  }
  if (!place.has_value()) {
    if (free_.empty()) return Status::MemoryLimit("the hash index is full");
    place = Place{free_.back(), 0};
    free_.pop_back();
    std::uint32_t last = shape_.first_bucket(id.hash);
    while (buckets_[last].next != 0) last = buckets_[last].next;
    // It has its entry before anybody comes to it.
    id_at(*place) = id;
    set(*place, slot);
    Bucket longer = buckets_[last];
    longer.next = place->bucket;
    seal(last, longer);
  } else {
    id_at(*place) = id;
    set(*place, slot);
  }
  ++size_;
  return std::optional<Location>();
}

std::optional<Location> HashTable::erase(const KeyId& id) {
  const auto place = place_of(id);
  if (!place.has_value()) return std::nullopt;
  const Location before = location_in(buckets_[place->bucket].slot[place->slot]);
  set(*place, 0);
  id_at(*place) = KeyId();
  --size_;
  shorten(id, place->bucket);
  return before;
}

/// Takes a bucket that has become empty out of its chain.
void HashTable::shorten(const KeyId& id, std::uint32_t bucket) {
  const std::uint32_t first = shape_.first_bucket(id.hash);
  const auto& slots = buckets_[bucket].slot;
  if (bucket == first || std::any_of(slots.begin(), slots.end(), [](Slot s) { return s != 0; })) {
    return;
  }
  std::uint32_t before = first;
  while (buckets_[before].next != bucket) before = buckets_[before].next;
  Bucket shorter = buckets_[before];
  shorter.next = buckets_[bucket].next;
  seal(before, shorter);
  // Behind that: who is on the way through it sees that the bucket before it has changed.
  seal(bucket, Bucket{.version = buckets_[bucket].version});
  free_.push_back(bucket);
}

void HashTable::tear(const KeyId& id) {
  const std::uint32_t first = shape_.first_bucket(id.hash);
  const Bucket& whole = buckets_[first];
  const auto version = static_cast<std::uint16_t>(whole.version + 1);
  store(first, whole, version, static_cast<std::uint16_t>(~whole.sum(version)));
}

void HashTable::mend(const KeyId& id) {
  const std::uint32_t first = shape_.first_bucket(id.hash);
  seal(first, buckets_[first]);
}

void HashTable::set(const Place& place, Slot slot) {
  Bucket changed = buckets_[place.bucket];
  changed.slot[place.slot] = slot;
  seal(place.bucket, changed);
}

void HashTable::seal(std::uint32_t bucket, const Bucket& changed) {
  const auto version = static_cast<std::uint16_t>(changed.version + 1);
  store(bucket, changed, version, changed.sum(version));
}

/// Word by word, each whole, where the computer has such: between them a reader sees what is no
/// bucket. The first one is made in a register: a word that was written in parts can only be read
/// when all that was written before has gone to the cache, which waits for a miss or two.
void HashTable::store(std::uint32_t bucket, const Bucket& next, std::uint16_t version,
                      std::uint16_t checksum) {
  auto* const to = reinterpret_cast<std::uint64_t*>(&buckets_[bucket]);
  const auto store_word = [](std::uint64_t* at, std::uint64_t word) {
    std::atomic_ref<std::uint64_t>(*at).store(word, std::memory_order_release);
  };
  store_word(to, next.head(version, checksum));
  for (std::size_t i = 0; i < Bucket::kSlots; ++i) store_word(to + 1 + i, next.slot[i]);
}

}  // namespace breccia::disagg
