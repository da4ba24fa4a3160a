#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "disagg/memory/pool.h"
#include "disagg/memory/pool_image.h"
#include "support/seeds.h"

/// What servers know of which blocks are in use, beside sets.

namespace breccia::disagg {

namespace {

constexpr std::uint64_t kChunks = 3;

/// Blocks in use: their lines, by the number of their chunk, and that one's class.
class Model {
 public:
  struct Chunk {
    std::uint32_t size_class = 0;
    std::set<std::uint64_t> lines;
  };

  /// Whether a block of the class can begin there, as a chunk's first line is nobody's.
  static bool is_block(std::uint32_t size_class, std::uint64_t line) {
    if (size_class >= kSizeClasses || line / PoolImage::kChunkLines >= kChunks) return false;
    const std::uint64_t within = line % PoolImage::kChunkLines;
    return within > 0 && (within - 1) % lines_of(size_class) == 0 &&
           within + lines_of(size_class) <= PoolImage::kChunkLines;
  }
  bool take(std::uint32_t size_class, std::uint64_t line) {
    if (!is_block(size_class, line)) return false;
    Chunk& chunk = all_[line / PoolImage::kChunkLines];
    if (chunk.lines.empty()) chunk.size_class = size_class;
    return chunk.size_class == size_class && chunk.lines.insert(line).second;
  }
  bool give_back(std::uint32_t size_class, std::uint64_t line) {
    if (!is_block(size_class, line)) return false;
    Chunk& chunk = all_[line / PoolImage::kChunkLines];
    return chunk.size_class == size_class && chunk.lines.erase(line) == 1;
  }
  /// What is in use here and there, as blocks of one class.
  void keep_common(std::map<std::uint64_t, Chunk> other) {
    for (auto& [number, chunk] : all_) {
      const Chunk& there = other[number];
      std::erase_if(chunk.lines, [&](std::uint64_t line) {
        return there.size_class != chunk.size_class || !there.lines.contains(line);
      });
    }
  }
  [[nodiscard]] const std::map<std::uint64_t, Chunk>& all() const { return all_; }

