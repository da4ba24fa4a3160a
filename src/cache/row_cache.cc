#include "cache/row_cache.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <thread>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/prefetch.h"
#include "base/random.h"
#include "record/key_hash.h"

/// A set, its lock and its entries.
///
/// The lock is a sequence: even while nobody changes the set, one up while somebody does, two up
/// afterwards. A reader notes it, reads, and looks again. Every word that a reader takes from
/// `data` is read with acquire and written with release order, so a reader that got anything of a
/// later change also sees, when it looks again, that the sequence moved. Tags and places need no
/// order: what they lead to says itself which key it is of.
///
/// Entries lie in `data` one behind the other without gaps, in the order in which they came:
/// [version] [family << 32 | key bytes << 16 | value bytes] [key words] [value words].

namespace breccia::cache {

struct Set {
  std::atomic<std::uint64_t> sequence;
  std::atomic<std::uint32_t> used;                  // words of data
  std::atomic<std::uint32_t> aging;                 // evictions so far
  std::atomic<std::uint32_t> tag[RowCache::kWays];  // 0: the way is free
  std::atomic<std::uint32_t> uses[RowCache::kWays];
  std::atomic<std::uint16_t> place[RowCache::kWays];  // in data
  std::atomic<std::uint64_t> data[RowCache::kDataWords];
};
static_assert(sizeof(Set) <= RowCache::kSetBytes);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

namespace {

constexpr std::uint64_t kHeaderWords = 2;
constexpr std::uint64_t kHugeBytesMax = 64 << 20;
constexpr auto kRelaxed = std::memory_order_relaxed;

constexpr std::uint64_t words_of(std::uint64_t bytes) { return (bytes + 7) / 8; }

/// The second word of an entry.
struct Shape {
  FamilyId family;
  std::uint32_t key_bytes;
  std::uint32_t value_bytes;

  static Shape of(std::uint64_t word) {
    return {static_cast<FamilyId>(word >> 32), static_cast<std::uint32_t>(word >> 16 & 0xffff),
            static_cast<std::uint32_t>(word & 0xffff)};
  }
  [[nodiscard]] std::uint64_t word() const {
    return std::uint64_t{family} << 32 | std::uint64_t{key_bytes} << 16 | value_bytes;
  }
  [[nodiscard]] std::uint64_t words() const {
    return kHeaderWords + words_of(key_bytes) + words_of(value_bytes);
  }
};
static_assert(RowCache::kEntryBytesMax < 1 << 16);

using runs::tag_of;

/// Word `i` of `bytes`, zero-padded.
std::uint64_t word_at(const Slice& bytes, std::uint64_t i) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes.data() + 8 * i, std::min<std::uint64_t>(8, bytes.size() - 8 * i));
  return word;
}

std::uint64_t load(const Set& set, std::uint64_t i) {
  return set.data[i].load(std::memory_order_acquire);
}
void store(Set* set, std::uint64_t i, std::uint64_t word) {
  set->data[i].store(word, std::memory_order_release);
}

void store_bytes(Set* set, std::uint64_t at, const Slice& bytes) {
  for (std::uint64_t i = 0; i < words_of(bytes.size()); ++i) {
    store(set, at + i, word_at(bytes, i));
  }
}

void load_bytes(const Set& set, std::uint64_t at, std::uint64_t bytes, char* out) {
  for (std::uint64_t i = 0; i < words_of(bytes); ++i) {
    const std::uint64_t word = load(set, at + i);
    std::memcpy(out + 8 * i, &word, std::min<std::uint64_t>(8, bytes - 8 * i));
  }
}

/// An entry as it was when it was looked at.
struct Found {
  std::uint64_t version;
  Shape shape;
  std::uint64_t value_at;
};

/// The entry of `key` at way `way`; none if it is another key's, or makes no sense just now.
std::optional<Found> entry_at(const Set& set, int way, FamilyId family, const Slice& key) {
  const std::uint64_t at = set.place[way].load(kRelaxed);
  if (at + kHeaderWords > RowCache::kDataWords) return {};
  const std::uint64_t version = load(set, at);
  const Shape shape = Shape::of(load(set, at + 1));
  if (shape.family != family || shape.key_bytes != key.size()) return {};
  // Sizes are not trusted either: what is read here may be half of one entry and half of another.
  const std::uint64_t words = shape.words();
  if (words * 8 > RowCache::kEntryBytesMax || at + words > RowCache::kDataWords) return {};
  for (std::uint64_t i = 0; i < words_of(key.size()); ++i) {
    if (load(set, at + kHeaderWords + i) != word_at(key, i)) return {};
  }
  return Found{version, shape, at + kHeaderWords + words_of(key.size())};
}

