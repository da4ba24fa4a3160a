#include "sst/decompress.h"

#include <gtest/gtest.h>
#include <lz4.h>

#include <algorithm>
#include <string>

#include "base/random.h"
#include "support/seeds.h"

namespace breccia::sst {
namespace {

/// A block of LZ4 as RocksDB stores it: its length before what the compressor wrote.
std::string stored_block(const std::string& contents) {
  std::string stored;
  for (std::size_t rest = contents.size();; rest >>= 7) {
    stored.push_back(static_cast<char>(rest < 128 ? rest : rest % 128 + 128));
    if (rest < 128) break;
  }
  const std::size_t begin = stored.size();
  stored.resize(begin +
                static_cast<std::size_t>(LZ4_compressBound(static_cast<int>(contents.size()))));
  const int bytes = LZ4_compress_default(contents.data(), stored.data() + begin,
                                         static_cast<int>(contents.size()),
                                         static_cast<int>(stored.size() - begin));
  stored.resize(begin + static_cast<std::size_t>(bytes));
  return stored;
}

std::string some_contents(base::Random* random) {
  std::string contents;
  const std::size_t bytes = 1 + random->below(6000);
  while (contents.size() < bytes) {
    contents.append(1 + random->below(40), static_cast<char>(random->below(4)));
  }
  return contents;
}

// Goal: what is wanted of a block is what all of it begins with, whatever was in the room before.
// Mutation: an end that is one short; all of the room's bytes given out.
TEST(Decompress, GivesWhatIsWanted) {
  for (const std::uint64_t seed : testing::seeds_to_run(200)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const std::string contents = some_contents(&random);
    const std::string stored = stored_block(contents);
    std::string room(random.below(8000), 'x');
    Slice found;
    const std::uint64_t wanted = random.below(contents.size() + 10);
    ASSERT_TRUE(decompress(Compression::kLz4, stored, &room, &found, wanted).ok());
    ASSERT_GE(found.size(), std::min<std::uint64_t>(wanted, contents.size()));
    ASSERT_LE(found.size(), contents.size());
    EXPECT_EQ(found.ToString(), contents.substr(0, found.size()));
    ASSERT_TRUE(decompress(Compression::kLz4, stored, &room, &found).ok());
    EXPECT_EQ(found.ToString(), contents);
  }
}

// Goal: a block that was changed gives an error, or bytes of the room; nothing outside is read or
//       written (the sanitizers say).
TEST(Decompress, WhatIsBrokenStaysInside) {
  for (const std::uint64_t seed : testing::seeds_to_run(2000)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const std::string contents = some_contents(&random);
    std::string stored = stored_block(contents);
    for (std::uint64_t i = 1 + random.below(4); i > 0; --i) {
      stored[random.below(stored.size())] = static_cast<char>(random.next());
    }
    if (random.one_in(4)) stored.resize(random.below(stored.size()));
    std::string room;
    Slice found;
    const std::uint64_t wanted = random.below(contents.size() + 1);
    const Status status = decompress(Compression::kLz4, stored, &room, &found, wanted);
    if (!status.ok()) continue;
    ASSERT_LE(found.size(), room.size());
    EXPECT_EQ(found.ToString().size(), found.size());  // every byte is there to be read
  }
}

}  // namespace
}  // namespace breccia::sst