 private:
  std::map<std::uint64_t, Chunk> all_;
};

void expect_same(const std::vector<PoolImage::Chunk>& chunks, const Model& model) {
  ASSERT_EQ(chunks.size(), kChunks);
  for (std::uint64_t number = 0; number < kChunks; ++number) {
    const PoolImage::Chunk& chunk = chunks[number];
    const auto found = model.all().find(number);
    const Model::Chunk expected = found == model.all().end() ? Model::Chunk() : found->second;
    ASSERT_EQ(chunk.used, expected.lines.size());
    const auto set = std::count(chunk.is_used.begin(), chunk.is_used.end(), true);
    ASSERT_EQ(static_cast<std::uint64_t>(set), chunk.used);
    if (expected.lines.empty()) continue;
    ASSERT_EQ(chunk.size_class, expected.size_class);
    ASSERT_EQ(chunk.is_used.size(), PoolImage::blocks_of(chunk.size_class));
    for (const std::uint64_t line : expected.lines) {
      PoolImage::Place place;
      ASSERT_TRUE(PoolImage::find_place(chunk.size_class, line, &place));
      ASSERT_TRUE(place.chunk == number && chunk.is_used[place.block]);
      ASSERT_EQ(PoolImage::line_of(chunk.size_class, place), line);
    }
  }
}

/// Of few classes, so that chunks have some blocks in use; one is of no class.
std::uint32_t draw_class(base::Random* random) {
  constexpr std::uint32_t kSome[] = {0, 7, 44, 45, kSizeClasses - 1, kSizeClasses};
  return kSome[random->below(std::size(kSome))];
}

/// A block's, often; or next to it, the last one of a chunk, or of none.
std::uint64_t draw_line(std::uint32_t size_class, base::Random* random) {
  if (size_class >= kSizeClasses) return random->below(100);
  const std::uint64_t blocks = PoolImage::blocks_of(size_class);
  const std::uint64_t block = random->one_in(4) ? blocks - 1 : random->below(std::min(blocks, 9UL));
  const std::uint64_t line =
      PoolImage::line_of(size_class, {.chunk = random->below(kChunks + 1), .block = block});
  return random->one_in(10) ? line - 1 + random->below(lines_of(size_class) + 2) : line;
}

/// Changes that are possible, and others.
void change_at_random(PoolImage* image, Model* model, base::Random* random) {
  for (int turn = 0; turn < 60; ++turn) {
    const std::uint32_t size_class = draw_class(random);
    const std::uint64_t line = draw_line(size_class, random);
    if (random->one_in(2)) {
      ASSERT_EQ(image->take(size_class, line), model->take(size_class, line)) << line;
    } else {
      ASSERT_EQ(image->give_back(size_class, line), model->give_back(size_class, line)) << line;
    }
  }
}

WireWriter told(const PoolImage& image) {
  WireWriter writer;
  for (std::uint64_t number = 0; number < kChunks; ++number) {
    const PoolImage::Chunk& chunk = image.chunks()[number];
    if (!chunk.is_used.empty()) add_chunk(number, chunk, &writer);
  }
  return writer;
}

}  // namespace

// Goal: an image has what a set of blocks has, refuses what is none, and is the same one where it
//   was told.
// Mutation: blocks off by one, or over a chunk's end; chunks whose class stays when no block is in
//   use; bits of other blocks; a count that is not theirs.
TEST(DisaggPoolImage, IsASet) {
  for (const std::uint64_t seed : testing::seeds_to_run(30)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    PoolImage image(kChunks);
    Model model;
    for (int round = 0; round < 4; ++round) {
      change_at_random(&image, &model, &random);
      expect_same(image.chunks(), model);
      PoolImage other(kChunks);
      const WireWriter writer = told(image);
      WireReader reader(writer.bytes());
      while (reader.left() > 0) ASSERT_TRUE(take_chunk(&reader, &other));
      expect_same(other.chunks(), model);
      if (HasFailure()) return;
    }
  }
}

// Goal: what is in use in two images is what both sets have, as blocks of one class.
TEST(DisaggPoolImage, KeepsWhatIsCommon) {
  for (const std::uint64_t seed : testing::seeds_to_run(100)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    PoolImage image(kChunks), other(kChunks);
    Model model, other_model;
    change_at_random(&image, &model, &random);
    if (random.one_in(2)) {
      other = image;
      other_model = model;
      change_at_random(&image, &model, &random);
    }
    change_at_random(&other, &other_model, &random);
    for (std::uint64_t number = 0; number < kChunks; ++number) {
      image.chunks()[number].keep_common(other.chunks()[number]);
    }
    model.keep_common(other_model.all());
    expect_same(image.chunks(), model);
    change_at_random(&image, &model, &random);
    expect_same(image.chunks(), model);
    if (HasFailure()) return;
  }
}

// Goal: what is no chunk changes nothing.
TEST(DisaggPoolImage, RefusesWhatIsNoChunk) {
  base::Random random(1);
  PoolImage image(kChunks);
  Model model;
  change_at_random(&image, &model, &random);
  const auto bits = [](std::uint64_t blocks) { return std::string((blocks + 7) / 8, '\xff'); };
  const auto refused = [&](std::uint64_t number, std::uint32_t size_class, const std::string& all) {
    const WireWriter writer = WireWriter().add(number).add(size_class).add_bytes(all);
    WireReader reader(writer.bytes());
    EXPECT_FALSE(take_chunk(&reader, &image));
    expect_same(image.chunks(), model);
  };
  constexpr std::uint32_t kClass = 44;
  const std::string good = bits(PoolImage::blocks_of(kClass));
  refused(kChunks, kClass, good);
  refused(~std::uint64_t{0}, kClass, good);
  refused(0, kSizeClasses, good);
  refused(0, kClass, good + "x");
  refused(0, kClass, good.substr(1));
  refused(0, kClass, "");
  WireReader nothing({});
  EXPECT_FALSE(take_chunk(&nothing, &image));
  expect_same(image.chunks(), model);
  // All of its bits, and some that are no blocks.
  const WireWriter full = WireWriter().add(std::uint64_t{0}).add(kClass).add_bytes(good);
  WireReader reader(full.bytes());
  ASSERT_TRUE(take_chunk(&reader, &image));
  EXPECT_EQ(image.chunks()[0].used, PoolImage::blocks_of(kClass));
}

// Goal: a pool that takes an image over has in use what that had, gives each other block once, and
//   knows which blocks stay in use all the time.
// Mutation: free blocks of a chunk that was never looked at; a chunk of no class that is not free;
//   blocks that were given back, or forgotten, among those that stay.
TEST(DisaggPoolImage, BecomesAPool) {
  for (const std::uint64_t seed : testing::seeds_to_run(100)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    PoolImage image(kChunks);
    Model model;
    change_at_random(&image, &model, &random);
    Pool pool(image);
    pool.watch();
    Model watched = model;
    std::uint64_t used = 0;
    for (const auto& [number, chunk] : model.all()) used += chunk.lines.size();
    ASSERT_EQ(pool.used_blocks(), used);
    for (int turn = 0; turn < 100; ++turn) {
      const std::uint32_t size_class = draw_class(&random);
      if (random.one_in(2) && size_class < kSizeClasses) {
        const std::uint64_t count = random.below(20);
        const std::vector<std::uint64_t> lines = pool.take(size_class, count);
        for (const std::uint64_t line : lines) ASSERT_TRUE(model.take(size_class, line)) << line;
        used += lines.size();
        ASSERT_EQ(pool.used_blocks(), used);
        if (lines.size() == count) continue;
        // There is no other one.
        for (std::uint64_t number = 0; number < kChunks; ++number) {
          const PoolImage::Chunk& chunk = pool.chunk(number);
          ASSERT_GT(chunk.used, 0U);
          ASSERT_TRUE(chunk.size_class != size_class || chunk.used == chunk.is_used.size());
        }
      } else {
        const std::uint64_t line = draw_line(size_class, &random);
        const bool is_back = model.give_back(size_class, line);
        ASSERT_EQ(pool.give_back(size_class, line), is_back);
        if (is_back) --used;
        if (is_back) (void)watched.give_back(size_class, line);
        const std::uint64_t other = draw_line(size_class, &random);
        pool.forget_watched(size_class, other);
        (void)watched.give_back(size_class, other);
      }
    }
    std::vector<PoolImage::Chunk> chunks;
    for (std::uint64_t number = 0; number < kChunks; ++number) chunks.push_back(pool.chunk(number));
    expect_same(chunks, model);
    expect_same(pool.watched().chunks(), watched);
    if (HasFailure()) return;
  }
}

}  // namespace breccia::disagg
