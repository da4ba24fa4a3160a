#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "base/random.h"
#include "exec/group.h"
#include "exec/sim/scheduler.h"
#include "exec/sim/sim_group.h"
#include "hash/algo/cached.cuh"
#include "hash/algo/pinned.cuh"
#include "support/seeds.h"

/// What a cache of rows keeps, step by step.

namespace breccia::hash::algo {

namespace {

constexpr std::uint64_t kFirstWord = 100;
constexpr RowCachePolicy kPolicies[] = {RowCachePolicy::kFrequency, RowCachePolicy::kRecency,
                                        RowCachePolicy::kRandom};

/// Rows of one word, which follows from the payload, and a cache of them on the host.
class Rows {
 public:
  /// Groups of a launch run one behind the other, or as `rivals` says, or in several threads.
  explicit Rows(std::uint64_t set_count, exec::sim::Scheduler* rivals = nullptr,
                std::uint64_t threads = 1)
      : rivals_(rivals),
        threads_(threads),
        sets_(set_count * SetRef::kPairs),
        misses_(set_count * MissCounter::kWords),
        rows_(set_count * kCacheWays) {}

  [[nodiscard]] CacheRef ref() {
    return {sets_.data(), sets_.size() / SetRef::kPairs, misses_.data(),
            reinterpret_cast<char*>(rows_.data()), policy_};
  }
  void keep(RowCachePolicy policy) { policy_ = policy; }
  /// Whose row a payload is; else it is an id itself.
  void say_id(std::uint64_t payload, std::uint64_t id) { ids_[payload] = id; }
  [[nodiscard]] std::uint64_t id_of(std::uint64_t payload) const {
    const auto at = ids_.find(payload);
    return at == ids_.end() ? payload : at->second;
  }
  [[nodiscard]] std::vector<std::uint64_t> ids_of(const std::vector<std::uint64_t>& payload) const {
    std::vector<std::uint64_t> ids(payload.size());
    std::transform(payload.begin(), payload.end(), ids.begin(),
                   [&](std::uint64_t one) { return id_of(one); });
    return ids;
  }
  /// A batch of rows that were raised, whose payloads follow one another from `first` on.
  struct Raised {
    std::uint64_t first = 0;
    std::vector<std::uint64_t> ids, before, newest;
    std::vector<Code> code;
    static constexpr std::uint64_t kRecordBytes = 8;
    [[nodiscard]] std::uint64_t payload(std::uint64_t i) const { return first + i * kRecordBytes; }
    [[nodiscard]] std::uint64_t end() const { return payload(ids.size()); }
  };
  /// Writes them over those before.
  void renew(const Raised& raised, bool says_newest) {
    const std::uint64_t n = raised.ids.size();
    std::vector<std::uint64_t> row(n);
    for (std::uint64_t i = 0; i < n; ++i) row[i] = row_of(raised.payload(i));
    launch_groups(n, Renew<std::uint64_t>{.cache = ref(),
                                          .id = raised.ids.data(),
                                          .before = raised.before.data(),
                                          .code = raised.code.data(),
                                          .newest = says_newest ? raised.newest.data() : nullptr,
                                          .count = n,
                                          .first_payload = raised.first,
                                          .record_bytes = Raised::kRecordBytes,
                                          .row = row.data(),
                                          .words = 1});
  }
  /// Whether each was there; one launch finds, and one admits those that were not but are rows.
  std::vector<std::uint8_t> look_up(const std::vector<std::uint64_t>& payload) {
    const std::uint64_t n = payload.size();
    std::vector<std::uint64_t> place(n), missing(n), row(n);
    std::vector<Code> code(n);
    std::vector<std::uint8_t> found(n);
    std::vector<std::uint32_t> request(n);
    const auto ids = ids_of(payload);
    std::uint64_t count = 0;
    launch(n, FindCached{ref(),
                         ids.data(),
                         payload.data(),
                         n,
                         place.data(),
                         code.data(),
                         found.data(),
                         {request.data(), missing.data(), &count},
                         &n});
    for (std::uint64_t i = 0; i < n; ++i) {
      EXPECT_TRUE(found[i] == 0 || rows_[place[i]] == row_of(payload[i])) << i;
      row[i] = row_of(payload[i]);
    }
    std::vector<std::uint8_t> after(n);
    for (std::uint64_t i = 0; i < n; ++i) after[i] = is_row(payload[i]) ? 1 : 0;
    launch(count, Admit<std::uint64_t>{ref(), ids.data(), missing.data(), request.data(), count,
                                       row.data(), after.data(), 1});
    return found;
  }
  /// What one holder has pinned.
  struct Holder {
    std::vector<PinBits> bits;
    std::set<std::uint64_t> payloads;
  };
  [[nodiscard]] Holder holder() const {
    return {std::vector<PinBits>(pin_words_of(rows_.size())), {}};
  }
  /// Those of payloads that are rows, and find places; returns those that found none.
  std::vector<std::uint64_t> pin(Holder* holder, const std::vector<std::uint64_t>& payload) {
    const std::uint64_t n = payload.size();
    std::vector<std::uint64_t> row(n);
    std::vector<std::uint8_t> found(n), is_pinned(n);
    for (std::uint64_t i = 0; i < n; ++i) {
      found[i] = payload[i] != 0 && is_row(payload[i]) ? 1 : 0;
      row[i] = row_of(payload[i]);
    }
    const auto ids = ids_of(payload);
    PinCounts counts;
    Pin<std::uint64_t> pin{.cache = ref(),
                           .id = ids.data(),
                           .payload = payload.data(),
                           .count = n,
                           .row = row.data(),
                           .found = found.data(),
                           .is_pinned = is_pinned.data(),
                           .bits = holder->bits.data(),
                           .counts = &counts,
                           .words = 1};
    for (; pin.launch < kPinLaunches; ++pin.launch) launch(n, pin);
    EXPECT_EQ(counts.left[kPinLaunches - 1], 0U);
    std::vector<std::uint64_t> none;
    const std::size_t before = holder->payloads.size();
    for (std::uint64_t i = 0; i < n; ++i) {
      EXPECT_EQ(found[i], is_pinned[i]) << i;
      if (is_pinned[i] != 0) holder->payloads.insert(payload[i]);
      if (is_pinned[i] == 0 && payload[i] != 0 && is_row(payload[i])) none.push_back(payload[i]);
    }
    EXPECT_EQ(holder->payloads.size(), before + counts.pinned);
    EXPECT_EQ(none.size(), counts.refused);
    return none;
  }
  void let_go(const Holder& holder) {
    launch(holder.bits.size(), LetGo{ref(), holder.bits.data(), holder.bits.size()});
  }
  /// Of a cache of one set.
  void put_in_last_place(std::uint64_t payload) {
    *SetRef::of(ref(), 0).word(kCacheWays - 1) = payload;
    rows_[kCacheWays - 1] = row_of(payload);
  }
  [[nodiscard]] std::vector<std::uint64_t> places_of_set() {
    const SetSeen seen = SetSeen::read(exec::HostGroup<1>(), SetRef::of(ref(), 0));
    return {seen.word, seen.word + kCacheWays};
  }
  /// By how many each place's row is pinned, and by whom.
  void check_pins(const std::vector<Holder>& holders) {
    std::map<std::uint64_t, std::uint64_t> pins;
    for (const Holder& holder : holders) {
      for (const std::uint64_t payload : holder.payloads) ++pins[payload];
    }
    for (std::uint64_t set = 0; set < ref().set_count; ++set) {
      const SetSeen seen = SetSeen::read(exec::HostGroup<1>(), SetRef::of(ref(), set));
      for (int i = 0; i < kCacheWays; ++i) {
        // Lookups may have brought it into two places, of which the last one is pinned.
        if (SetRef::pins_of(seen.credits(), i) == 0) continue;
        ASSERT_EQ(seen.way_of(seen.word[i]), i);
        ASSERT_EQ(SetRef::pins_of(seen.credits(), i), pins[seen.word[i]]);
        pins.erase(seen.word[i]);
      }
    }
    ASSERT_TRUE(pins.empty());
  }
  /// What is in the set of a payload, by how many each is pinned.
  std::map<std::uint64_t, std::uint64_t> pins_beside(std::uint64_t payload) {
    const std::uint64_t set = set_of(ref(), cache_hash_of(ref(), id_of(payload)));
    const SetSeen seen = SetSeen::read(exec::HostGroup<1>(), SetRef::of(ref(), set));
    std::map<std::uint64_t, std::uint64_t> pins;
    for (int i = 0; i < kCacheWays; ++i) {
      std::uint64_t* const most = &pins[seen.word[i]];
      *most = std::max(*most, SetRef::pins_of(seen.credits(), i));
    }
    return pins;
  }
  static std::uint64_t row_of(std::uint64_t payload) { return payload + kFirstWord; }
  /// Of some payloads the log has no row of the size.
  static bool is_row(std::uint64_t payload) { return payload % 11 != 0; }

