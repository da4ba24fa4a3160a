#include "record/keyed_hash.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.h"
#include "exec/memory.h"
#include "record/key_columns.h"
#include "support/seeds.h"

namespace breccia::record {

namespace {

HashSeed seed_of(base::Random* random) { return {random->next(), random->next() | 1}; }

std::uint64_t hash_of(const std::string& key, const HashSeed& seed) {
  return keyed_hash(key.data(), key.size(), seed);
}

}  // namespace

// Goal: a key has one hash, whether as bytes or in columns, and another one if it is longer by
//   zero bytes.
// Method: random keys of 0 to 40 bytes, many of them zeros; columns of one length and of several.
// Mutation: words that overlap, or a length that is left out.
TEST(KeyedHash, BytesAndColumnsAgree) {
  for (const std::uint64_t seed : testing::seeds_to_run(20)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const HashSeed secret = seed_of(&random);
    const bool uniform = random.one_in(2);
    const std::uint64_t length = random.below(41);
    KeyColumns columns(exec::plain_host_memory());
    std::vector<std::string> keys;
    for (int i = 0; i < 200; ++i) {
      std::string key(uniform ? length : random.below(41), '\0');
      for (char& byte : key) byte = random.one_in(2) ? '\0' : static_cast<char>(random.next());
      ASSERT_TRUE(columns.append(key.data(), key.size()));
      keys.push_back(std::move(key));
    }
    for (std::size_t i = 0; i < keys.size(); ++i) {
      ASSERT_EQ(hash_of(keys[i], secret), keyed_hash(columns.ref(), i, secret));
      ASSERT_NE(hash_of(keys[i], secret), hash_of(keys[i] + '\0', secret));
    }
  }
}

// Goal: hashes of keys that are alike spread as random numbers do, in their high and low bits, and
//   under every seed in another way.
// Method: counters as keys of 8 and 20 bytes in 256 bins, by each byte of the hash: chi-square with
//   255 degrees of freedom is below 400 but once in 10^8 times.
// Mutation: one multiplication, or none behind the last word.
TEST(KeyedHash, IsUniform) {
  constexpr std::uint64_t kKeys = 64 << 10;
  constexpr std::uint64_t kBins = 256;
  for (const std::uint64_t seed : testing::seeds_to_run(5)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const HashSeed secret = seed_of(&random);
    const HashSeed other = seed_of(&random);
    for (const bool is_long : {false, true}) {
      std::vector<std::vector<std::uint64_t>> bins(8, std::vector<std::uint64_t>(kBins));
      std::uint64_t same = 0;
      for (std::uint64_t i = 0; i < kKeys; ++i) {
        std::string key = is_long ? std::string(12, 'k') : std::string();
        for (int byte = 7; byte >= 0; --byte) key.push_back(static_cast<char>(i >> 8 * byte));
        const std::uint64_t hash = hash_of(key, secret);
        for (int byte = 0; byte < 8; ++byte)
          ++bins[static_cast<std::size_t>(byte)][hash >> 8 * byte & 0xff];
        same += (hash & 0xffff) == (hash_of(key, other) & 0xffff) ? 1 : 0;
      }
      for (const auto& of_byte : bins) {
        double chi_square = 0;
        for (const std::uint64_t count : of_byte) {
          const double away = static_cast<double>(count) - kKeys / kBins;
          chi_square += away * away / (kKeys / kBins);
        }
        EXPECT_LT(chi_square, 400.0);
      }
      EXPECT_LT(same, 16U);  // one is to be expected
    }
  }
}

}  // namespace breccia::record
