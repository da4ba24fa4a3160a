#include "hot/copies.h"

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "base/assert.h"
#include "base/memory.h"

namespace breccia::hot {

namespace {

/// Of eight places, so that hardly any bucket is full.
constexpr std::uint64_t kKeysOfBucket = 3;

}  // namespace

struct Copies::Happening {
  std::atomic<bool> has_happened{false};
};

/// A key and what it has, which never change.
struct Copies::Entry {
  /// What the key has until something happens; null: it has, or was never waited for.
  std::atomic<Entry*> before{nullptr};
  const Happening* happening;
  std::uint64_t hash;
  std::uint32_t key_bytes;
  std::uint32_t value_bytes;
  bool is_deleted;

  [[nodiscard]] char* data() { return reinterpret_cast<char*>(this + 1); }
  [[nodiscard]] const char* data() const { return reinterpret_cast<const char*>(this + 1); }
  [[nodiscard]] Slice key() const { return {data(), key_bytes}; }
  [[nodiscard]] Slice value() const { return {data() + key_bytes, value_bytes}; }
  [[nodiscard]] std::uint64_t bytes() const { return sizeof *this + key_bytes + value_bytes; }
};

/// The right to change a bucket. Held for some stores.
class Copies::Lock {
 public:
  explicit Lock(Bucket& bucket) : bucket_(bucket) {
    constexpr int kSpins = 100;
    for (int spins = 0; bucket_.is_locked.exchange(true, std::memory_order_acquire); ++spins) {
      while (bucket_.is_locked.load(std::memory_order_relaxed)) {
        if (++spins > kSpins) std::this_thread::yield();
      }
    }
  }
  ~Lock() { bucket_.is_locked.store(false, std::memory_order_release); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  Bucket& bucket_;
};

Result<std::unique_ptr<Copies>> Copies::make(std::uint64_t keys) {
  std::unique_ptr<Copies> copies;
  base::as_memory_allows(
      [&] { copies = std::unique_ptr<Copies>(new Copies(keys / kKeysOfBucket + 1)); });
  if (copies == nullptr) return Status::MemoryLimit("no memory for hot keys");
  return copies;
}

Copies::~Copies() {
  for (Bucket& bucket : buckets_) {
    BRECCIA_ASSERT(bucket.writes.load() == 0);
    for (std::atomic<Entry*>& entry : bucket.entry) std::free(entry.load());
  }
}

Copy Copies::find(std::uint64_t hash, const Slice& key, bool may_wait, std::string* value) const {
  const base::Epochs::Stay stay(epochs_);
  if (!stay.may_look()) return Copy::kNone;
  const Bucket& bucket = bucket_of(hash);
  const int way = way_of(bucket, hash, key);
  if (way < 0) return Copy::kNone;
  const Entry* entry = bucket.entry[way].load();
  // Since it was looked at, another may have come.
  if (entry == nullptr || entry->hash != hash || entry->key() != key) return Copy::kNone;
  const Entry* const before = entry->before.load(std::memory_order_acquire);
  if (before != nullptr && !may_wait) return Copy::kNone;
  if (before != nullptr && !entry->happening->has_happened.load()) entry = before;
  if (entry->is_deleted) return Copy::kDeleted;
  value->assign(entry->value().data(), entry->value().size());
  return Copy::kValue;
}

/// The place of a key; -1: there is none. The caller stays, or has the lock.
int Copies::way_of(const Bucket& bucket, std::uint64_t hash, const Slice& key) {
  for (int way = 0; way < kWays; ++way) {
    if (bucket.tag[way].load(std::memory_order_relaxed) != tag_of(hash)) continue;
    const Entry* const entry = bucket.entry[way].load();
    if (entry != nullptr && entry->hash == hash && entry->key() == key) return way;
  }
  return -1;
}

Copies::Write Copies::begin_write(std::uint64_t hash, const Slice& key) {
  Bucket& bucket = bucket_of(hash);
  Entry* gone = nullptr;
  Write write{};
  {
    const Lock lock(bucket);
    const int way = way_of(bucket, hash, key);
    if (way >= 0) gone = take(&bucket, way);
    bucket.writes.fetch_add(1, std::memory_order_relaxed);
    // Behind that: who finds a copy by a version has it until the version rises.
    write.version = bucket.version.load(std::memory_order_relaxed) + 1;
    bucket.version.store(write.version, std::memory_order_release);
  }
  forget(gone);
  return write;
}

void Copies::end_write(std::uint64_t hash, const Slice& key, const Write& write,
                       const std::optional<Slice>& value) {
  Entry* entry = make_entry(hash, key, value);
  Entry* gone = entry;
  Bucket& bucket = bucket_of(hash);
  {
    const Lock lock(bucket);
    const std::uint64_t version = bucket.version.load(std::memory_order_relaxed);
    const std::uint32_t others = bucket.writes.fetch_sub(1, std::memory_order_relaxed) - 1;
    BRECCIA_ASSERT(version >= write.version);
    if (entry != nullptr && others == 0 && version == write.version) gone = put(&bucket, entry);
    bucket.version.store(version + 1, std::memory_order_release);
  }
  forget(gone);
}

void Copies::end_write(std::uint64_t hash, const Write& write) {
  Bucket& bucket = bucket_of(hash);
  const Lock lock(bucket);
  BRECCIA_ASSERT(bucket.version.load(std::memory_order_relaxed) >= write.version);
  bucket.writes.fetch_sub(1, std::memory_order_relaxed);
  bucket.version.fetch_add(1, std::memory_order_release);
}

void Copies::begin_write_of_any() {
  for (Bucket& bucket : buckets_) {
    Entry* gone[kWays] = {};
    {
      const Lock lock(bucket);
      for (int way = 0; way < kWays; ++way) gone[way] = take(&bucket, way);
      bucket.writes.fetch_add(1, std::memory_order_relaxed);
      bucket.version.fetch_add(1, std::memory_order_release);
    }
    for (Entry* const entry : gone) forget(entry);
  }
}

void Copies::end_write_of_any() {
  for (Bucket& bucket : buckets_) {
    const Lock lock(bucket);
    bucket.writes.fetch_sub(1, std::memory_order_relaxed);
    bucket.version.fetch_add(1, std::memory_order_release);
  }
}

std::optional<Copies::Lease> Copies::lease(std::uint64_t hash) const {
  const Bucket& bucket = bucket_of(hash);
  const std::uint64_t version = bucket.version.load(std::memory_order_acquire);
  // A write that begins behind this look raises the version, so the lease is of no use.
  if (bucket.writes.load(std::memory_order_acquire) > 0) return std::nullopt;
  return Lease{version};
}

void Copies::bring(std::uint64_t hash, const Slice& key, const Lease& lease,
                   const std::optional<Slice>& value) {
  Bucket& bucket = bucket_of(hash);
  if (bucket.version.load(std::memory_order_acquire) != lease.version) return;
  Entry* const entry = make_entry(hash, key, value);
  if (entry == nullptr) return;
  Entry* gone = entry;
  {
    const Lock lock(bucket);
    const bool is_same = bucket.version.load(std::memory_order_relaxed) == lease.version &&
                         bucket.writes.load(std::memory_order_relaxed) == 0;
    if (is_same) gone = put(&bucket, entry);
  }
  forget(gone);
}

void Copies::evict(const Model& model) {
  for (Bucket& bucket : buckets_) {
    Entry* gone[kWays] = {};
    {
      const Lock lock(bucket);
      for (int way = 0; way < kWays; ++way) {
        const Entry* const entry = bucket.entry[way].load(std::memory_order_relaxed);
        if (entry == nullptr || model.is_hot(entry->hash)) continue;
        gone[way] = take(&bucket, way);
      }
    }
    for (Entry* const entry : gone) forget(entry);
  }
}

// ---- changes that wait for a batch -------------------------------------------------------------

Copies::Happening* Copies::make_happening() { return new (std::nothrow) Happening; }

void Copies::happen(Happening* happening) { happening->has_happened.store(true); }

void Copies::forget(Happening* happening) {
  if (happening == nullptr) return;
  epochs_.retire(happening, [](void* block) { delete static_cast<Happening*>(block); });
}

Copies::Change Copies::make_change(std::uint64_t hash, const Slice& key,
                                   const std::optional<Slice>& value, Happening* happening) {
  BRECCIA_ASSERT(happening != nullptr);
  Change change;
  change.entry = make_entry(hash, key, value);
  if (change.entry != nullptr) change.entry->happening = happening;
  return change;
}

std::uint64_t Copies::hash_of(const Entry& entry) { return entry.hash; }

void Copies::discard(std::span<const Change> changes) {
  std::vector<void*> gone;
  base::as_memory_allows([&] { gone.reserve(changes.size()); });
  for (const Change& change : changes) {
    BRECCIA_ASSERT(change.before == nullptr);
    BRECCIA_ASSERT(change.entry == nullptr || change.gone == nullptr);
    std::free(change.entry);
    if (gone.size() == gone.capacity()) {
      forget(change.gone);
    } else if (change.gone != nullptr) {
      gone.push_back(change.gone);
    }
  }
  if (!gone.empty()) epochs_.retire(gone, [](void* entry) { std::free(entry); });
}

void Copies::begin(Change* change) {
  Entry* const entry = change->entry;
  Bucket& bucket = bucket_of(entry->hash);
  const Lock lock(bucket);
  const int way = way_of(bucket, entry->hash, entry->key());
  if (way >= 0) {
    change->before = bucket.entry[way].load(std::memory_order_relaxed);
    BRECCIA_ASSERT(change->before->before.load() == nullptr);
    entry->before.store(change->before, std::memory_order_relaxed);
    bucket.entry[way].exchange(entry);
    note_bytes(entry->bytes() - change->before->bytes());
  }
  // Who has leased it may have found what is no longer so when it comes.
  bucket.version.fetch_add(1, std::memory_order_release);
}

/// Whoever took the entry meanwhile has freed it, so it is looked at only where it lies.
void Copies::end(Change* change, bool happens) {
  Entry* const entry = std::exchange(change->entry, nullptr);
  Entry* const before = std::exchange(change->before, nullptr);
  Bucket& bucket = bucket_of(before == nullptr ? entry->hash : before->hash);
  const Lock lock(bucket);
  if (before == nullptr) {
    // Where another write is under way nobody knows which one is the last.
    const bool comes = happens && change->may_come && bucket.writes.load() == 0;
    change->gone = comes ? put(&bucket, entry) : entry;
  } else {
    change->gone = before;
    for (std::atomic<Entry*>& place : bucket.entry) {
      if (place.load() != entry || entry->before.load() != before) continue;
      if (happens) {
        entry->before.store(nullptr, std::memory_order_release);
        continue;
      }
      place.exchange(before);
      note_bytes(before->bytes() - entry->bytes());
      change->gone = entry;
    }
  }
  // Who has seen what was before asks again.
  bucket.version.fetch_add(1, std::memory_order_release);
}

/// Puts an entry in its key's place, an empty one, or any. Returns what was there.
Copies::Entry* Copies::put(Bucket* bucket, Entry* entry) {
  int way = way_of(*bucket, entry->hash, entry->key());
  for (int i = 0; way < 0 && i < kWays; ++i) {
    if (bucket->entry[i].load(std::memory_order_relaxed) == nullptr) way = i;
  }
  if (way < 0) way = static_cast<int>(entry->hash >> 32 & (kWays - 1));
  Entry* const gone = take(bucket, way);
  // Who finds a tag beside another's entry compares keys.
  bucket->tag[way].store(tag_of(entry->hash), std::memory_order_relaxed);
  bucket->entry[way].store(entry, std::memory_order_release);
  size_.fetch_add(1, std::memory_order_relaxed);
  bytes_.fetch_add(entry->bytes(), std::memory_order_relaxed);
  return gone;
}

/// Empties a place.
Copies::Entry* Copies::take(Bucket* bucket, int way) {
  Entry* const gone = bucket->entry[way].exchange(nullptr);  // for base/epochs.h
  if (gone == nullptr) return nullptr;
  size_.fetch_sub(1, std::memory_order_relaxed);
  bytes_.fetch_sub(gone->bytes(), std::memory_order_relaxed);
  return gone;
}

/// Frees what is in no place any more, when nobody looks at it.
void Copies::forget(Entry* entry) {
  if (entry == nullptr) return;
  epochs_.retire(entry, [](void* block) { std::free(block); });
}

/// Null: there is no memory, so there is no copy.
Copies::Entry* Copies::make_entry(std::uint64_t hash, const Slice& key,
                                  const std::optional<Slice>& value) {
  const std::uint64_t value_bytes = value.has_value() ? value->size() : 0;
  void* const memory = std::malloc(sizeof(Entry) + key.size() + value_bytes);
  if (memory == nullptr) return nullptr;
  auto* const entry = new (memory) Entry{{nullptr},
                                         nullptr,
                                         hash,
                                         static_cast<std::uint32_t>(key.size()),
                                         static_cast<std::uint32_t>(value_bytes),
                                         !value.has_value()};
  std::memcpy(entry->data(), key.data(), key.size());
  if (value_bytes > 0) std::memcpy(entry->data() + key.size(), value->data(), value_bytes);
  return entry;
}

}  // namespace breccia::hot
