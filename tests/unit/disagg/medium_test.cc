#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "disagg/block.h"
#include "disagg/memory/medium.h"
#include "pmem/page_memory.h"
#include "pmem/sim_region.h"
#include "support/folder.h"

/// What a memory server keeps, and finds again.

namespace breccia::disagg {

namespace {

constexpr std::uint64_t kChunkBytes = PoolImage::kChunkLines * kLineBytes;
constexpr std::uint64_t kValues = 2 * kChunkBytes;
constexpr std::uint64_t kAll = kValues;

pmem::PageMemory memory_of(std::uint64_t values) {
  return pmem::PageMemory::allocate(values + Medium::bytes_behind(values)).take();
}

std::span<std::byte> span_of(pmem::PageMemory* memory, std::uint64_t values) {
  return {memory->data(), values + Medium::bytes_behind(values)};
}

/// Persistent memory, as a power cut left it.
class SimPlace final : public MediumPlace {
 public:
  explicit SimPlace(std::vector<std::byte> image = {}) : image_(std::move(image)) {}

  Result<std::unique_ptr<pmem::Region>> open(std::span<std::byte> memory) override {
    image_.resize(memory.size());
    auto region = std::make_unique<pmem::SimRegion>(image_);
    region_ = region.get();
    return std::unique_ptr<pmem::Region>(std::move(region));
  }
  Status remove() override { return Status::OK(); }
  std::unique_ptr<MediumWorker> make_worker() override { return make_prompt_worker(); }
  pmem::SimRegion* region() { return region_; }

 private:
  std::vector<std::byte> image_;
  pmem::SimRegion* region_ = nullptr;
};

/// A medium with its memory.
struct Opened {
  pmem::PageMemory memory = memory_of(kAll);
  std::unique_ptr<Medium> medium;

