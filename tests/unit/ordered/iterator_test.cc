#include "ordered/read/iterator.h"

#include <gtest/gtest.h>
#include <rocksdb/slice_transform.h>

#include <atomic>
#include <deque>
#include <optional>
#include <thread>

#include "support/seeds.h"
#include "support/small_options.h"
#include "unit/ordered/twin_store.h"

namespace breccia::ordered {

namespace {

/// An iterator of the engine, one of RocksDB and a place in a map, which always stand at the same
/// entry.
class Walk {
 public:
  Walk(TwinStore* store, const Moment& moment, FamilyId family)
      : store_(store), moment_(moment), content_(moment_.contents.at(family)) {
    base::Random& random = store->random();
    if (random.one_in(3)) lower_ = store->random_key();
    if (random.one_in(3)) upper_ = store->random_key();
    if (lower_.has_value() && upper_.has_value() && *upper_ < *lower_) std::swap(lower_, upper_);
    rocksdb::ReadOptions options;
    if (lower_.has_value()) reference_lower_ = *lower_;
    if (upper_.has_value()) reference_upper_ = *upper_;
    if (lower_.has_value()) options.iterate_lower_bound = &reference_lower_;
    if (upper_.has_value()) options.iterate_upper_bound = &reference_upper_;
    ours_ = store->engine().lookups().iterate(options, family, moment_.pin, {});
    reference_ = store->reference_iterator(options, family, moment_);
    at_ = end();
  }

  /// Any of the calls that are allowed now.
  void step() {
    base::Random& random = store_->random();
    const std::uint64_t dice = random.below(at_ == end() ? 4 : 12);
    const std::string key = store_->random_key() + std::string(random.below(2), 'x');
    if (dice == 0) {
      seek_to_first();
    } else if (dice == 1) {
      seek_to_last();
    } else if (dice == 2) {
      seek(key);
    } else if (dice == 3) {
      seek_for_prev(key);
    } else if (random.one_in(forward_ ? 4 : 2)) {  // goes on in one direction for a while
      prev();
    } else {
      next();
    }
    expect_equal();
  }

  /// From one end to the other.
  void all(bool forward) {
    forward ? seek_to_first() : seek_to_last();
    expect_equal();
    while (at_ != end() && !::testing::Test::HasFatalFailure()) {
      forward ? next() : prev();
      expect_equal();
    }
  }

 private:
  using Place = Content::const_iterator;

  [[nodiscard]] Place begin() const {
    return lower_.has_value() ? content_.lower_bound(*lower_) : content_.begin();
  }
  /// Also where an iterator stands that is not valid.
  [[nodiscard]] Place end() const {
    return upper_.has_value() ? content_.lower_bound(*upper_) : content_.end();
  }
  [[nodiscard]] Place before(Place behind) const {
    return behind == begin() ? end() : std::prev(behind);
  }

  /// Takes note of the call, for messages.
  void note(const char* call, const std::string& key) {
    const auto hex = [](const std::optional<std::string>& bytes) {
      return bytes.has_value() ? Slice(*bytes).ToString(/*hex=*/true) : "none";
    };
    last_ = call + hex(key) + " from " + hex(lower_) + " to " + hex(upper_);
  }

  void seek_to_first() {
    note("SeekToFirst", "");
    ours_->SeekToFirst();
    reference_->SeekToFirst();
    at_ = begin();
  }
  void seek_to_last() {
    note("SeekToLast", "");
    ours_->SeekToLast();
    reference_->SeekToLast();
    at_ = before(end());
  }
  void seek(const std::string& key) {
    note("Seek ", key);
    ours_->Seek(key);
    reference_->Seek(key);
    at_ = lower_.has_value() && key < *lower_ ? begin() : content_.lower_bound(key);
    if (upper_.has_value() && key >= *upper_) at_ = end();
  }
  void seek_for_prev(const std::string& key) {
    note("SeekForPrev ", key);
    ours_->SeekForPrev(key);
    reference_->SeekForPrev(key);
    const bool too_high = upper_.has_value() && key >= *upper_;
    at_ = lower_.has_value() && key < *lower_ ? end()
          : too_high                          ? before(end())
                                              : before(content_.upper_bound(key));
  }
  void next() {
    note("Next of ", at_->first);
    ours_->Next();
    reference_->Next();
    ++at_;
    forward_ = true;
  }
  void prev() {
    note("Prev of ", at_->first);
    ours_->Prev();
    reference_->Prev();
    at_ = before(at_);
    forward_ = false;
  }

  void expect_equal() const {
    ASSERT_TRUE(ours_->status().ok()) << ours_->status().ToString();
    ASSERT_EQ(ours_->Valid(), at_ != end()) << last_;
    ASSERT_EQ(reference_->Valid(), at_ != end()) << "in RocksDB, " << last_;
    if (at_ == end()) return;
    ASSERT_EQ(ours_->key().ToString(), at_->first) << last_;
    ASSERT_EQ(ours_->value().ToString(), at_->second) << last_;
    ASSERT_EQ(reference_->key(), Slice(at_->first));
    ASSERT_EQ(reference_->value(), Slice(at_->second));
  }

