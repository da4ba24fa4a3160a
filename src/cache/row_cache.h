#pragma once

#include <breccia/family.h>
#include <breccia/status.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/thread_slot.h"
#include "pmem/page_memory.h"
#include "runs/tags.h"

namespace breccia::cache {

struct Set;

/// What a cache did so far, and what it holds.
struct CacheFigures {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t inserts = 0;
  std::uint64_t evictions = 0;    // entries that made room for others
  std::uint64_t erased = 0;       // entries that a flush replaced
  std::uint64_t skipped = 0;      // lookups and inserts that met a set under change
  std::uint64_t device_hits = 0;  // of the hits, those whose place a device found
  std::uint64_t bytes = 0;        // of keys and values held now, with their headers
};

/// Entries (key and value) of the LSM tree below, in a bounded piece of memory: a set-associative
/// cache that replaces what is used least often, by counters that age.
///
/// The tree has a version, which rises whenever readers may see other contents than before. An
/// entry bears the version at which it was read; a reader names the version that it reads at. An
/// answer is what the tree gives at the reader's version: docs/impl/cache.md has the proof.
/// Whoever changes the tree holds a Change from before the cache is purged until the tree's new
/// state is published.
///
/// Lookups take no lock and wait for nobody: a set under change is passed over. An insert that
/// meets one is left out. Only a purge waits, for an insert of one entry.
///
/// Bound   `bytes` of memory, in sets of kSetBytes. A set has kWays entries; one entry takes at
///         most kEntryBytesMax with its header.
/// Threads any.
/// Source  [hrocks] section 5. Deviations: the device holds tags, not entries, and no managed
///         memory is used; counters are halved as entries come; entries bear versions.
class RowCache {
 public:
  static constexpr std::uint64_t kSetBytes = 4096;
  static constexpr int kWays = runs::kTagWays;
  /// Words of a set that hold entries: a header of two words, the key, the value.
  static constexpr std::uint64_t kDataWords = 468;
  static constexpr std::uint64_t kEntryBytesMax = kDataWords / 2 * 8;
  static constexpr std::uint64_t kAdmitOneIn = 16;
  static constexpr std::uint32_t kWorthOneIn = 4;
  static constexpr std::uint32_t kAskOneIn = 4;
  /// Room that the value of a hit may take.
  using ValueBuffer = std::array<char, kEntryBytesMax>;

  /// A change of the tree's contents. From begin() to the end of its life nothing is inserted.
  /// Threads one owner.
  class Change {
   public:
    /// `cache` may be null: there is none.
    explicit Change(RowCache* cache) : cache_(cache) {}
    ~Change();
    Change(const Change&) = delete;
    Change& operator=(const Change&) = delete;

    /// Before the first purge, and before anybody can see the new contents.
    void begin();
    /// The version of the tree's new state; to be called where that state is published, one at a
    /// time. 0 without a cache.
    /// Shape   after begin() and all purges.
    [[nodiscard]] std::uint64_t publish();

   private:
    RowCache* const cache_;
    bool begun_ = false;
  };

  /// Errors  MemoryLimit: the system has no room.
  static Result<std::shared_ptr<RowCache>> make(std::uint64_t bytes);
  RowCache(pmem::PageMemory memory, std::uint64_t set_count);
  ~RowCache();
  RowCache(const RowCache&) = delete;
  RowCache& operator=(const RowCache&) = delete;

  /// The version of what was published last.
  [[nodiscard]] std::uint64_t version() const {
    return state_.load(std::memory_order_acquire) >> kChangeBits;
  }

  /// Where the entry of `key` would be. Every other call takes it, so that it is worked out once.
  [[nodiscard]] static std::uint64_t hash(FamilyId family, const Slice& key);
  /// Fetches what a lookup will read first.
  void prefetch(std::uint64_t hash) const;

  /// Fetches what an insert will write, behind a lookup of the same key that found nothing.
  void prefetch_insert(std::uint64_t hash) const;

  /// The value of `key` in the tree at `version`: its bytes, copied to *value. None: not here.
  [[nodiscard]] std::optional<std::uint32_t> find(std::uint64_t hash, FamilyId family,
                                                  const Slice& key, std::uint64_t version,
                                                  ValueBuffer* value);

  /// The same for a key whose place `ref` a search of a copy of the tags gave (runs/backend.h).
  /// None where the copy was old, too: something else is there now.
  [[nodiscard]] std::optional<std::uint32_t> find_at(std::uint32_t ref, FamilyId family,
                                                     const Slice& key, std::uint64_t version,
                                                     ValueBuffer* value);
  /// Fetches what find_at will read first.
  void prefetch_at(std::uint32_t ref) const;

  /// Whether one lookup, which waits for main memory once or twice for its answer, should ask, and
  /// insert what it did not find: always where one in kWorthOneIn of the thread's last ones found
  /// something; else one in kAskOneIn, which finds out when that changes.
  /// Cost    a few ns.
  [[nodiscard]] bool is_worth_asking();
  /// What came of asking.
  void note_asked(bool found);