/// The lock of a set, held while the object lives.
class Locked {
 public:
  explicit Locked(Set* set) : set_(set), before_(set->sequence.load(kRelaxed)) {}
  ~Locked() {
    if (held_) set_->sequence.store(changed_ ? before_ + 2 : before_, std::memory_order_release);
  }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

  [[nodiscard]] bool try_lock() {
    before_ = set_->sequence.load(kRelaxed);
    held_ = before_ % 2 == 0 && set_->sequence.compare_exchange_strong(
                                    before_, before_ + 1, std::memory_order_acquire, kRelaxed);
    return held_;
  }
  void lock() {
    while (!try_lock()) std::this_thread::yield();
  }
  void note_change() { changed_ = true; }

 private:
  Set* const set_;
  std::uint64_t before_;
  bool held_ = false;
  bool changed_ = false;
};

void add(std::atomic<std::uint64_t>* figure, std::uint64_t value) {
  figure->fetch_add(value, kRelaxed);
}

}  // namespace

// ---- versions ----------------------------------------------------------------------------------

RowCache::Change::~Change() {
  if (begun_) cache_->state_.fetch_sub(1, std::memory_order_acq_rel);
}

void RowCache::Change::begin() {
  if (cache_ == nullptr || begun_) return;
  begun_ = true;
  // In one order with what inserts do: note_used().
  const std::uint64_t before = cache_->state_.fetch_add(1, std::memory_order_seq_cst);
  BRECCIA_ASSERT((before + 1) % (1 << kChangeBits) != 0);
}

std::uint64_t RowCache::Change::publish() {
  if (cache_ == nullptr) return 0;
  BRECCIA_ASSERT(begun_);
  constexpr std::uint64_t kOne = std::uint64_t{1} << kChangeBits;
  return (cache_->state_.fetch_add(kOne, std::memory_order_acq_rel) >> kChangeBits) + 1;
}

// ---- lookups and inserts -----------------------------------------------------------------------

Result<std::shared_ptr<RowCache>> RowCache::make(std::uint64_t bytes) {
  const std::uint64_t set_count = std::max<std::uint64_t>(bytes / kSetBytes, 1);
  // Of a large cache few sets are used at first, all over it: each takes a page, and no large one.
  const std::uint64_t taken = set_count * kSetBytes;
  BRECCIA_TAKE(auto memory, taken <= kHugeBytesMax ? pmem::PageMemory::allocate_huge(taken)
                                                   : pmem::PageMemory::allocate_small(taken));
  return std::make_shared<RowCache>(std::move(memory), set_count);
}

RowCache::RowCache(pmem::PageMemory memory, std::uint64_t set_count)
    : memory_(std::move(memory)),
      sets_(memory_.data()),
      set_count_(set_count),
      used_(set_count / kUsedBits + 1) {
  BRECCIA_ASSERT(set_count > 0 && set_count < std::uint64_t{1} << 32);
}

RowCache::~RowCache() = default;

// The memory comes zeroed, which is what an empty set is: nothing is stored before it is used.
Set& RowCache::set_at(std::uint64_t index) const {
  return *std::launder(reinterpret_cast<Set*>(sets_ + index * kSetBytes));
}

std::uint64_t RowCache::hash(FamilyId family, const Slice& key) {
  record::KeyHash hash(family, key.size());
  hash.add(base::load_big_endian(key.data(), std::min<std::size_t>(8, key.size())));
  for (std::size_t at = 8; at < key.size(); at += 8) {
    hash.add(base::load_big_endian(key.data() + at, std::min<std::size_t>(8, key.size() - at)));
  }
  return hash.value();
}

bool RowCache::is_used(std::uint64_t index) const {
  const std::uint64_t word = used_[index / kUsedBits].load(std::memory_order_seq_cst);
  return (word >> index % kUsedBits & 1) != 0;
}