  TwinStore* store_;
  const Moment moment_;
  const Content& content_;
  std::optional<std::string> lower_, upper_;
  Slice reference_lower_, reference_upper_;  // RocksDB keeps the caller's
  std::unique_ptr<rocksdb::Iterator> ours_;
  std::unique_ptr<rocksdb::Iterator> reference_;
  Place at_;
  bool forward_ = true;
  std::string last_;
};

}  // namespace

// Goal: an iterator shows what RocksDB's shows, forward and backward, at any moment that is held.
// Method: random writes of all operations to two families, flushed and merged and opened again in
//   between; walks with bounds, seeks and turns, on pins of now and of earlier, some of which go on
//   while more is written. Compared, entry by entry, with a map and with RocksDB.
// Mutation: settling on a key's oldest version, looking for a range deletion without the pin's
// bound,
//   or turning around without a seek, fails within ten seeds.
TEST(Iterator, WalksAsRocksDb) {
  for (const std::uint64_t seed : testing::seeds_to_run(20)) {
    SCOPED_TRACE(testing::replay_command(seed));
    TwinStore store(seed);
    base::Random& random = store.random();
    std::deque<Moment> moments;
    std::deque<Walk> walks;
    for (int step = 0; step < 30; ++step) {
      SCOPED_TRACE("step " + std::to_string(step) + " on " + store.described());
      store.write(random.one_in(4) ? 80 : 6);
      if (random.one_in(6)) store.flush();
      if (random.one_in(12)) {
        walks.clear();
        moments.clear();
        store.reopen();
      }
      if (random.one_in(4)) moments.push_back(store.now());
      if (moments.size() > 4) moments.pop_front();
      const bool earlier = !moments.empty() && random.one_in(2);
      walks.emplace_back(&store, earlier ? moments[random.below(moments.size())] : store.now(),
                         store.random_family());
      if (walks.size() > 3) walks.pop_front();
      walks.back().all(/*forward=*/random.one_in(2));
      for (Walk& walk : walks) {
        for (int i = 0; i < 25 && !HasFatalFailure(); ++i) walk.step();
      }
      if (HasFatalFailure()) return;
    }
  }
}

// Goal: with prefix_same_as_start, a walk ends where the prefix of its first key does, as
//          RocksDB's.
// Method: stores with a prefix extractor; random seeks, to the ends too, and steps, with and
//          without bounds, compared with RocksDB.
// Mutation: taking the prefix of the target alone lets walks from the ends go on through all keys.
TEST(Iterator, PrefixesEndWalksAsInRocksDb) {
  const std::shared_ptr<const rocksdb::SliceTransform> prefix(rocksdb::NewCappedPrefixTransform(2));
  for (const std::uint64_t seed : testing::seeds_to_run(15)) {
    SCOPED_TRACE(testing::replay_command(seed));
    TwinStore store(seed, prefix);
    base::Random& random = store.random();
    for (int step = 0; step < 12; ++step) {
      store.write(random.one_in(2) ? 80 : 6);
      if (random.one_in(4)) store.flush();
      const Moment now = store.now();
      const std::string lower = store.random_key();
      const std::string upper = lower + "~";
      const Slice lower_slice(lower);
      const Slice upper_slice(upper);
      rocksdb::ReadOptions options;
      options.prefix_same_as_start = true;
      if (random.one_in(3)) options.iterate_lower_bound = &lower_slice;
      if (random.one_in(3)) options.iterate_upper_bound = &upper_slice;
      const auto ours = store.engine().lookups().iterate(options, kDefaultFamily, now.pin, {});
      const auto reference = store.reference_iterator(options, kDefaultFamily, now);
      for (int i = 0; i < 60; ++i) {
        const std::uint64_t dice = random.below(reference->Valid() ? 12 : 4);
        const std::string key = store.random_key();
        for (rocksdb::Iterator* const one : {ours.get(), reference.get()}) {
          if (dice == 0) one->SeekToFirst();
          if (dice == 1) one->SeekToLast();
          if (dice == 2) one->Seek(key);
          if (dice == 3) one->SeekForPrev(key);
          if (dice >= 4 && dice < 9) one->Next();
          if (dice >= 9) one->Prev();
        }
        ASSERT_EQ(ours->Valid(), reference->Valid()) << "call " << dice << " at " << key;
        if (!ours->Valid()) continue;
        ASSERT_EQ(ours->key().ToString(), reference->key().ToString()) << "call " << dice;
        ASSERT_EQ(ours->value().ToString(), reference->value().ToString()) << "call " << dice;
      }
    }
  }
}

// Goal: a tailing iterator sees with each seek what is there by then, and Refresh brings any
//   iterator up to now; one on a snapshot stays where it is.
// Method: writes, flushes and a dropped family between the seeks of all three kinds.
// Mutation: a Refresh that keeps the tree's iterator loses what a flush moved there.
TEST(Iterator, TailingAndRefreshSeeWhatIsNew) {
  for (const std::uint64_t seed : testing::seeds_to_run(6)) {
    SCOPED_TRACE(testing::replay_command(seed));
    TwinStore store(seed);
    Engine& engine = store.engine();
    store.write(40);
    const FamilyId family = store.random_family();
    rocksdb::ReadOptions options;
    const Moment then = store.now();
    const auto fixed = engine.lookups().iterate(options, family, then.pin, {});
    EXPECT_TRUE(fixed->Refresh().IsNotSupported());
    const auto repin = [&] { return engine.pin(); };
    const auto refreshed = engine.lookups().iterate(options, family, then.pin, repin);
    options.tailing = true;
    const auto tailing = engine.lookups().iterate(options, family, then.pin, repin);
    const auto entries = [](rocksdb::Iterator* iterator) {
      Content found;
      for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
        found[iterator->key().ToString()] = iterator->value().ToString();
      }
      EXPECT_TRUE(iterator->status().ok());
      return found;
    };
    for (int step = 0; step < 12; ++step) {
      EXPECT_EQ(entries(refreshed.get()), entries(fixed.get())) << "before anything was written";
      store.write(30);
      if (step % 3 == 1) store.flush();
      const Moment now = store.now();
      EXPECT_EQ(entries(tailing.get()), now.contents.at(family));
      EXPECT_EQ(entries(fixed.get()), then.contents.at(family));
      const auto another = engine.lookups().iterate({}, family, then.pin, repin);
      EXPECT_TRUE(another->Refresh().ok());
      EXPECT_EQ(entries(another.get()), now.contents.at(family));
    }
    tailing->SeekToFirst();
    if (tailing->Valid()) {
      tailing->Prev();
      EXPECT_FALSE(tailing->Valid());
      EXPECT_TRUE(tailing->status().IsNotSupported());
    }
    FamilyId dropped = 0;
    ASSERT_TRUE(engine.CreateFamily("dropped", &dropped).ok());
    ASSERT_TRUE(
        engine.writer().write_one(WriteOptions(), record::Op::kPut, dropped, "key", "value").ok());
    const auto holds_it = engine.lookups().iterate({}, dropped, engine.pin(), repin);
    ASSERT_TRUE(engine.DropFamily(dropped).ok());
    EXPECT_EQ(entries(holds_it.get()), (Content{{"key", "value"}}));
    EXPECT_TRUE(holds_it->Refresh().IsInvalidArgument());
    holds_it->SeekToFirst();
    EXPECT_FALSE(holds_it->Valid());
    const auto none = engine.lookups().iterate({}, dropped, engine.pin(), {});
    EXPECT_TRUE(none->status().IsInvalidArgument());
  }
}

