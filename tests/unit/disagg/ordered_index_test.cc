#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "disagg/index/ordered_index.h"
#include "support/seeds.h"

/// The ordered server's index, beside a std::map.

namespace breccia::disagg {
namespace {

using Model = std::map<std::string, Slot>;
using MakeKey = std::function<std::string(base::Random*)>;

std::string some_bytes(base::Random* random, std::size_t most, std::string_view alphabet) {
  std::string bytes(random->below(most + 1), '\0');
  for (char& one : bytes) one = alphabet[random->below(alphabet.size())];
  return bytes;
}

/// Ways of keys to be hard to tell apart.
std::vector<MakeKey> ways() {
  static constexpr std::string_view kEnds(
      "\0\xff"
      "a",
      3);
  static constexpr std::string_view kDigits("0123456789");
  return {
      // Few bytes, and those that heads are filled with.
      [](base::Random* random) { return some_bytes(random, 6, kEnds) + kEnds[random->below(3)]; },
      // Nothing but their lengths, on both sides of a head's.
      [](base::Random* random) { return std::string(1 + random->below(2000), '\0'); },
      // A long beginning that nearly all have, and nothing behind it for one of them.
      [](base::Random* random) {
        const std::string beginning(random->one_in(20) ? random->below(40) : 30, 'p');
        return "p" + beginning + some_bytes(random, 12, kDigits);
      },
      // Beginnings of several lengths, one in another.
      [](base::Random* random) {
        return std::string(1 + 5 * random->below(5), 'b') + some_bytes(random, 3, kDigits);
      },
      // As long as may be, the last bytes apart; and short ones among them.
      [](base::Random* random) {
        if (random->one_in(2)) return "L" + some_bytes(random, 4, kDigits);
        std::string key(kKeyBytesMax, 'L');
        const std::string end = some_bytes(random, 2, kDigits);
        std::copy(end.begin(), end.end(), key.end() - static_cast<std::ptrdiff_t>(end.size()));
        key.resize(kKeyBytesMax - (random->one_in(3) ? random->below(20'000) : 0));
        return key;
      },
      // As hashes are.
      [](base::Random* random) { return std::to_string(base::mix64(random->below(20'000))); }};
}

std::string key_at(const OrderedIndex::Cursor& at) {
  std::string key(at.key_bytes(), '\0');
  at.copy_key(key.data());
  return key;
}

void expect_same(const OrderedIndex& index, const Model& model) {
  index.check();
  ASSERT_EQ(index.size(), model.size());
  auto at = index.lower_bound("");
  for (const auto& [of_model, slot] : model) {
    ASSERT_FALSE(at.is_at_end());
    ASSERT_EQ(key_at(at), of_model);
    ASSERT_EQ(at.slot(), slot);
    at.next();
  }
  ASSERT_TRUE(at.is_at_end());
}

void expect_same_from(const OrderedIndex& index, const Model& model, const std::string& key) {
  const auto of_model = model.lower_bound(key);
  const auto at = index.lower_bound(key);
  ASSERT_EQ(at.is_at_end(), of_model == model.end());
  if (!at.is_at_end()) {
    ASSERT_EQ(key_at(at), of_model->first);
  }
}

Slot slot_of(const Model& model, const std::string& key) {
  const auto found = model.find(key);
  return found == model.end() ? 0 : found->second;
}

/// Puts, erases and looks for keys; more are erased than put if `shrinks`.
void change(OrderedIndex* index, Model* model, base::Random* random, const MakeKey& make_key,
            int times, bool shrinks) {
  for (int i = 0; i < times; ++i) {
    std::string key = make_key(random);
    // Those that are there are met again, too.
    const auto near = model->lower_bound(key);
    if (random->one_in(2) && near != model->end()) key = near->first;
    const Slot before = slot_of(*model, key);
    ASSERT_EQ(index->find(key), before);
    if (random->below(10) < (shrinks ? 9U : 3U)) {
      ASSERT_EQ(index->erase(key), before);
      model->erase(key);
    } else {
      const Slot slot = 1 + random->below(1 << 30);
      ASSERT_EQ(index->put(key, slot), before);
      (*model)[key] = slot;
    }
    ASSERT_EQ(index->size(), model->size());
    if (i % 16 == 0) expect_same_from(*index, *model, make_key(random));
    if (i % 512 == 0) index->check();
  }
}

// Goal: it does what a map does, whatever bytes keys have, while it grows and shrinks through all
//   heights, down to nothing.
// Mutation: keys that are compared by their heads alone, or by heads and rests without their
//   lengths; a page that keeps a beginning which a new key does not have; a separator that is a
//   byte too short; a page whose row goes on at one that is no more; pages that are never joined.
TEST(DisaggOrderedIndex, DoesWhatAMapDoes) {
  const std::vector<MakeKey> all = ways();
  for (const std::uint64_t seed : testing::seeds_to_run(4 * all.size())) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const MakeKey& make_key = all[seed % all.size()];
    OrderedIndex index;
    Model model;
    for (const bool shrinks : {false, true, false, true}) {
      change(&index, &model, &random, make_key, 4000, shrinks);
      if (HasFatalFailure()) return;
      expect_same(index, model);
      if (HasFatalFailure()) return;
    }
    while (!model.empty()) {
      ASSERT_NE(index.erase(model.begin()->first), 0U);
      model.erase(model.begin());
      if (model.size() % 64 == 0) expect_same(index, model);
    }
    // One page, with room that keys had.
    EXPECT_LT(index.memory_bytes(), OrderedIndex().memory_bytes() + 4 * kKeyBytesMax);
  }
}

std::vector<LooseKeys> parts_of(const std::vector<std::pair<std::string, Slot>>& keys,
                                std::size_t count, base::Random* random) {
  std::vector<LooseKeys> parts(count);
  for (const auto& [key, slot] : keys) parts[random->below(count)].add(key, slot);
  return parts;
}

// Goal: what is built at once has all keys, each once, is the same by many threads as by one, and
//   takes changes like any other.
// Mutation: keys that are compared by heads alone; ranges whose ends are off by one; pages whose
//   separators are of other pages; keys that are there twice.
TEST(DisaggOrderedIndex, IsBuiltOfManyKeys) {
  const std::vector<MakeKey> all = ways();
  for (const std::uint64_t seed : testing::seeds_to_run(4 * all.size())) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const MakeKey& make_key = all[seed % all.size()];
    Model model;
    std::vector<std::pair<std::string, Slot>> keys;
    const std::uint64_t count = random.one_in(4) ? random.below(70) : random.below(15'000);
    for (std::uint64_t i = 0; i < count; ++i) {
      std::string key = make_key(&random);
      // Of some there are two, with one place.
      const auto [there, is_new] = model.try_emplace(key, 1 + random.below(1 << 30));
      if (is_new || random.one_in(8)) keys.emplace_back(std::move(key), there->second);
    }
    const auto parts = parts_of(keys, 1 + random.below(100), &random);
    OrderedIndex index = OrderedIndex::build(parts, /*is_shared=*/true);
    expect_same(index, model);
    const OrderedIndex alone = OrderedIndex::build(parts, /*is_shared=*/false);
    expect_same(alone, model);
    if (HasFatalFailure()) return;
    EXPECT_EQ(index.memory_bytes(), alone.memory_bytes());
    for (const bool shrinks : {false, true}) {
      change(&index, &model, &random, make_key, 1000, shrinks);
      if (HasFatalFailure()) return;
      expect_same(index, model);
    }
  }
}

// Goal: a key of 16 bytes takes 32 bytes of memory when it is built, 42 when keys came one by one,
//   in any order, and 32 if they came in theirs.
// Mutation: pages that are divided in the middle wherever a key comes; keys with all their bytes.
TEST(DisaggOrderedIndex, TakesLittleMemory) {
  constexpr std::uint64_t kKeys = 100'000;
  std::vector<std::pair<std::string, Slot>> keys;
  OrderedIndex by_and_by, in_order;
  for (std::uint64_t i = 0; i < kKeys; ++i) {
    char key[17];
    std::snprintf(key, sizeof key, "%016llx", static_cast<unsigned long long>(base::mix64(i)));
    keys.emplace_back(key, i + 1);
    by_and_by.put(key, i + 1);
  }
  base::Random random(1);
  const OrderedIndex built = OrderedIndex::build(parts_of(keys, 100, &random), true);
  std::sort(keys.begin(), keys.end());
  for (const auto& [key, slot] : keys) in_order.put(key, slot);
  built.check();
  EXPECT_EQ(built.size(), kKeys);
  EXPECT_LT(built.memory_bytes(), 32 * kKeys);
  EXPECT_LT(by_and_by.memory_bytes(), 42 * kKeys);
  EXPECT_LT(in_order.memory_bytes(), 32 * kKeys);
}

}  // namespace
}  // namespace breccia::disagg