// An insert notes the set and then looks whether a change is under way; a purge has said so and
// then looks whether the set is noted. In the one order of all four, one of them sees the other.
void RowCache::note_used(std::uint64_t index) {
  if (is_used(index)) return;
  // The set's memory is stored into before anybody reads it: a page that is read first is the
  // system's page of zeros, and the store that replaces it interrupts every other core.
  set_at(index).sequence.fetch_add(0, kRelaxed);
  used_[index / kUsedBits].fetch_or(std::uint64_t{1} << index % kUsedBits,
                                    std::memory_order_seq_cst);
}

void RowCache::prefetch(std::uint64_t hash) const {
  const std::uint64_t index = set_of(hash);
  if (!is_used(index)) return;
  const auto* const set = reinterpret_cast<const char*>(&set_at(index));
  for (std::size_t at = 0; at < offsetof(Set, data); at += 64) base::prefetch(set + at);
}

void RowCache::prefetch_insert(std::uint64_t hash) const {
  const std::uint64_t index = set_of(hash);
  if (!is_used(index)) return;
  const Set& set = set_at(index);
  const std::uint32_t used = set.used.load(kRelaxed);
  constexpr std::size_t kWords = 64 / sizeof(std::uint64_t);
  constexpr std::size_t kLines = 3;  // an entry of 16 and 100 bytes
  for (std::size_t at = used; at < std::min(used + kLines * kWords, kDataWords); at += kWords) {
    base::prefetch_to_write(&set.data[at]);
  }
}

std::optional<std::uint32_t> RowCache::find(std::uint64_t hash, FamilyId family, const Slice& key,
                                            std::uint64_t version, ValueBuffer* value) {
  const std::uint64_t index = set_of(hash);
  Tally& tally = own_tally();
  if (!is_used(index)) {
    add(&tally.misses, 1);
    return {};
  }
  Set& set = set_at(index);
  const std::uint64_t before = set.sequence.load(std::memory_order_acquire);
  if (before % 2 != 0) {
    add(&tally.skipped, 1);
    return {};
  }
  const std::uint32_t tag = tag_of(hash);
  const std::uint64_t floor = floor_.load(std::memory_order_acquire);
  for (int way = 0; way < kWays; ++way) {
    if (set.tag[way].load(kRelaxed) != tag) continue;
    const auto bytes = read_way(set, way, {family, key, version}, floor, value);
    if (!bytes.has_value()) continue;
    if (set.sequence.load(kRelaxed) != before) {
      add(&tally.skipped, 1);
      return {};
    }
    set.uses[way].fetch_add(1, kRelaxed);
    add(&tally.hits, 1);
    return bytes;
  }
  add(&tally.misses, 1);
  return {};
}

std::optional<std::uint32_t> RowCache::find_at(std::uint32_t ref, FamilyId family, const Slice& key,
                                               std::uint64_t version, ValueBuffer* value) {
  const std::uint64_t index = ref == 0 ? 0 : (ref - 1) / kWays;
  const int way = ref == 0 ? 0 : static_cast<int>((ref - 1) % kWays);
  BRECCIA_ASSERT(index < set_count_);
  Set& set = set_at(index);
  Tally& tally = own_tally();
  const std::uint64_t before = set.sequence.load(std::memory_order_acquire);
  const bool is_taken = before % 2 == 0 && ref != 0 && set.tag[way].load(kRelaxed) != 0;
  const auto bytes = is_taken ? read_way(set, way, {family, key, version},
                                         floor_.load(std::memory_order_acquire), value)
                              : std::nullopt;
  if (!bytes.has_value() || set.sequence.load(kRelaxed) != before) {
    add(before % 2 == 0 ? &tally.misses : &tally.skipped, 1);
    return {};
  }
  set.uses[way].fetch_add(1, kRelaxed);
  add(&tally.hits, 1);
  add(&tally.device_hits, 1);
  return bytes;
}

void RowCache::prefetch_at(std::uint32_t ref) const {
  if (ref == 0) return;
  const Set& set = set_at((ref - 1) / kWays);
  base::prefetch(&set.sequence);
  base::prefetch(&set.place[(ref - 1) % kWays]);
}

/// Copies the value of what is wanted from way `way`, if it is there and may be used.
std::optional<std::uint32_t> RowCache::read_way(const Set& set, int way, const Wanted& wanted,
                                                std::uint64_t floor, ValueBuffer* value) {
  const std::optional<Found> found = entry_at(set, way, wanted.family, wanted.key);
  if (!found.has_value() || found->version > wanted.version || found->version < floor) return {};
  load_bytes(set, found->value_at, found->shape.value_bytes, value->data());
  return found->shape.value_bytes;
}