  /// Between launches: each payload's place has its row, and nobody is filling one.
  void check_places() {
    for (std::uint64_t set = 0; set < ref().set_count; ++set) {
      const SetSeen seen = SetSeen::read(exec::HostGroup<1>(), SetRef::of(ref(), set));
      for (int i = 0; i < kCacheWays; ++i) {
        const std::uint64_t payload = seen.word[i];
        ASSERT_LE(SetRef::credit_of(seen.credits(), i), SetRef::kCreditMax);
        if (payload == 0) continue;
        ASSERT_TRUE(has_value(payload));
        ASSERT_EQ(set_of(ref(), cache_hash_of(ref(), id_of(payload))), set);
        ASSERT_EQ(rows_[set * kCacheWays + static_cast<std::uint64_t>(i)], row_of(payload));
      }
    }
  }

 private:
  /// A group for each.
  template <class F>
  void launch_groups(std::uint64_t n, const F& f) {
    const auto by_groups = [&](const auto& group, std::uint64_t first) {
      constexpr std::uint64_t kWidth = std::decay_t<decltype(group)>::kWidth;
      for (std::uint64_t i = first; i < std::min(first + kWidth, n); ++i) f(group, i * kWidth);
    };
    launch(n, by_groups);
  }
  template <class F>
  void launch(std::uint64_t items, const F& f) {
    if (rivals_ != nullptr) {
      rivals_->run((items + 3) / 4, [&](std::uint64_t i) {
        const exec::sim::SimGroup<4> group(*rivals_);
        f(group, 4 * i);
      });
      return;
    }
    const auto work = [&](std::uint64_t thread) {
      for (std::uint64_t first = 32 * thread; first < items; first += 32 * threads_) {
        f(exec::HostGroup<32>(), first);
      }
    };
    std::vector<std::thread> threads;
    for (std::uint64_t t = 1; t < threads_; ++t) threads.emplace_back(work, t);
    work(0);
    for (std::thread& thread : threads) thread.join();
  }

