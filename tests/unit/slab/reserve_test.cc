#include "slab/reserve.h"

#include <gtest/gtest.h>

#include <bit>
#include <numeric>
#include <vector>

#include "base/random.h"
#include "exec/host/host_executor.h"
#include "exec/host/host_memory.h"
#include "support/seeds.h"

namespace breccia::slab {
namespace {

/// Heads of which some lie in the host's memory, each with its number as its first key.
class Heads {
 public:
  explicit Heads(std::uint64_t slabs)
      : slabs_(exec::plain_host_memory(), 2, Segments::Behind::kHost),
        budget_{.bytes_max = slabs * sizeof(Slab)} {
    budget_.host_bytes_max = ~std::uint64_t{0};
    while (slabs_.count() < kHeads) {
      BRECCIA_ASSERT(slabs_.grow(x_, &budget_).ok());
      BRECCIA_ASSERT(reserve_.cover(x_, slabs_, kSpare, &budget_).ok());
    }
    for (std::uint64_t i = 0; i < kHeads; ++i) head(i)->key[0] = i;
  }

  [[nodiscard]] TableRef ref() const {
    TableRef table;
    table.heads = slabs_.ref();
    table.reserve = reserve_.ref();
    return table;
  }
  [[nodiscard]] const Budget& budget() const { return budget_; }
  [[nodiscard]] const Reserve& reserve() const { return reserve_; }
  [[nodiscard]] Slab* head(std::uint64_t number) const {
    return algo::head_of(exec::HostGroup<4>(), ref(), number);
  }
  [[nodiscard]] bool is_up(std::uint64_t number) const {
    return head(number) != slabs_.ref().at(number);
  }
  void heat(std::uint64_t number, std::uint64_t by) { *algo::note_of(ref(), number) += by; }
  [[nodiscard]] std::uint64_t heat_of(std::uint64_t number) const {
    return HeadNote(*algo::note_of(ref(), number)).heat();
  }
  bool move() {
    bool is_done = false;
    BRECCIA_ASSERT(reserve_.move(x_, ref(), &is_done).ok());
    return is_done;
  }
  void expect_all() const {
    std::uint64_t up = 0;
    for (std::uint64_t i = 0; i < kHeads; ++i) {
      ASSERT_EQ(head(i)->key[0], i);
      if (is_up(i)) ++up;
    }
    ASSERT_EQ(up, reserve_.slabs());
  }

  static constexpr std::uint64_t kHeads = 512;
  static constexpr std::uint64_t kSpare = 2 * sizeof(Slab);

 private:
  exec::host::HostPool pool_{~std::uint64_t{0}};
  exec::host::HostExecutor x_{pool_};
  Segments slabs_;
  Budget budget_;
  Reserve reserve_;
};

// Goal: the reserve is what the backend has left, full from the beginning, and its notes count.
// Method: tables of several budgets.
// Mutation: a reserve that takes what notes need; one whose slabs are two heads'.
TEST(Reserve, TakesWhatIsLeft) {
  for (const std::uint64_t slabs : {5U, 8U, 100U, 200U, 255U, 300U}) {
    SCOPED_TRACE(slabs);
    const Heads heads(slabs);
    EXPECT_LE(heads.budget().bytes, slabs * sizeof(Slab));
    const std::uint64_t own = std::bit_floor(slabs);
    EXPECT_LE(heads.reserve().slabs(), slabs - own);
    EXPECT_TRUE(heads.reserve().slabs() == 0 ||
                heads.budget().bytes + Heads::kSpare <= slabs * sizeof(Slab));
    EXPECT_EQ(heads.budget().bytes, (own + heads.reserve().slabs()) * sizeof(Slab) +
                                        heads.ref().reserve.count * sizeof(std::uint64_t));
    if (slabs - own > 16) {
      EXPECT_GT(heads.reserve().slabs(), (slabs - own) / 2);
    }
    heads.expect_all();
  }
}

// Goal: what is hot lies in the reserve, what was hot goes, and nobody comes for nothing.
// Method: heads are made hot, some more than others; then others are; then all alike.
// Mutation: a threshold one heat too low, or of heads that were not counted; heat that stays.
TEST(Reserve, HasTheHottest) {
  for (const std::uint64_t seed : testing::seeds_to_run(20)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    Heads heads(160);
    const std::uint64_t first = heads.ref().reserve.first;
    const std::uint64_t room = heads.reserve().slabs();
    ASSERT_GT(room, 10U);
    std::vector<std::uint64_t> order(Heads::kHeads - first);
    std::iota(order.begin(), order.end(), first);
    std::uint64_t unit = 1;
    for (int turn = 0; turn < 3; ++turn, unit *= 10) {
      for (std::size_t i = order.size(); i > 1; --i)
        std::swap(order[i - 1], order[random.below(i)]);
      // What was hot before is not half so hot.
      const std::uint64_t hot = random.below(room) + 1;
      for (std::uint64_t i = 0; i < hot; ++i) heads.heat(order[i], unit * (9 + i % 8));
      for (std::uint64_t i = hot; i < order.size(); ++i) heads.heat(order[i], random.below(3));
      std::vector<std::uint64_t> heat;
      for (const std::uint64_t number : order) heat.push_back(heads.heat_of(number));
      EXPECT_TRUE(heads.move() || room <= hot);
      heads.expect_all();
      for (std::uint64_t i = 0; i < hot; ++i) EXPECT_TRUE(heads.is_up(order[i])) << i;
      for (std::uint64_t i = 0; i < order.size(); ++i) {
        EXPECT_EQ(heads.heat_of(order[i]), heat[i] / 2);
      }
    }
    for (const std::uint64_t number : order) heads.heat(number, 10'000);
    const std::uint64_t risen = heads.reserve().risen();
    EXPECT_TRUE(heads.move());
    EXPECT_EQ(heads.reserve().risen(), risen);
    heads.expect_all();
  }
}

// Goal: what is warm stays up beside what is hot: only what is less than half so hot goes.
// Method: half of the reserve warm, half cold, and as many hot heads as are cold; all others are
//   warm, too.
// Mutation: heads that go down for any that are hotter.
TEST(Reserve, KeepsTheWarm) {
  Heads heads(160);
  const std::uint64_t first = heads.ref().reserve.first;
  const std::uint64_t warm = heads.reserve().slabs() / 2;
  const std::uint64_t cold = heads.reserve().slabs() - warm;
  const std::uint64_t hot = Heads::kHeads - cold;  // the last ones
  for (std::uint64_t i = first; i < Heads::kHeads; ++i) {
    const bool is_cold = i >= first + warm && i < first + warm + cold;
    heads.heat(i, is_cold ? 5 : i < hot ? 20 : 30);
  }
  EXPECT_TRUE(heads.move());
  heads.expect_all();
  for (std::uint64_t i = 0; i < warm; ++i) EXPECT_TRUE(heads.is_up(first + i)) << i;
  for (std::uint64_t i = hot; i < Heads::kHeads; ++i) EXPECT_TRUE(heads.is_up(i)) << i;
}

}  // namespace
}  // namespace breccia::slab