bool RowCache::is_worth_asking() {
  const std::uint32_t slot = base::thread_slot();
  if (slot == base::kThreadSlots) return true;
  Worth& worth = worth_[slot];
  const std::uint32_t asked = worth.asked.load(kRelaxed);
  if (asked < kJudgedMin || worth.found.load(kRelaxed) * kWorthOneIn >= asked) return true;
  const std::uint32_t lookup = worth.lookups.load(kRelaxed);
  worth.lookups.store(lookup + 1, kRelaxed);
  return lookup % kAskOneIn == 0;
}

void RowCache::note_asked(bool found) {
  const std::uint32_t slot = base::thread_slot();
  if (slot == base::kThreadSlots) return;
  Worth& worth = worth_[slot];
  const std::uint32_t asked = worth.asked.load(kRelaxed) + 1;
  const std::uint32_t hits = worth.found.load(kRelaxed) + (found ? 1 : 0);
  const std::uint32_t shift = asked >= kJudgedMax ? 1 : 0;
  worth.asked.store(asked >> shift, kRelaxed);
  worth.found.store(hits >> shift, kRelaxed);
}

bool RowCache::admits() const {
  if (!is_full()) return true;
  thread_local base::Random random(reinterpret_cast<std::uintptr_t>(&random));
  return random.one_in(kAdmitOneIn);
}

void RowCache::insert(std::uint64_t hash, FamilyId family, const Slice& key, const Slice& value,
                      std::uint64_t version) {
  if (key.size() + value.size() > kEntryBytesMax) return;
  const Shape shape{family, static_cast<std::uint32_t>(key.size()),
                    static_cast<std::uint32_t>(value.size())};
  if (shape.words() * 8 > kEntryBytesMax) return;
  // Not yet an answer, but reason enough to leave the set's memory alone.
  if (state_.load(kRelaxed) != version << kChangeBits) return;
  const std::uint64_t index = set_of(hash);
  note_used(index);
  Set& set = set_at(index);
  Tally& tally = own_tally();
  Locked locked(&set);
  if (!locked.try_lock()) {
    add(&tally.skipped, 1);
    return;
  }
  // Under the lock: a purge that begins later finds the entry, one that began earlier shows here.
  if (state_.load(std::memory_order_seq_cst) != version << kChangeBits) return;
  for (int way = 0; way < kWays; ++way) {
    if (set.tag[way].load(kRelaxed) != tag_of(hash)) continue;
    const auto there = entry_at(set, way, family, key);
    if (there.has_value() && is_live(there->version)) return;
  }
  locked.note_change();
  make_room(&set, shape.words(), &tally);
  const auto* const free_way = std::find_if(
      set.tag, set.tag + kWays, [](const auto& tag) { return tag.load(kRelaxed) == 0; });
  const auto way = free_way - set.tag;
  const std::uint32_t at = set.used.load(kRelaxed);
  store(&set, at, version);
  store(&set, at + 1, shape.word());
  store_bytes(&set, at + kHeaderWords, key);
  store_bytes(&set, at + kHeaderWords + words_of(key.size()), value);
  set.used.store(at + static_cast<std::uint32_t>(shape.words()), kRelaxed);
  set.place[way].store(static_cast<std::uint16_t>(at), kRelaxed);
  set.uses[way].store(1, kRelaxed);
  set.tag[way].store(tag_of(hash), kRelaxed);
  add(&tally.inserts, 1);
  add(&tally.bytes, shape.words() * 8);
}