  exec::sim::Scheduler* const rivals_;
  const std::uint64_t threads_;
  RowCachePolicy policy_ = RowCachePolicy::kFrequency;
  std::map<std::uint64_t, std::uint64_t> ids_;
  std::vector<Pair> sets_;
  std::vector<std::uint64_t> misses_;
  std::vector<std::uint64_t> rows_;
};

/// The same, said simply.
class Model {
 public:
  explicit Model(const CacheRef& cache) : cache_(cache) {}

  bool look_up(std::uint64_t payload) {
    for (Place& place : set_of_payload(payload).places) {
      if (place.payload != payload) continue;
      place.credit = std::min(place.credit + 1, 15);
      return true;
    }
    return false;
  }
  void miss(std::uint64_t payload) {
    Set& set = set_of_payload(payload);
    for (const Place& place : set.places) {
      if (place.payload == payload) return;
    }
    int* const one = &set.counters[counters_of(payload).first];
    int* const other = &set.counters[counters_of(payload).second];
    const int misses = std::min(std::min(*one, *other) + 1, 15);
    *one = std::max(*one, misses);
    *other = std::max(*other, misses);
    Place* const place =
        std::min_element(set.places.begin(), set.places.end(), [](const Place& a, const Place& b) {
          return std::pair(a.payload != 0, a.credit) < std::pair(b.payload != 0, b.credit);
        });
    const bool comes_in = misses > place->credit;
    if (++set.misses == 64) halve(&set);
    if (!comes_in) return;
    *one = *other = 0;
    *place = {payload, misses};
  }
  void expect_same() {
    for (auto& [number, set] : sets_) {
      const SetSeen seen = SetSeen::read(exec::HostGroup<1>(), SetRef::of(cache_, number));
      for (int i = 0; i < kCacheWays; ++i) {
        const Place& place = set.places[static_cast<std::size_t>(i)];
        ASSERT_EQ(seen.word[i], place.payload);
        ASSERT_EQ(SetRef::credit_of(seen.credits(), i), static_cast<std::uint64_t>(place.credit));
      }
      ASSERT_EQ(SetRef::misses_of(seen.credits()), static_cast<std::uint64_t>(set.misses));
      for (std::size_t i = 0; i < set.counters.size(); ++i) {
        const std::uint64_t word = cache_.misses[number * MissCounter::kWords + i / 16];
        ASSERT_EQ(word >> 4 * (i % 16) & 15, static_cast<std::uint64_t>(set.counters[i])) << i;
      }
    }
  }

