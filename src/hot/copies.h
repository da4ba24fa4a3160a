#pragma once

#include <breccia/status.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/epochs.h"
#include "base/prefetch.h"
#include "base/result.h"
#include "base/thread_slot.h"
#include "hot/model.h"

namespace breccia::hot {

/// What a cache has of a key.
enum class Copy {
  kNone,     // it does not know
  kValue,    // a value
  kDeleted,  // there is no such key
};

/// Copies of what a store below has of hot keys, whose writes all go through to it.
///
/// A bucket has a version and counts writes of its keys that are under way.
/// 1. A write begins: the key's copy goes, the write is counted, the version rises.
/// 2. The store below writes.
/// 3. It ends. Its value is the copy if no other write began in the bucket since, and none is under
///    way. The version rises.
/// 4. A lookup that misses leases the version, if no write is under way; what it finds below comes
///    in if the version is still that.
/// So a copy is what the store has, as long as it is there: docs/impl/hot.md. Of a store below that
/// tells when a batch happens, copies of what it writes stay: they have both values until then, and
/// one word says which.
///
/// Shape   hashes are spread over all 64 bits, and of one key there is one.
/// Threads any. Lookups take no lock.
/// Source  [kvcg] section 6, buckets of eight; leases as in memcache at Facebook (Nishtala et al.
///         2013). Deviation: writes go through (docs/impl/hot.md).
class Copies {
 public:
  /// A write that is under way.
  struct Write {
    std::uint64_t version;
  };
  /// What a lookup that missed needs to bring a copy.
  struct Lease {
    std::uint64_t version;
  };

  /// Room for `keys` and some more.
  /// Errors  MemoryLimit.
  static Result<std::unique_ptr<Copies>> make(std::uint64_t keys);
  ~Copies();
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  /// Whether the calling thread may: it has a slot of its own (base/thread_slot.h). Others find
  /// nothing.
  [[nodiscard]] static bool may_look() { return base::thread_slot() < base::kThreadSlots; }
  /// *value is replaced if there is one.
  [[nodiscard]] Copy find(std::uint64_t hash, const Slice& key, std::string* value) const {
    return find(hash, key, /*may_wait=*/true, value);
  }
  /// The same without copies that wait for a batch. What it finds of several keys is of one moment
  /// if their versions are the same before and behind it.
  [[nodiscard]] Copy find_settled(std::uint64_t hash, const Slice& key, std::string* value) const {
    return find(hash, key, /*may_wait=*/false, value);
  }
  /// Brings what it looks at first closer.
  void fetch(std::uint64_t hash) const {
    const auto* const bucket = reinterpret_cast<const char*>(&bucket_of(hash));
    for (std::size_t at = 0; at < sizeof(Bucket); at += 64) base::prefetch(bucket + at);
  }
  /// The bucket's version: what is found behind this call is what the store below has as long as
  /// the version is the same.
  [[nodiscard]] std::uint64_t version(std::uint64_t hash) const {
    return bucket_of(hash).version.load(std::memory_order_acquire);
  }

  [[nodiscard]] Write begin_write(std::uint64_t hash, const Slice& key);
  /// `value`: what the key has now; none: it was deleted.
  void end_write(std::uint64_t hash, const Slice& key, const Write& write,
                 const std::optional<Slice>& value);
  /// Ends one of which nobody knows what it did, or that needs no copy.
  void end_write(std::uint64_t hash, const Write& write);

  /// One of keys of which nobody knows which they are: it begins in each bucket, and all copies go.
  void begin_write_of_any();
  void end_write_of_any();

  /// None: a write is under way.
  [[nodiscard]] std::optional<Lease> lease(std::uint64_t hash) const;
  /// What was found below since: `value`, or none where there is no such key.
  void bring(std::uint64_t hash, const Slice& key, const Lease& lease,
             const std::optional<Slice>& value);

  /// Whether a batch has happened, for whoever finds a copy that it changes.
  struct Happening;
  struct Entry;
  /// What a batch leaves of a key (exchange.h).
  struct Change {
    Entry* entry = nullptr;   // the copy that is to be
    Entry* before = nullptr;  // the one that it stands before, since begin(); null: there was none
    Entry* gone = nullptr;    // what nobody finds any more, since end()
    bool may_come = false;    // where there was none
  };
  /// Null: there is no memory.
  [[nodiscard]] static Happening* make_happening();
  /// The moment: copies that wait for it are what they are to be.
  static void happen(Happening* happening);
  /// Frees one of which no change is between begin() and end().
  void forget(Happening* happening);
  /// Its entry is null: there is no memory.
  [[nodiscard]] static Change make_change(std::uint64_t hash, const Slice& key,
                                          const std::optional<Slice>& value, Happening* happening);
  /// Frees those that did not begin, or have ended.
  void discard(std::span<const Change> changes);
  /// Brings what begin() and end() look at closer.
  void fetch(const Change& change) const {
    // Others may have taken its entry since begin(), and freed it, but not the one before.
    const Entry* const entry = change.before == nullptr ? change.entry : change.before;
    if (entry != nullptr) fetch(hash_of(*entry));
  }
  /// From here on its copy waits for the batch, and nobody brings another one.
  /// Shape   no other change of the same key is between this and end().
  void begin(Change* change);
  /// Its copy waits for nothing any more: behind happen(), or because it will not happen.
  void end(Change* change, bool happens);

  /// Takes out what is not hot by this model.
  void evict(const Model& model);
  [[nodiscard]] std::uint64_t buckets() const { return buckets_.size(); }
  [[nodiscard]] std::uint64_t size() const { return size_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  static constexpr int kWays = 8;
  static std::uint64_t hash_of(const Entry& entry);
  struct alignas(64) Bucket {
    std::atomic<bool> is_locked{false};
    std::atomic<std::uint32_t> writes{0};  // under way
    std::atomic<std::uint64_t> version{0};
    std::atomic<std::uint32_t> tag[kWays] = {};
    std::atomic<Entry*> entry[kWays] = {};
  };
  class Lock;

  explicit Copies(std::uint64_t buckets) : buckets_(buckets) {}

  [[nodiscard]] Bucket& bucket_of(std::uint64_t hash) { return buckets_[place_of(hash)]; }
  [[nodiscard]] const Bucket& bucket_of(std::uint64_t hash) const {
    return buckets_[place_of(hash)];
  }
  [[nodiscard]] std::uint64_t place_of(std::uint64_t hash) const {
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(hash) * buckets_.size() >> 64);
  }
  static std::uint32_t tag_of(std::uint64_t hash) { return static_cast<std::uint32_t>(hash); }
  [[nodiscard]] Copy find(std::uint64_t hash, const Slice& key, bool may_wait,
                          std::string* value) const;
  static int way_of(const Bucket& bucket, std::uint64_t hash, const Slice& key);
  Entry* put(Bucket* bucket, Entry* entry);
  Entry* take(Bucket* bucket, int way);
  void forget(Entry* entry);
  /// `more`: modulo 2^64. Mostly none, and then all would wait for one word.
  void note_bytes(std::uint64_t more) {
    if (more != 0) bytes_.fetch_add(more, std::memory_order_relaxed);
  }
  static Entry* make_entry(std::uint64_t hash, const Slice& key, const std::optional<Slice>& value);

  std::vector<Bucket> buckets_;
  mutable base::Epochs epochs_;
  std::atomic<std::uint64_t> size_{0};
  std::atomic<std::uint64_t> bytes_{0};
};

}  // namespace breccia::hot
