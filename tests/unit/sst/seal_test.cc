#include "sst/seal.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "exec/host/host_executor.h"
#include "exec/host/host_memory.h"
#include "exec/memory.h"
#include "record/key_columns.h"

namespace breccia::sst {
namespace {

/// Blocks of entries with values of `value_bytes` bytes, as the encoder writes them.
class Encoded {
 public:
  Encoded(const std::vector<std::string>& keys, std::uint32_t value_bytes)
      : value_(value_bytes, 'v'), entries_(keys.size()) {
    record::KeyColumns columns(exec::plain_host_memory());
    std::vector<std::uint64_t> tags(keys.size(), 7 << 8 | 1);
    std::vector<std::uint32_t> lengths(keys.size(), value_bytes);
    std::vector<const char*> values(keys.size(), value_.data());
    std::vector<std::uint32_t> ids;
    for (const std::string& key : keys) {
      EXPECT_TRUE(columns.append(key.data(), key.size()));
      ids.push_back(static_cast<std::uint32_t>(ids.size()));
    }
    exec::host::HostExecutor x(pool_);
    const algo::SurvivorsRef survivors{{columns.ref(), tags.data(), values.data(), lengths.data()},
                                       ids.data(),
                                       tags.data(),
                                       keys.size()};
    algo::Encoder encoder(x, survivors, shape_);
    algo::Blocks made;
    EXPECT_TRUE(encoder.run(/*stock_file_bytes=*/0, &made).ok());
    bytes.assign(made.bytes.data(), made.bytes.count() - algo::kPadBytes);
    blocks.assign(made.blocks.data(), made.blocks.data() + made.blocks.count());
  }

  Status seal(SealedBlocks* sealed) {
    return sst::seal(shape_, bytes.data(), bytes.size(), entries_, blocks, sealed);
  }

  std::string bytes;
  std::vector<algo::EncodedBlock> blocks;

 private:
  const TableShape shape_;
  const std::string value_;
  const std::uint64_t entries_;
  exec::host::HostPool pool_{1ULL << 30};
};

/// Keys k0000, k0001 and so on, each with as many bytes behind it.
std::vector<std::string> keys_of(std::size_t count, std::size_t more) {
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < count; ++i) {
    keys.push_back(fmt::format("k{:04}", i) + std::string(more, 'x'));
  }
  return keys;
}

// Goal: a block's ends are its first and its last key, whether the encoder says them or, of keys
//       that are too long for that, the block alone.
// Method: keys of 5 bytes, of just as many as are said, of one more, and of a hundred.
// Mutation: not reading a block of whose keys nothing is said finds empty keys.
TEST(Seal, EndsAreThoseOfTheEntries) {
  constexpr std::size_t kSaid = sizeof algo::EndKey::word - kTagBytes;
  for (const std::size_t key_bytes : {std::size_t{5}, kSaid, kSaid + 1, std::size_t{100}}) {
    const std::vector<std::string> keys = keys_of(3000, key_bytes - 5);
    Encoded encoded(keys, /*value_bytes=*/50);
    ASSERT_GT(encoded.blocks.size(), 40U);
    EXPECT_EQ(encoded.blocks[1].first.bytes == 0, key_bytes > kSaid);
    SealedBlocks sealed;
    ASSERT_TRUE(encoded.seal(&sealed).ok());
    ASSERT_EQ(sealed.blocks.size(), encoded.blocks.size());
    for (const SealedBlock& block : sealed.blocks) {
      const std::uint64_t last = block.info.first_entry + block.info.entries - 1;
      EXPECT_EQ(InternalKey::of(block.first_key).user_key, keys[block.info.first_entry]);
      EXPECT_EQ(InternalKey::of(block.last_key).user_key, keys[last]);
      if (last + 1 == keys.size()) continue;
      const Slice separator = InternalKey::of(block.separator).user_key;
      EXPECT_GE(separator.compare(keys[last]), 0);
      EXPECT_LT(separator.compare(keys[last + 1]), 0);
    }
  }
}

// Goal: what a device says of its blocks is not believed where it can be seen to be wrong.
// Method: what is said is changed: keys of a block that is looked at, their order, lengths that no
//         key has, places, counts, and a block's bytes.
// Mutation: leaving out any of the checks lets its lie through.
TEST(Seal, LiesAreFound) {
  struct Lie {
    const char* what;
    std::function<void(Encoded*)> tell;
  };
  const std::vector<Lie> lies = {
      {"another first key", [](Encoded* at) { at->blocks[16].first.word[0] ^= 1ULL << 32; }},
      {"another last key", [](Encoded* at) { at->blocks[16].last.word[0] ^= 1ULL << 32; }},
      {"keys of the next block", [](Encoded* at) { at->blocks[5].last = at->blocks[7].first; }},
      {"the last key at both ends", [](Encoded* at) { at->blocks[5].first = at->blocks[5].last; }},
      {"the first key at both ends", [](Encoded* at) { at->blocks[5].last = at->blocks[5].first; }},
      {"another key at the end of all",
       [](Encoded* at) { at->blocks.back().last.word[0] ^= 1ULL << 32; }},
      {"a key shorter than its tag", [](Encoded* at) { at->blocks[5].first.bytes = 7; }},
      {"a key longer than its room", [](Encoded* at) { at->blocks[5].last.bytes = 41; }},
      {"a hole before a block", [](Encoded* at) { at->blocks[5].info.offset += 1; }},
      {"entries that are in no block", [](Encoded* at) { at->blocks[5].info.entries -= 1; }},
      {"a block beyond the bytes", [](Encoded* at) { at->blocks.back().info.bytes += 1; }},
      {"no block", [](Encoded* at) { at->blocks.pop_back(); }},
      {"another byte", [](Encoded* at) { at->bytes[at->blocks[32].info.offset + 100] ^= 1; }},
  };
  for (const Lie& lie : lies) {
    Encoded encoded(keys_of(3000, 11), /*value_bytes=*/50);
    lie.tell(&encoded);
    SealedBlocks sealed;
    EXPECT_TRUE(encoded.seal(&sealed).IsCorruption()) << lie.what;
  }
}

}  // namespace
}  // namespace breccia::sst