 private:
  struct Place {
    std::uint64_t payload = 0;
    int credit = 0;
  };
  struct Set {
    std::array<Place, kCacheWays> places;
    std::array<int, 16 * MissCounter::kWords> counters{};
    int misses = 0;
  };
  static void halve(Set* set) {
    set->misses = 0;
    for (Place& place : set->places) place.credit /= 2;
    for (int& counter : set->counters) counter /= 2;
  }
  [[nodiscard]] std::uint64_t number(std::uint64_t payload) const {
    return set_of(cache_, cache_hash_of(cache_, payload));
  }
  Set& set_of_payload(std::uint64_t payload) { return sets_[number(payload)]; }
  [[nodiscard]] std::pair<std::size_t, std::size_t> counters_of(std::uint64_t payload) const {
    const auto counter = MissCounter::of(cache_, number(payload), cache_hash_of(cache_, payload));
    const auto word = static_cast<std::size_t>(counter.word - cache_.misses) % MissCounter::kWords;
    return {16 * word + static_cast<std::size_t>(counter.first) / 4,
            16 * word + static_cast<std::size_t>(counter.second) / 4};
  }

  const CacheRef cache_;
  std::map<std::uint64_t, Set> sets_;
};

}  // namespace

// Goal: places, credits and counters are those of the rule, and a place has its payload's row.
// Method: batches of payloads, few of them often, over a few sets; a simple model after each.
// Mutation: a credit added to that of the row before; counters that do not begin anew; a halving
// that leaves counters, or lends bits to neighbours; the larger counter; a payload that is no row.
TEST(HashCached, KeepsWhatTheRuleSays) {
  for (const std::uint64_t seed : testing::seeds_to_run(200)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    Rows rows(1 + random.below(4));
    Model model(rows.ref());
    const std::uint64_t few = 1 + random.below(10);
    const std::uint64_t many = 1 + random.below(300);
    for (int turn = 0; turn < 60; ++turn) {
      std::vector<std::uint64_t> payload(random.below(80));
      for (std::uint64_t& one : payload) {
        one = 8 * random.below(random.one_in(2) ? few : many);  // 0: there is no such key
      }
      const std::vector<std::uint8_t> found = rows.look_up(payload);
      for (std::size_t i = 0; i < payload.size(); ++i) {
        ASSERT_EQ(found[i] != 0, payload[i] != 0 && model.look_up(payload[i])) << i;
      }
      for (std::size_t i = 0; i < payload.size(); ++i) {
        if (found[i] == 0 && payload[i] != 0 && Rows::is_row(payload[i])) model.miss(payload[i]);
      }
      model.expect_same();
      if (HasFatalFailure()) return;
    }
  }
}

// Goal: a place has one payload's row, whoever else wants it at the same moment.
// Method: batches over one or two sets, whose groups are interleaved by a seed; every place is seen
// after each batch.
// Mutation: a place that is taken though its exchange failed, or while another fills it; a payload
// that is named before its row is there.
TEST(HashCached, RivalsTakeDifferentPlaces) {
  for (const std::uint64_t seed : testing::seeds_to_run(300)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    exec::sim::Scheduler rivals(random.next());
    Rows rows(1 + random.below(2), &rivals);
    rows.keep(kPolicies[random.below(std::size(kPolicies))]);
    const std::uint64_t many = 2 + random.below(60);
    for (int turn = 0; turn < 30; ++turn) {
      std::vector<std::uint64_t> payload(random.below(60));
      for (std::uint64_t& one : payload) one = 8 * (1 + random.below(many));
      rows.look_up(payload);
      rows.check_places();
      if (HasFatalFailure()) return;
    }
  }
}

// Goal: the same of threads, which see each other's memory late.
// Method: as above, over few sets, in batches of which each thread has many (ThreadSanitizer).
// Mutation: a place that is claimed, or given up, by a relaxed operation.
TEST(HashCached, ConcurrentThreadsTakeDifferentPlaces) {
  base::Random random(1);
  Rows rows(8, nullptr, 3);
  for (int turn = 0; turn < 30; ++turn) {
    rows.keep(kPolicies[random.below(std::size(kPolicies))]);
    std::vector<std::uint64_t> payload(3000);
    for (std::uint64_t& one : payload) one = 8 * (1 + random.below(random.one_in(2) ? 40 : 4000));
    rows.look_up(payload);
    rows.check_places();
  }
}

// Goal: what is pinned stays where it is, in one place, until the last holder lets it go; it is
// refused only where there is no place.
// Method: holders over a few sets, which pin payloads twice and more, in one batch and in several,
// while others are looked up, whatever is kept; groups are interleaved by a seed. Every pin is
// counted behind each call; a set that refuses has seven other rows that are pinned, or that one
// fifteen times; behind the last holder every row goes.
// Mutation: bytes that are read behind payloads alone; a bit that is taken twice; pins that are
// halved with credits, aged away, or taken with a place; a random place that is pinned; a place
// that is taken while rows are pinned that are there; a refusal where others are filling.
TEST(HashCached, PinnedRowsStay) {
  for (const std::uint64_t seed : testing::seeds_to_run(300)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    exec::sim::Scheduler rivals(random.next());
    Rows rows(1 + random.below(3), random.one_in(4) ? nullptr : &rivals);
    const std::uint64_t many = 2 + random.below(random.one_in(2) ? 10 : 60);
    std::vector<Rows::Holder> holders;
    std::vector<std::uint64_t> payload;
    for (int turn = 0; turn < 60; ++turn) {
      rows.keep(kPolicies[random.below(std::size(kPolicies))]);
      payload.resize(random.below(40));
      for (std::uint64_t& one : payload) one = 8 * random.below(many);
      const std::uint64_t what = random.below(6);
      if (what == 0 && holders.size() < 18) holders.push_back(rows.holder());
      if (what <= 2 && !holders.empty()) {
        Rows::Holder* const holder = &holders[random.below(holders.size())];
        for (const std::uint64_t refused : rows.pin(holder, payload)) {
          const auto pins = rows.pins_beside(refused);
          const auto at = pins.find(refused);
          if (at != pins.end() && at->second == SetRef::kPinsMax) continue;
          ASSERT_TRUE(
              at == pins.end() && pins.size() == kCacheWays &&
              std::all_of(pins.begin(), pins.end(), [](const auto& p) { return p.second > 0; }))
              << refused;
        }
      } else if (what == 3 && !holders.empty()) {
        std::swap(holders[random.below(holders.size())], holders.back());
        rows.let_go(holders.back());
        holders.pop_back();
      } else {
        rows.look_up(payload);
      }
      rows.check_places();
      rows.check_pins(holders);
      if (HasFailure()) return;
    }
    for (const Rows::Holder& holder : holders) rows.let_go(holder);
    rows.check_pins({});
    rows.keep(RowCachePolicy::kRecency);
    for (std::uint64_t i = 0; i < 400; ++i) rows.look_up({8 * (many + i)});
    rows.check_places();
    for (std::uint64_t i = 1; i < many; ++i) EXPECT_EQ(rows.look_up({8 * i})[0], 0) << i;
    if (HasFailure()) return;
  }
}

/// An index of ids, by a rule of its own.
class Versions {
 public:
  explicit Versions(base::Random* random) : random_(*random) {}

