#include "fabric/message.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/random.h"
#include "support/seeds.h"

namespace breccia::fabric {

namespace {

std::vector<std::byte> message_of(const Header& header, const std::vector<std::byte>& payload) {
  const WireHeader head = encode(header, payload);
  std::vector<std::byte> message(head.begin(), head.end());
  message.insert(message.end(), payload.begin(), payload.end());
  return message;
}

std::vector<std::byte> some_bytes(base::Random* random, std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::byte& one : bytes) one = static_cast<std::byte>(random->below(256));
  return bytes;
}

}  // namespace

// Goal: what was encoded is decoded, of all sizes.
TEST(FabricMessage, ComesBack) {
  base::Random random(1);
  for (const std::size_t bytes : {0, 1, 7, 8, 31, 32, 33, 4096, 1 << 20}) {
    const Header header{.kind = 7, .epoch = 0xffffffff, .request = random.next()};
    const std::vector<std::byte> payload = some_bytes(&random, bytes);
    const std::vector<std::byte> message = message_of(header, payload);
    ASSERT_EQ(message_bytes(message), message.size());
    Header found;
    std::span<const std::byte> rest;
    ASSERT_EQ(decode(message, &found, &rest), Damage::kNone);
    EXPECT_EQ(found, header);
    EXPECT_TRUE(std::equal(rest.begin(), rest.end(), payload.begin(), payload.end()));
  }
}

// Goal: no byte of a message may be another, and no message shorter or longer.
// Method: each bit of some messages; each length.
// Mutation: a checksum that leaves out the header, or its reserved bytes.
TEST(FabricMessage, DamageIsSeen) {
  base::Random random(2);
  const std::vector<std::byte> whole =
      message_of({.kind = 1, .epoch = 2, .request = 3}, some_bytes(&random, 40));
  Header header;
  std::span<const std::byte> payload;
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::vector<std::byte> damaged = whole;
    damaged[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    EXPECT_NE(decode(damaged, &header, &payload), Damage::kNone) << "bit " << bit;
  }
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_NE(decode(std::span(whole).first(bytes), &header, &payload), Damage::kNone) << bytes;
  }
  std::vector<std::byte> longer = whole;
  longer.push_back(std::byte{0});
  EXPECT_EQ(decode(longer, &header, &payload), Damage::kLength);
}

// Goal: whatever comes, nothing but it is read, and nothing is made of it that was not sent.
// Method: random bytes, half of them behind a header's first ones (AddressSanitizer).
TEST(FabricMessage, GarbageIsRefused) {
  for (const std::uint64_t seed : testing::seeds_to_run(20'000)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    std::vector<std::byte> bytes = some_bytes(&random, random.below(100));
    const WireHeader head = encode({}, {});
    if (random.one_in(2)) {
      std::copy_n(head.begin(), std::min<std::size_t>(bytes.size(), 3), bytes.begin());
    }
    Header header;
    std::span<const std::byte> payload;
    ASSERT_NE(decode(bytes, &header, &payload), Damage::kNone);
    if (bytes.size() < kHeaderBytes) continue;
    const auto length = message_bytes(bytes);
    ASSERT_TRUE(!length.has_value() || *length <= kHeaderBytes + kPayloadMax);
  }
}

}  // namespace breccia::fabric