  /// Whether an insert that comes now is worth its cost: always while there is room, and one in
  /// kAdmitOneIn, drawn by lot, where something else must go for it. What is read often comes
  /// again.
  /// Cost    a few ns; no set is looked at.
  [[nodiscard]] bool admits() const;

  /// Keeps what the tree gave for `key` at `version`. Left out: entries that are too large, a
  /// version that is not the present one, a tree under change.
  void insert(std::uint64_t hash, FamilyId family, const Slice& key, const Slice& value,
              std::uint64_t version);

  // ---- purges: only while a Change of the caller's has begun ----

  /// Erases the entries of these keys, by their hashes; others of the same hash may go with them.
  void erase(std::span<const std::uint64_t> hashes);
  /// Erases everything.
  void clear();
  /// Erases everything and takes nothing any more: the tree is changed past the store.
  void turn_off();

  [[nodiscard]] CacheFigures figures() const;
  /// Entries that came or went, so far.
  [[nodiscard]] std::uint64_t changes() const;
  /// Copies all tags to out[set_count() * kWays]: each as it is at some time meanwhile.
  void copy_tags(std::uint32_t* out) const;
  [[nodiscard]] std::uint64_t set_count() const { return set_count_; }
  /// Memory that it takes when it is full.
  [[nodiscard]] std::uint64_t bytes_max() const { return set_count_ * kSetBytes; }

 private:
  /// Figures of some of the threads, on a cache line of their own. Bytes that one counts another
  /// may take away, so only the sums say something.
  struct alignas(64) Tally {
    std::atomic<std::uint64_t> hits{0};
    std::atomic<std::uint64_t> misses{0};
    std::atomic<std::uint64_t> inserts{0};
    std::atomic<std::uint64_t> evictions{0};
    std::atomic<std::uint64_t> erased{0};
    std::atomic<std::uint64_t> skipped{0};
    std::atomic<std::uint64_t> device_hits{0};
    std::atomic<std::uint64_t> bytes{0};
  };
  /// What single lookups of one thread found lately, the older the less it counts. A thread without
  /// a slot always asks.
  struct alignas(64) Worth {
    std::atomic<std::uint32_t> asked{0};
    std::atomic<std::uint32_t> found{0};
    std::atomic<std::uint32_t> lookups{0};
  };
  /// Lookups of a thread before its luck is judged, and when half of them is forgotten.
  static constexpr std::uint32_t kJudgedMin = 64;
  static constexpr std::uint32_t kJudgedMax = 1024;
  static constexpr std::uint64_t kTallies = 64;
  static constexpr int kChangeBits = 16;
  static constexpr std::uint64_t kUsedBits = 64;
  static constexpr std::uint64_t kOff = ~std::uint64_t{0};

  [[nodiscard]] std::uint64_t set_of(std::uint64_t hash) const {
    return runs::set_of(hash, set_count_);
  }
  [[nodiscard]] Set& set_at(std::uint64_t index) const;
  /// False: no insert has come as far as the set, whose memory is best not touched.
  [[nodiscard]] bool is_used(std::uint64_t index) const;
  void note_used(std::uint64_t index);
  [[nodiscard]] Tally& own_tally() { return tallies_[base::thread_slot() % kTallies]; }
  struct Wanted {
    FamilyId family;
    Slice key;
    std::uint64_t version;
  };
  static std::optional<std::uint32_t> read_way(const Set& set, int way, const Wanted& wanted,
                                               std::uint64_t floor, ValueBuffer* value);
  /// False if readers at no version may use the entry.
  [[nodiscard]] bool is_live(std::uint64_t entry_version) const {
    return entry_version >= floor_.load(std::memory_order_acquire);
  }
  [[nodiscard]] bool is_full() const {
    constexpr std::uint64_t kPerSet = 4;
    return displaced_.load(std::memory_order_relaxed) >= kPerSet * set_count_;
  }
  void make_room(Set* set, std::uint64_t words, Tally* tally);
  static void remove(Set* set, int way, Tally* tally);

  pmem::PageMemory memory_;
  std::byte* const sets_;
  const std::uint64_t set_count_;
  /// A bit for each set: something was to be inserted. In a cache where the sets are not.
  std::vector<std::atomic<std::uint64_t>> used_;
  /// Version << kChangeBits | changes under way. One word, so that an insert sees at once that it
  /// is late.
  std::atomic<std::uint64_t> state_{std::uint64_t{1} << kChangeBits};
  std::atomic<std::uint64_t> floor_{0};  // entries of older versions are dead
  /// Live entries that had to go since there was nothing: it is full when these are some for each
  /// set. Not counted any further.
  std::atomic<std::uint64_t> displaced_{0};
  std::array<Tally, kTallies> tallies_;
  std::array<Worth, base::kThreadSlots> worth_;
};

}  // namespace breccia::cache