/// Evicts, dead entries first and then those that were used least, until a way and `words` are
/// free.
void RowCache::make_room(Set* set, std::uint64_t words, Tally* tally) {
  const auto rank = [&](int way) -> std::uint64_t {
    const std::uint64_t version = load(*set, set->place[way].load(kRelaxed));
    return is_live(version) ? std::uint64_t{set->uses[way].load(kRelaxed)} + 1 : 0;
  };
  while (true) {
    int victim = -1;
    bool has_way = false;
    // Among equals another one each time, so that none stays for its place alone.
    const std::uint32_t first = set->aging.load(kRelaxed);
    for (std::uint32_t i = 0; i < kWays; ++i) {
      const int way = static_cast<int>((first + i) % kWays);
      if (set->tag[way].load(kRelaxed) == 0) {
        has_way = true;
      } else if (victim < 0 || rank(way) < rank(victim)) {
        victim = way;
      }
    }
    if (has_way && set->used.load(kRelaxed) + words <= kDataWords) return;
    BRECCIA_ASSERT(victim >= 0);
    if (!is_full() && rank(victim) > 0) displaced_.fetch_add(1, kRelaxed);
    remove(set, victim, tally);
    add(&tally->evictions, 1);
    set->aging.store(first + 1, kRelaxed);
    if ((first + 1) % kWays != 0) continue;
    for (auto& uses : set->uses) uses.store(uses.load(kRelaxed) / 2, kRelaxed);
  }
}

void RowCache::remove(Set* set, int way, Tally* tally) {
  const std::uint64_t at = set->place[way].load(kRelaxed);
  const std::uint64_t words = Shape::of(load(*set, at + 1)).words();
  const std::uint64_t used = set->used.load(kRelaxed);
  for (std::uint64_t i = at; i + words < used; ++i) store(set, i, load(*set, i + words));
  for (auto& place : set->place) {
    const std::uint16_t other = place.load(kRelaxed);
    if (other > at) place.store(static_cast<std::uint16_t>(other - words), kRelaxed);
  }
  set->tag[way].store(0, kRelaxed);
  set->place[way].store(0, kRelaxed);
  set->used.store(static_cast<std::uint32_t>(used - words), kRelaxed);
  tally->bytes.fetch_sub(words * 8, kRelaxed);
}

// ---- purges ------------------------------------------------------------------------------------

void RowCache::erase(std::span<const std::uint64_t> hashes) {
  constexpr std::size_t kAhead = 8;
  Tally& tally = own_tally();
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    if (i + kAhead < hashes.size()) prefetch(hashes[i + kAhead]);
    const std::uint64_t index = set_of(hashes[i]);
    if (!is_used(index)) continue;
    Set& set = set_at(index);
    Locked locked(&set);
    locked.lock();
    for (int way = 0; way < kWays; ++way) {
      if (set.tag[way].load(kRelaxed) != tag_of(hashes[i])) continue;
      locked.note_change();
      remove(&set, way, &tally);
      add(&tally.erased, 1);
    }
  }
}

void RowCache::clear() {
  const std::uint64_t next = version() + 1;
  std::uint64_t floor = floor_.load(kRelaxed);
  while (floor < next && !floor_.compare_exchange_weak(floor, next, std::memory_order_acq_rel)) {
  }
  displaced_.store(0, kRelaxed);
}

void RowCache::turn_off() {
  if (floor_.exchange(kOff, std::memory_order_acq_rel) == kOff) return;
  state_.fetch_add(1, std::memory_order_acq_rel);  // a change that does not end
}

CacheFigures RowCache::figures() const {
  CacheFigures sum;
  for (const Tally& tally : tallies_) {
    sum.hits += tally.hits.load(kRelaxed);
    sum.misses += tally.misses.load(kRelaxed);
    sum.inserts += tally.inserts.load(kRelaxed);
    sum.evictions += tally.evictions.load(kRelaxed);
    sum.erased += tally.erased.load(kRelaxed);
    sum.skipped += tally.skipped.load(kRelaxed);
    sum.device_hits += tally.device_hits.load(kRelaxed);
    sum.bytes += tally.bytes.load(kRelaxed);
  }
  // What one thread has put in and another taken out meanwhile may be counted by half.
  if (sum.bytes > bytes_max()) sum.bytes = 0;
  return sum;
}

std::uint64_t RowCache::changes() const {
  const CacheFigures so_far = figures();
  return so_far.inserts + so_far.erased;  // who is evicted makes room for an insert
}

void RowCache::copy_tags(std::uint32_t* out) const {
  for (std::uint64_t index = 0; index < set_count_; ++index) {
    std::uint32_t* const own = out + index * kWays;
    if (is_used(index)) {
      std::transform(set_at(index).tag, set_at(index).tag + kWays, own,
                     [](const auto& tag) { return tag.load(kRelaxed); });
    } else {
      std::fill_n(own, kWays, 0);
    }
  }
}

}  // namespace breccia::cache