  [[nodiscard]] const std::map<std::uint64_t, std::uint64_t>& newest() const { return newest_; }
  /// Raises `count` ids, of which few are there twice or many; they do so in any order.
  Rows::Raised raise(Rows* rows, std::uint64_t count, std::uint64_t ids) {
    Rows::Raised raised;
    raised.first = next_;
    raised.ids.resize(count);
    raised.before.resize(count);
    raised.code.resize(count);
    std::vector<std::uint64_t> order(count);
    for (std::uint64_t i = 0; i < count; ++i) {
      raised.ids[i] = random_.below(ids);
      rows->say_id(raised.payload(i), raised.ids[i]);
      std::swap(order[i] = i, order[random_.below(i + 1)]);
    }
    for (const std::uint64_t i : order) {
      std::uint64_t* const newest = &newest_[raised.ids[i]];
      raised.before[i] = *newest;
      raised.code[i] = *newest == 0 ? Code::kAbsent : Code::kPresent;
      *newest = std::max(*newest, raised.payload(i));
    }
    next_ = raised.end();
    return raised;
  }
  void see(Rows::Raised* raised) const {
    for (const std::uint64_t id : raised->ids) raised->newest.push_back(newest_.at(id));
  }

 private:
  base::Random& random_;
  std::uint64_t next_ = 8;
  std::map<std::uint64_t, std::uint64_t> newest_;
};

// Goal: a row that is written anew stays where it was, and pinned; what is there is a whole
// version, and of an id that is there more than once the newest.
// Method: batches of a few ids over few sets, many of them there twice, some written once more
// before the cache hears of it, among lookups of the newest ones, while a holder has some; groups
// are interleaved by a seed.
// Mutation: a place that is renewed by its set alone, or named before its row is written; a version
// that takes the place of a newer one, or gets another's row; pins that go with the old version.
TEST(HashCached, NewVersionsKeepTheirPlaces) {
  for (const std::uint64_t seed : testing::seeds_to_run(200)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    exec::sim::Scheduler rivals(random.next());
    Rows rows(1 + random.below(3), random.one_in(4) ? nullptr : &rivals);
    Versions versions(&random);
    const std::uint64_t ids = 1 + random.below(30);
    Rows::Holder holder = rows.holder();
    const auto some_newest = [&] {
      std::vector<std::uint64_t> payload;
      for (const auto& [id, newest] : versions.newest()) {
        if (!random.one_in(3)) payload.push_back(newest);
      }
      return payload;
    };
    const auto look_up_some = [&] { rows.look_up(some_newest()); };
    for (int turn = 0; turn < 40; ++turn) {
      Rows::Raised raised = versions.raise(&rows, random.below(20), ids);
      if (random.one_in(4)) (void)versions.raise(&rows, random.below(4), ids);
      if (random.one_in(4)) look_up_some();
      std::map<std::uint64_t, std::uint64_t> pins;  // of ids whose version of before is there
      for (std::size_t i = 0; i < raised.ids.size(); ++i) {
        const auto beside = rows.pins_beside(raised.payload(i));
        const auto at = beside.find(raised.before[i]);
        const bool is_of_before = raised.before[i] != 0 && raised.before[i] < raised.first;
        if (is_of_before && at != beside.end()) pins[raised.ids[i]] = at->second;
      }
      versions.see(&raised);
      rows.renew(raised, /*says_newest=*/true);
      rows.check_places();
      for (const auto& [id, count] : pins) {
        const std::uint64_t newest = versions.newest().at(id);
        if (newest >= raised.end()) continue;
        const auto beside = rows.pins_beside(newest);
        ASSERT_TRUE(beside.contains(newest));
        ASSERT_EQ(beside.at(newest), count);
      }
      turn == 10 ? void(rows.pin(&holder, some_newest())) : look_up_some();
      rows.check_places();
      if (HasFailure()) return;
    }
  }
}

// Goal: where a version lies in two places, or the new one is there already, the place that is
// pinned has the new one behind it, and of others one stays.
// Method: a set that was made so by hand, as lookups make it where two lanes bring a row at once,
// or one brings what is being written.
// Mutation: the last place in the place of the pinned one; a place that is left to a name twice.
TEST(HashCached, OfTwoPlacesThePinnedOneStays) {
  constexpr std::uint64_t kBefore = 8, kNew = 80;
  const auto raised = [] {
    Rows::Raised one;
    one.first = kNew;
    one.ids = {kBefore};
    one.before = {kBefore};
    one.newest = {kNew};
    one.code = {Code::kPresent};
    return one;
  };
  for (const bool is_pinned : {false, true}) {
    for (const std::uint64_t other : {kBefore, kNew}) {
      Rows rows(1);
      rows.say_id(kNew, kBefore);
      Rows::Holder holder = rows.holder();
      rows.look_up({kBefore});
      if (is_pinned) {
        EXPECT_TRUE(rows.pin(&holder, {kBefore}).empty());
      }
      rows.put_in_last_place(other);
      rows.renew(raised(), /*says_newest=*/true);
      const std::vector<std::uint64_t> places = rows.places_of_set();
      // Of two of before the last one is taken, which is as good.
      const std::uint64_t first = other == kBefore ? kBefore : 0;
      EXPECT_EQ(places.front(), is_pinned ? kNew : first) << other;
      EXPECT_EQ(std::count(places.begin(), places.end(), kNew), 1) << is_pinned << other;
      rows.check_places();
      EXPECT_EQ(rows.look_up({kNew})[0], 1);
    }
  }
}

// Goal: fifteen holders may have a row, whatever others have, and one more when one has let it go.
// Method: eighteen who ask for it, twice in one batch; two of those who have it ask again.
// Mutation: pins that run over into the next row's credit; a holder that is refused what it has.
TEST(HashCached, FifteenMayPinARow) {
  Rows rows(1);
  const std::vector<std::uint64_t> row(2, 8);
  std::vector<Rows::Holder> holders(18, rows.holder());
  for (std::size_t i = 0; i < holders.size(); ++i) {
    EXPECT_EQ(rows.pin(&holders[i], row).size(), i < SetRef::kPinsMax ? 0U : 2U);
  }
  EXPECT_TRUE(rows.pin(&holders[0], row).empty());
  EXPECT_TRUE(rows.pin(&holders[SetRef::kPinsMax - 1], row).empty());
  rows.check_pins(holders);
  rows.let_go(holders[3]);
  holders[3] = rows.holder();
  EXPECT_TRUE(rows.pin(&holders[16], row).empty());
  EXPECT_EQ(rows.pin(&holders[17], row).size(), 2U);
  rows.check_pins(holders);
  for (const Rows::Holder& holder : holders) rows.let_go(holder);
  rows.check_pins({});
}

// Goal: the same of threads.
// Method: three threads to a launch, over some sets, while two holders come and go.
// Mutation: a place that is named by a relaxed store before its row is there (ThreadSanitizer).
TEST(HashCached, ConcurrentThreadsPinRows) {
  base::Random random(2);
  Rows rows(64, nullptr, 3);
  for (int turn = 0; turn < 20; ++turn) {
    std::vector<Rows::Holder> holders;
    for (int i = 0; i < 2; ++i) {
      holders.push_back(rows.holder());
      std::vector<std::uint64_t> payload(600);
      for (std::uint64_t& one : payload) one = 8 * (1 + random.below(300));
      (void)rows.pin(&holders.back(), payload);
      rows.look_up(payload);
      rows.check_places();
      rows.check_pins(holders);
    }
    for (const Rows::Holder& holder : holders) rows.let_go(holder);
    rows.check_pins({});
    if (HasFailure()) return;
  }
}

// Goal: a row's counters are two, and rows of a set share both with few others.
// Method: 100,000 payloads over a thousand sets.
// Mutation: one counter twice; bits of the hash from which the set follows.
TEST(HashCached, CountersAreSpread) {
  Rows rows(1 << 10);
  std::map<std::uint64_t, std::map<std::tuple<std::uint64_t*, int, int>, std::size_t>> of_set;
  for (std::uint64_t payload = 8; payload < 800'000; payload += 8) {
    const std::uint64_t hash = cache_hash_of(rows.ref(), payload);
    const std::uint64_t set = set_of(rows.ref(), hash);
    const auto counter = MissCounter::of(rows.ref(), set, hash);
    ASSERT_NE(counter.first, counter.second);
    ASSERT_EQ((counter.word - rows.ref().misses) / static_cast<int>(MissCounter::kWords),
              static_cast<std::ptrdiff_t>(set));
    ++of_set[set][{counter.word, counter.first, counter.second}];
  }
  // Of some 98 rows in 4 * 16 * 15 pairs of counters, some five have those of another.
  for (const auto& [set, pairs] : of_set) {
    std::size_t of_rows = 0;
    for (const auto& [pair, of_pair] : pairs) of_rows += of_pair;
    EXPECT_GT(pairs.size() * 10, of_rows * 8) << set;
  }
}

// Goal: of recency, whatever was looked up comes in, and what was not for longest goes.
// Method: one set; a row is there as long as it is one of the last seven, and not behind eight
// others.
// Mutation: a newcomer without credit; credits that misses do not take from; a hit that adds one.
TEST(HashCached, RecencyKeepsWhatWasLookedUpLast) {
  for (const std::uint64_t seed : testing::seeds_to_run(100)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    Rows rows(1);
    rows.keep(RowCachePolicy::kRecency);
    const auto look = [&](std::uint64_t payload) { return rows.look_up({payload})[0] != 0; };
    const std::uint64_t hot = 8;
    look(hot);
    for (std::uint64_t turn = 0; turn < 200; ++turn) {
      const std::uint64_t others = 1 + random.below(kCacheWays - 2);  // and that before them
      std::uint64_t last = 0;
      for (std::uint64_t i = 0; i < others; ++i) {
        std::uint64_t one = 0;
        do one = 16 + 8 * random.below(1 << 20);
        while (!Rows::is_row(one));
        look(one);
        last = one;
      }
      ASSERT_TRUE(look(hot)) << "behind " << others << " others";
      ASSERT_TRUE(look(last));
    }
    // Behind eight others it is gone.
    for (std::uint64_t one = 1; one <= kCacheWays + 1; ++one) look(8 * (1 << 20) + 88 * one + 8);
    ASSERT_FALSE(look(hot));
  }
}

// Goal: a random cache takes every row in, and each of its places falls to some.
// Method: one set, full; each newcomer is there at once, and of the seven rows that were there each
// has gone behind many.
// Mutation: a place that nobody takes; a newcomer that has to have been missing before.
TEST(HashCached, RandomTakesAllIn) {
  Rows rows(1);
  rows.keep(RowCachePolicy::kRandom);
  std::uint64_t one = 0;
  const auto next = [&] {
    do one += 8;
    while (!Rows::is_row(one));
    return one;
  };
  std::vector<std::uint64_t> first(kCacheWays);
  for (std::uint64_t& row : first) row = next();
  rows.look_up(first);
  for (const std::uint64_t row : first) EXPECT_EQ(rows.look_up({row})[0], 1);
  for (int turn = 0; turn < 200; ++turn) {
    const std::uint64_t row = next();
    EXPECT_EQ(rows.look_up({row})[0], 0);
    EXPECT_EQ(rows.look_up({row})[0], 1);
  }
  for (const std::uint64_t row : first) EXPECT_EQ(rows.look_up({row})[0], 0);
}

}  // namespace breccia::hash::algo