  explicit Opened(MediumPlace* place) {
    auto opened = Medium::open(place, span_of(&memory, kAll), kAll);
    EXPECT_TRUE(opened.ok()) << opened.status().ToString();
    if (opened.ok()) medium = opened.take();
  }
  [[nodiscard]] std::span<std::byte> bytes_of(const Location& block) {
    return span_of(&memory, kAll).subspan(block.offset(), block.bytes());
  }
  [[nodiscard]] Status use_chunk(std::uint64_t chunk, std::uint32_t size_class) const {
    const Medium::Use use{chunk, size_class};
    return medium->use_chunks(std::span(&use, 1));
  }
  /// As a client writes it, and the server is told of its write.
  void put(const Location& block, const Slice& key, const Slice& value, std::uint64_t sequence) {
    const std::vector<std::byte> bytes = make_block(7, key, value);
    std::memcpy(bytes_of(block).data(), bytes.data(), bytes.size());
    if (sequence == 0) return;
    EXPECT_TRUE(commit_block(bytes_of(block), 7, sequence));
    medium->note(block.offset(), used_bytes(bytes_of(block)));
    medium->note_write(sequence);
  }
};

Location block_at(std::uint32_t size_class, std::uint64_t number, std::uint64_t chunk = 0) {
  return {.node = 0,
          .size_class = size_class,
          .line = PoolImage::line_of(size_class, {.chunk = chunk, .block = number})};
}

std::uint64_t used_in(const PoolImage& image) {
  std::uint64_t used = 0;
  for (const PoolImage::Chunk& one : image.chunks()) used += one.used;
  return used;
}

}  // namespace

// Goal: what it was told is there again, and nothing else: no block that has no number, none that
//   was replaced, none that nobody told of; its name, its cluster and the last write are the same.
// Mutation: values that are believed without a number, or with a mark; a last write that is that of
//   values alone.
TEST(DisaggMedium, HasWhatItWasTold) {
  SimPlace place;
  std::string id;
  std::vector<std::byte> image;
  const std::uint32_t size_class = class_of(300);
  {
    Opened one(&place);
    EXPECT_FALSE(one.medium->was_there());
    EXPECT_EQ(one.medium->cluster().factor, 0U);
    id = one.medium->id();
    ASSERT_TRUE(one.medium->be_of({.start = 5, .factor = 9}).ok());
    ASSERT_TRUE(one.use_chunk(1, size_class).ok());
    one.put(block_at(size_class, 0, 1), "kept", std::string(200, 'v'), 10);
    one.put(block_at(size_class, 1, 1), "without a number", "v", 0);
    one.medium->note(block_at(size_class, 1, 1).offset(), 300);
    one.put(block_at(size_class, 2, 1), "replaced", "v", 11);
    const Location replaced = block_at(size_class, 2, 1);
    ASSERT_TRUE(retire_block(one.bytes_of(replaced), {}, 12));
    one.medium->note(replaced.offset(), sizeof(BlockHeader));
    one.medium->note_write(12);
    EXPECT_LT(one.medium->kept(), one.medium->noted());
    ASSERT_TRUE(one.medium->tend().ok());
    EXPECT_EQ(one.medium->kept(), one.medium->noted());
    one.put(block_at(size_class, 3, 1), "not kept", "v", 13);
    image = place.region()->durable_image();
  }
  SimPlace again(image);
  Opened one(&again);
  EXPECT_TRUE(one.medium->was_there());
  EXPECT_EQ(one.medium->id(), id);
  EXPECT_EQ(one.medium->cluster(), (record::HashSeed{.start = 5, .factor = 9}));
  std::uint64_t last = 0;
  const PoolImage values = one.medium->values(&last);
  EXPECT_EQ(last, 12U);
  EXPECT_EQ(used_in(values), 1U);
  const Location kept = block_at(size_class, 0, 1);
  EXPECT_TRUE(values.has(size_class, kept.line));
  const auto view = whole_block(one.bytes_of(kept));
  ASSERT_TRUE(view.has_value());
  EXPECT_EQ(view->key, Slice("kept"));
  EXPECT_EQ(view->sequence, 10U);
  // A client that writes there brings no number of before.
  EXPECT_EQ(key_in(one.bytes_of(block_at(size_class, 2, 1))), Slice());
}

// Goal: bytes of a value that look like a block are none where the chunk has another class, at
//   whatever moment the power is cut.
// Method: all that may be there at each persist, some thousand images.
// Mutation: headers that are not wiped; a class that may be there before that.
TEST(DisaggMedium, BytesOfAValueAreNoBlock) {
  constexpr std::uint32_t kSmall = 0;
  const std::uint32_t large = class_of(4000);
  SimPlace place;
  Opened one(&place);
  ASSERT_TRUE(one.use_chunk(0, large).ok());
  // Where blocks of one line begin there are whole ones, with a number.
  const Location block = block_at(large, 1);
  std::vector<std::byte> ghost = make_block(3, "g", "ghost");
  commit_block(ghost, 3, 99);
  ghost.resize(kLineBytes);
  std::string value;
  value.append(kLineBytes - sizeof(BlockHeader) - 1, '.');  // up to the next line
  for (int i = 0; i < 50; ++i) {
    value.append(reinterpret_cast<const char*>(ghost.data()), ghost.size());
  }
  one.put(block, "k", value, 10);
  ASSERT_TRUE(one.medium->keep_all().ok());
  ASSERT_TRUE(retire_block(one.bytes_of(block), {}, 11));
  one.medium->note(block.offset(), sizeof(BlockHeader));
  ASSERT_TRUE(one.medium->keep_all().ok());
  int images = 0;
  const auto look = [&](const std::vector<std::byte>& image) {
    ++images;
    SimPlace left(image);
    Opened found(&left);
    std::uint64_t last = 0;
    const PoolImage values = found.medium->values(&last);
    EXPECT_LE(used_in(values), 1U);
    const Location own = block_at(kSmall, 7);
    EXPECT_TRUE(used_in(values) == 0 || values.has(kSmall, own.line)) << images;
  };
  constexpr std::uint64_t kSamples = 20;
  place.region()->on_crash_point(
      [&](const pmem::CrashImages& all) { all.sampled(1, kSamples, look); });
  ASSERT_TRUE(one.use_chunk(0, kSmall).ok());
  one.put(block_at(kSmall, 7), "k", "v", 12);
  ASSERT_TRUE(one.medium->keep_all().ok());
  place.region()->crash_images().sampled(2, kSamples, look);
  EXPECT_GT(images, 20);
}

// Goal: a file in which values are kept on a disk: what was told is there when it says so; it is
//   one server's at a time, of one size; who removes it begins anew.
// Mutation: kept() before the disk has it is found by DisaggPowerCut.
TEST(DisaggMedium, IsAFile) {
  const breccia::testing::Folder folder(breccia::testing::Place::kMemory);
  const std::string path = folder / "values";
  const auto place = medium_in_file(path);
  const std::uint32_t size_class = class_of(100);
  std::string id;
  {
    Opened one(place.get());
    id = one.medium->id();
    ASSERT_TRUE(one.use_chunk(0, size_class).ok());
    for (std::uint64_t i = 0; i < 100; ++i) {
      one.put(block_at(size_class, i), "k" + std::to_string(i), "v", i + 1);
      ASSERT_TRUE(one.medium->tend().ok());
    }
    while (one.medium->kept() < one.medium->noted()) {
      ASSERT_TRUE(one.medium->tend().ok());
      std::this_thread::yield();
    }
    pmem::PageMemory other = memory_of(kAll);
    EXPECT_TRUE(Medium::open(place.get(), span_of(&other, kAll), kAll).status().IsBusy());
  }
  {
    Opened one(place.get());
    EXPECT_EQ(one.medium->id(), id);
    std::uint64_t last = 0;
    EXPECT_EQ(used_in(one.medium->values(&last)), 100U);
    EXPECT_EQ(last, 100U);
  }
  pmem::PageMemory larger = memory_of(2 * kAll);
  EXPECT_TRUE(
      Medium::open(place.get(), span_of(&larger, 2 * kAll), 2 * kAll).status().IsInvalidArgument());
  ASSERT_TRUE(place->remove().ok());
  Opened anew(place.get());
  EXPECT_FALSE(anew.medium->was_there());
  EXPECT_NE(anew.medium->id(), id);
}

// Goal: where the disk takes no more nothing is kept from there on, and whoever asks is told.
// Mutation: a persist that failed and is forgotten.
TEST(DisaggMedium, SaysThatItFails) {
  SimPlace place;
  Opened one(&place);
  ASSERT_TRUE(one.use_chunk(0, 1).ok());
  ASSERT_TRUE(one.medium->keep_all().ok());
  const std::uint64_t kept = one.medium->kept();
  place.region()->fail_after(0);
  one.put(block_at(1, 0), "k", "v", 1);
  EXPECT_TRUE(one.medium->tend().IsIOError());
  EXPECT_TRUE(one.medium->keep_all().IsIOError());
  EXPECT_EQ(one.medium->kept(), kept);
  one.put(block_at(1, 1), "l", "v", 2);
  EXPECT_TRUE(one.medium->tend().IsIOError());
  EXPECT_EQ(one.medium->kept(), kept);
}

}  // namespace breccia::disagg