// Goal: what is written while an iterator walks never shows, nor does it lead the walk astray.
// Method: a writer puts keys between those that are pinned, into the memtable; walks from end to
// end
//   both ways must meet the pinned keys and no others.
// Mutation: going back to the entry that one just left by a step forward may land on a new one.
TEST(Iterator, ConcurrentWritesDoNotShow) {
  const testing::Folder folder(testing::Place::kMemory);
  Options options = testing::small_options();
  options.device_requests_min = 1'000'000;
  options.memtable_bytes = 1 << 30;
  std::unique_ptr<Engine> engine;
  ASSERT_TRUE(Engine::open(options, folder / "store", &engine).ok());
  constexpr int kPinned = 64;
  const auto key_of = [](std::uint64_t i) {
    char text[24];
    (void)std::snprintf(text, sizeof text, "%012lu", static_cast<unsigned long>(i));
    return std::string(text);
  };
  constexpr std::uint64_t kGap = 1'000'000;
  for (std::uint64_t i = 1; i <= kPinned; ++i) {
    ASSERT_TRUE(engine->Put(WriteOptions(), key_of(i * kGap), "pinned").ok());
  }
  const Pin pin = engine->pin();
  std::atomic<bool> done{false};
  std::vector<std::thread> readers;
  for (const bool forward : {false, false, true}) {
    readers.emplace_back([&, forward] {
      const auto iterator =
          engine->lookups().iterate(rocksdb::ReadOptions(), kDefaultFamily, pin, {});
      while (!done) {
        std::uint64_t i = forward ? 1 : kPinned;
        for (forward ? iterator->SeekToFirst() : iterator->SeekToLast(); iterator->Valid();
             forward ? iterator->Next() : iterator->Prev()) {
          ASSERT_EQ(iterator->key().ToString(), key_of(i * kGap));
          ASSERT_EQ(iterator->value().ToString(), "pinned");
          i += forward ? 1 : -1;
        }
        ASSERT_TRUE(iterator->status().ok());
        ASSERT_EQ(i, forward ? kPinned + 1u : 0u);
      }
    });
  }
  base::Random random(1);
  WriteOptions unlogged;
  unlogged.durability = Durability::kNone;
  const std::uint64_t writes = testing::share_of(30'000);
  for (std::uint64_t i = 0; i < writes && !HasFatalFailure(); ++i) {
    // Right before a pinned key, or anew at one.
    const std::uint64_t at = (1 + random.below(kPinned)) * kGap - random.below(200);
    ASSERT_TRUE(engine->Put(unlogged, key_of(at), "new").ok());
  }
  done = true;
  for (std::thread& reader : readers) reader.join();
}

}  // namespace breccia::ordered
