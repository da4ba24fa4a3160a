#include <breccia/hash_store.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/folder.h"

namespace breccia {

namespace {

constexpr std::size_t kRowBytes = 128;
constexpr std::size_t kWords = kRowBytes / sizeof(std::uint64_t);

/// An array in memory of the GPU.
template <class T>
class There {
 public:
  explicit There(std::size_t count) : count_(count) {
    EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&at_), count * sizeof(T)), cudaSuccess);
    EXPECT_EQ(cudaMemset(at_, 0, count * sizeof(T)), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(cudaStreamLegacy), cudaSuccess);  // before other streams write
  }
  ~There() { EXPECT_EQ(cudaFree(at_), cudaSuccess); }
  There(const There&) = delete;
  There& operator=(const There&) = delete;

  [[nodiscard]] T* at() const { return at_; }
  void put(const std::vector<T>& from, cudaStream_t stream) const {
    EXPECT_EQ(
        cudaMemcpyAsync(at_, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice, stream),
        cudaSuccess);
  }
  /// Without a wait, as copies of ordinary memory may have one.
  void copy(const There& from, cudaStream_t stream) const {
    EXPECT_EQ(cudaMemcpyAsync(at_, from.at_, count_ * sizeof(T), cudaMemcpyDeviceToDevice, stream),
              cudaSuccess);
  }
  [[nodiscard]] std::vector<T> get() const {
    std::vector<T> copy(count_);
    EXPECT_EQ(cudaMemcpy(copy.data(), at_, count_ * sizeof(T), cudaMemcpyDeviceToHost),
              cudaSuccess);
    return copy;
  }

 private:
  T* at_ = nullptr;
  std::size_t count_;
};

/// A stream of the caller's, which can be made to stand still.
class HeldStream {
 public:
  HeldStream() {
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
  }
  ~HeldStream() {
    release();
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
  }
  HeldStream(const HeldStream&) = delete;
  HeldStream& operator=(const HeldStream&) = delete;

  [[nodiscard]] cudaStream_t get() const { return stream_; }
  /// What it is given from now on begins with release(), or when a test has failed.
  void hold() {
    is_held_ = true;
    EXPECT_EQ(cudaLaunchHostFunc(stream_, wait, this), cudaSuccess);
  }
  void release() {
    is_held_ = false;
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  }
  [[nodiscard]] bool has_given_up() const { return has_given_up_; }

 private:
  static void wait(void* self) {
    auto* const own = static_cast<HeldStream*>(self);
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (own->is_held_) {
      if (std::chrono::steady_clock::now() > until) own->has_given_up_ = true;
      if (own->has_given_up_) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  cudaStream_t stream_ = nullptr;
  std::atomic<bool> is_held_{false};
  std::atomic<bool> has_given_up_{false};
};

std::uint64_t id_of(std::uint64_t i) { return i * 0x9e37'79b9'7f4a'7c15; }

std::vector<std::uint64_t> ids_of(std::uint64_t first, std::size_t count) {
  std::vector<std::uint64_t> ids(count);
  for (std::size_t i = 0; i < count; ++i) ids[i] = id_of(first + i);
  return ids;
}

std::vector<std::uint64_t> rows_of(std::uint64_t first, std::size_t count) {
  std::vector<std::uint64_t> rows(count * kWords);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = id_of(first + i / kWords) ^ i % kWords;
  return rows;
}

std::uint64_t figure(HashStore& store, const std::string& name) {
  std::string text;
  EXPECT_TRUE(store.GetProperty("breccia.hash.row_cache." + name, &text));
  return std::stoull(text);
}

class HashRowsOnGpu : public ::testing::Test {
 protected:
  static constexpr std::size_t kRows = 5000;
  /// Lookups that may be under way, each on a stream of its own.
  static constexpr int kUnderWay = 16;

  void SetUp() override {
    HashOptions options;
    options.create_if_missing = true;
    options.backend = BackendChoice::kCuda;
    options.keys_expected = kRows;
    options.row_cache_bytes = 64 << 20;  // each set has room
    options.cached_row_bytes = kRowBytes;
    ASSERT_TRUE(HashStore::Open(options, folder_ / "store", &store_).ok());
    const Written written(0, kRows, stream_);
    put(written, 0, kRows, stream_);
    // All come into the cache.
    Lookup lookup(kRows);
    lookup.ids.put(ids_of(0, kRows), stream_.get());
    for (std::uint64_t hits = 0, before = ~hits; hits < before + kRows;) {
      before = figure(*store_, "hits");
      ASSERT_TRUE(store_->FindRows(lookup.rows_at(stream_)).ok());
      hits = figure(*store_, "hits");
    }
  }

  /// Arrays of rows to be put.
  struct Written {
    Written(std::uint64_t first, std::size_t count, const HeldStream& stream)
        : ids(count), rows(count * kWords) {
      ids.put(ids_of(first, count), stream.get());
      rows.put(rows_of(first, count), stream.get());
    }
    const There<std::uint64_t> ids, rows;
  };
  void put(const Written& written, std::size_t from, std::size_t count, const HeldStream& stream) {
    const Status status = store_->PutRows({}, {.ids = written.ids.at() + from,
                                               .count = count,
                                               .rows = written.rows.at() + from * kWords,
                                               .row_bytes = kRowBytes,
                                               .stream = stream.get()});
    EXPECT_TRUE(status.ok()) << status.ToString();
  }

  /// Arrays of a lookup.
  struct Lookup {
    explicit Lookup(std::size_t count)
        : count(count), ids(count), rows(count * kWords), found(count), missing(count), number(1) {}
    [[nodiscard]] IdRows rows_at(const HeldStream& stream) const {
      return {.ids = ids.at(),
              .count = count,
              .rows = rows.at(),
              .row_bytes = kRowBytes,
              .found = found.at(),
              .stream = stream.get(),
              .missing = missing.at(),
              .missing_count = number.at()};
    }
    /// Whether it is what rows from `first` on are; returns how many it found.
    [[nodiscard]] std::size_t check(std::uint64_t first) const {
      const auto was_found = found.get();
      const auto got = rows.get();
      const auto expected = rows_of(first, count);
      const auto listed = missing.get();
      std::size_t missed = 0;
      for (std::size_t i = 0; i < count; ++i) {
        if (was_found[i] == 0) {
          EXPECT_EQ(listed[missed++], i);
        } else {
          EXPECT_EQ(was_found[i], 1);
          EXPECT_EQ(std::memcmp(&got[i * kWords], &expected[i * kWords], kRowBytes), 0) << i;
        }
      }
      EXPECT_EQ(number.get().front(), missed);
      return count - missed;
    }
    const std::size_t count;
    const There<std::uint64_t> ids, rows;
    const There<std::uint8_t> found;
    const There<std::uint32_t> missing;
    const There<std::uint64_t> number;
  };

  const testing::Folder folder_{testing::Place::kMemory};
  HeldStream stream_;
  std::unique_ptr<HashStore> store_;
};

}  // namespace

// Goal: a lookup of what the cache has returns while the caller's stream stands still, reads what
//       that brings before, and is done for what comes behind.
// Method: as many as may be under way, of ids that a stream brings which is held; copies of what
//         they found behind them; then figures that count each.
// A tool under which kernels end before their launch returns gives it up.
// Mutation: a wait on the way, in the list of what is missing, say; kernels that do not follow the
//           stream, or that it does not wait for; arrays given back while kernels use them.
TEST_F(HashRowsOnGpu, CachedOnesNeedNoWait) {
  const std::uint64_t lookups = figure(*store_, "lookups");
  const std::uint64_t hits = figure(*store_, "hits");
  std::vector<std::unique_ptr<Lookup>> calls;
  for (int i = 0; i < kUnderWay; ++i) calls.push_back(std::make_unique<Lookup>(kRows));
  const There<std::uint64_t> ids(kRows);
  ids.put(ids_of(0, kRows), stream_.get());
  for (int turn = 0; turn < 3; ++turn) {
    stream_.hold();
    for (const auto& call : calls) {
      ASSERT_EQ(cudaMemsetAsync(call->found.at(), 7, kRows, stream_.get()), cudaSuccess);
      call->ids.copy(ids, stream_.get());
      const Status status = store_->FindCachedRows(call->rows_at(stream_));
      ASSERT_TRUE(status.ok()) << status.ToString();
      // A later one reads what lies there meanwhile.
      ASSERT_EQ(cudaMemsetAsync(call->ids.at(), 0xff, kRows * sizeof(std::uint64_t), stream_.get()),
                cudaSuccess);
    }
    ASSERT_FALSE(stream_.has_given_up());
    stream_.release();
    for (const auto& call : calls) EXPECT_EQ(call->check(0), kRows);
  }
  EXPECT_EQ(figure(*store_, "lookups"), lookups + std::uint64_t{3} * kUnderWay * kRows);
  EXPECT_EQ(figure(*store_, "hits"), hits + std::uint64_t{3} * kUnderWay * kRows);
}

// Goal: how many ids count may be known to the stream alone, without a wait.
// Method: lookups of whose ids a third, all, or more than all count, as the stream says that is
//         held; the rest of each array stays as it was.
// Mutation: a count that the host reads; rows, or what is missing, of ids that do not count.
TEST_F(HashRowsOnGpu, StreamsSayHowManyIds) {
  const Lookup lookup(kRows);
  const There<std::uint64_t> counts(1);
  const There<std::uint64_t> known(1);
  lookup.ids.put(ids_of(kRows / 2, kRows), stream_.get());  // half of them are nowhere
  for (const std::uint64_t count : {kRows / 3, kRows, kRows + 7}) {
    known.put({count}, stream_.get());
    EXPECT_EQ(cudaMemsetAsync(lookup.found.at(), 7, kRows, stream_.get()), cudaSuccess);
    EXPECT_EQ(cudaMemsetAsync(counts.at(), 0, sizeof count, stream_.get()), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream_.get()), cudaSuccess);
    stream_.hold();
    counts.copy(known, stream_.get());
    IdRows rows = lookup.rows_at(stream_);
    rows.count_at = counts.at();
    ASSERT_TRUE(store_->FindCachedRows(rows).ok());
    EXPECT_FALSE(stream_.has_given_up());
    stream_.release();
    const std::size_t n = std::min<std::size_t>(count, kRows);
    const auto found = lookup.found.get();
    const auto listed = lookup.missing.get();
    for (std::size_t i = 0; i < kRows; ++i) {
      ASSERT_EQ(found[i], i >= n ? 7 : i < kRows / 2 ? 1 : 0) << i << " of " << n;
    }
    const std::size_t missed = n - std::min(n, kRows / 2);
    ASSERT_EQ(lookup.number.get().front(), missed);
    for (std::size_t i = 0; i < missed; ++i) ASSERT_EQ(listed[i], kRows / 2 + i);
  }
}

// Goal: a table grows behind lookups that are under way.
// Method: lookups in a held stream; another thread puts rows until the table has grown twice, and
//         does not end before the stream goes on.
// Mutation: a section that does not wait, so that kernels read memory that was given back.
TEST_F(HashRowsOnGpu, TablesGrowBehindThem) {
  constexpr std::size_t kMore = 8 * kRows;
  const HeldStream own;
  const Written written(kRows, kMore, own);
  const Lookup held(kRows);
  held.ids.put(ids_of(0, kRows), stream_.get());
  stream_.hold();
  ASSERT_TRUE(store_->FindCachedRows(held.rows_at(stream_)).ok());
  std::atomic<bool> has_grown{false};
  std::thread other([&] {
    for (std::size_t at = 0; at < kMore; at += kRows) put(written, at, kRows, own);
    has_grown = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_FALSE(has_grown);
  EXPECT_FALSE(stream_.has_given_up());
  stream_.release();
  EXPECT_EQ(held.check(0), kRows);
  other.join();
}

// Goal: who brings rows from the host does not wait for lookups that are under way; the cache
//       learns all the same, when they are done and, if there are always some, now and then.
// Method: as many lookups as may be under way in a held stream, and such of rows that the cache has
//         not, of few and of many ids, in another one; then the same while a thread always has
//         some under way.
// Mutation: rows that are taken in by a section that waits; a cache that never learns; streams that
//           share a queue of the device, so that a held one holds another one's.
TEST_F(HashRowsOnGpu, OthersBringRowsBesideThem) {
  constexpr std::size_t kMany = 20'000;
  const HeldStream own;
  const Written written(kRows, kMany, own);
  put(written, 0, kMany, own);
  const Lookup few(kRows);
  const Lookup many(kMany);
  few.ids.put(ids_of(kRows, kRows), own.get());
  many.ids.put(ids_of(kRows, kMany), own.get());
  const Lookup held(kRows);
  held.ids.put(ids_of(0, kRows), stream_.get());
  // A kernel's first launch may wait for the whole device.
  for (const Lookup* const lookup : {&few, &many}) {
    ASSERT_TRUE(store_->FindRows(lookup->rows_at(own)).ok());
  }
  stream_.hold();
  for (int i = 0; i < kUnderWay; ++i) {
    ASSERT_TRUE(store_->FindCachedRows(held.rows_at(stream_)).ok());
  }
  for (const Lookup* const lookup : {&few, &many}) {
    ASSERT_TRUE(store_->FindRows(lookup->rows_at(own)).ok());
    ASSERT_FALSE(stream_.has_given_up()) << lookup->count;
    EXPECT_EQ(lookup->check(kRows), lookup->count);
  }
  stream_.release();
  EXPECT_EQ(held.check(0), kRows);

  std::atomic<bool> stops{false};
  std::thread always([&] {
    while (!stops) EXPECT_TRUE(store_->FindCachedRows(held.rows_at(stream_)).ok());
  });
  std::size_t found = 0;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (found < kMany && std::chrono::steady_clock::now() < until) {
    EXPECT_TRUE(store_->FindRows(many.rows_at(own)).ok());
    EXPECT_TRUE(store_->FindCachedRows(many.rows_at(own)).ok());
    EXPECT_EQ(cudaStreamSynchronize(own.get()), cudaSuccess);
    found = many.check(kRows);
  }
  stops = true;
  always.join();
  EXPECT_EQ(found, kMany);
}

// Goal: the end of a store waits for lookups that are under way.
// Method: one that is closed by another thread while a stream is held.
// Mutation: an end that leaves their memory to others, and waits for nothing.
TEST_F(HashRowsOnGpu, StoresEndBehindThem) {
  const Lookup held(kRows);
  held.ids.put(ids_of(0, kRows), stream_.get());
  stream_.hold();
  ASSERT_TRUE(store_->FindCachedRows(held.rows_at(stream_)).ok());
  std::atomic<bool> has_ended{false};
  std::thread other([&] {
    store_.reset();
    has_ended = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(has_ended);
  stream_.release();
  EXPECT_EQ(held.check(0), kRows);
  other.join();
}

// Goal: rows that are pinned are found, whatever others ask for, until they are let go.
// Method: a cache of a thousand rows, of which three hundred are pinned again and again, while two
//         threads look up all others and a third one's lookups are always under way. Then thirds
//         are pinned in turn: places come back.
// Mutation: pins that an admission takes, that count twice, or are let go under a lookup.
TEST_F(HashRowsOnGpu, PinnedOnesStay) {
  constexpr std::size_t kPinned = 300;
  store_.reset();
  HashOptions options;
  options.backend = BackendChoice::kCuda;
  options.row_cache_bytes = 1000 * (kRowBytes + 14);
  options.cached_row_bytes = kRowBytes;
  ASSERT_TRUE(HashStore::Open(options, folder_ / "store", &store_).ok());
  const auto pin = [&](std::uint64_t first, std::size_t count, const HeldStream& stream) {
    const There<std::uint64_t> ids(2 * count);
    auto twice = ids_of(first, count);
    const auto once = twice;
    twice.insert(twice.end(), once.begin(), once.end());
    ids.put(twice, stream.get());
    std::unique_ptr<RowPins> pins;
    const Status status = store_->PinRows(
        {.ids = ids.at(), .count = 2 * count, .row_bytes = kRowBytes, .stream = stream.get()},
        &pins);
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(pins->Rows() + pins->Refused() / 2, count);
    EXPECT_LE(pins->Refused() / 2, count / 20);
    return pins;
  };
  std::atomic<bool> stops{false};
  std::vector<std::thread> others;
  for (std::uint64_t t = 0; t < 3; ++t) {
    others.emplace_back([&, t] {
      const HeldStream own;
      constexpr std::size_t kOthers = kRows - kPinned;
      const Lookup lookup(kOthers);
      lookup.ids.put(ids_of(kPinned, kOthers), own.get());
      while (!stops) {
        const IdRows rows = lookup.rows_at(own);
        EXPECT_TRUE((t == 0 ? store_->FindCachedRows(rows) : store_->FindRows(rows)).ok());
      }
      EXPECT_EQ(cudaStreamSynchronize(own.get()), cudaSuccess);
      (void)lookup.check(kPinned);
    });
  }
  const Lookup pinned(kPinned);
  const HeldStream own;
  pinned.ids.put(ids_of(0, kPinned), stream_.get());
  for (int turn = 0; turn < 20; ++turn) {
    const auto pins = pin(0, kPinned, own);
    const auto again = pin(0, kPinned, own);
    EXPECT_EQ(pins->Rows(), again->Rows());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_TRUE(store_->FindCachedRows(pinned.rows_at(stream_)).ok());
    EXPECT_EQ(cudaStreamSynchronize(stream_.get()), cudaSuccess);
    EXPECT_EQ(pinned.check(0), pins->Rows());
  }
  stops = true;
  for (std::thread& other : others) other.join();
  for (std::uint64_t first = 0; first + kPinned <= kRows; first += kPinned) {
    (void)pin(first, kPinned, own);
  }
  EXPECT_EQ(figure(*store_, "pinned"), 0U);
}

// Goal: rows that are written anew are found in the cache as they are then, without a lookup that
//       brings them.
// Method: all of the cache's rows, each twice in a batch, of which the second counts; then each
//         once more by itself.
// Mutation: a place that keeps its row, or has the first one's; rows that are another request's.
TEST_F(HashRowsOnGpu, WrittenOnesStay) {
  const There<std::uint64_t> ids(2 * kRows);
  const There<std::uint64_t> rows(2 * kRows * kWords);
  const Lookup lookup(kRows);
  lookup.ids.put(ids_of(0, kRows), stream_.get());
  for (const bool is_twice : {true, false}) {
    auto all_ids = ids_of(0, kRows);
    auto all_rows = rows_of(is_twice ? 7 : 11, kRows);
    if (is_twice) {
      const auto more = rows_of(9, kRows);
      all_ids.insert(all_ids.end(), all_ids.begin(), all_ids.begin() + kRows);
      all_rows.insert(all_rows.end(), more.begin(), more.end());
    }
    ids.put(all_ids, stream_.get());
    rows.put(all_rows, stream_.get());
    const Status put = store_->PutRows({}, {.ids = ids.at(),
                                            .count = all_ids.size(),
                                            .rows = rows.at(),
                                            .row_bytes = kRowBytes,
                                            .stream = stream_.get()});
    ASSERT_TRUE(put.ok()) << put.ToString();
    ASSERT_TRUE(store_->FindCachedRows(lookup.rows_at(stream_)).ok());
    EXPECT_EQ(cudaStreamSynchronize(stream_.get()), cudaSuccess);
    EXPECT_EQ(lookup.check(is_twice ? 9 : 11), kRows);
  }
}

// Goal: whoever looks rows up while they are written, and pinned, finds one version of each, and
//       none older than the last one that was there before.
// Method: a thread that writes versions of all rows, one that pins some of them again and again,
//         and two that look up what the cache has; each word says its row and its version.
// Mutation: a section of the cache that lookups are not kept out of, or that does not wait for
//           those under way; a place that is named before its row is written.
TEST_F(HashRowsOnGpu, WritersBesideLookups) {
  constexpr std::uint64_t kVersions = 40;
  const auto versions_of = [](std::uint64_t version) {
    std::vector<std::uint64_t> rows(kRows * kWords);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = id_of(i / kWords) ^ version << 56;
    return rows;
  };
  const auto write = [&](std::uint64_t version, const HeldStream& stream) {
    const There<std::uint64_t> ids(kRows);
    const There<std::uint64_t> rows(kRows * kWords);
    ids.put(ids_of(0, kRows), stream.get());
    rows.put(versions_of(version), stream.get());
    const Status status = store_->PutRows({}, {.ids = ids.at(),
                                               .count = kRows,
                                               .rows = rows.at(),
                                               .row_bytes = kRowBytes,
                                               .stream = stream.get()});
    EXPECT_TRUE(status.ok()) << status.ToString();
  };
  write(1, stream_);
  std::atomic<std::uint64_t> written{1};
  std::atomic<std::uint64_t> found{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      const HeldStream own;
      const Lookup lookup(kRows);
      lookup.ids.put(ids_of(0, kRows), own.get());
      while (written < kVersions) {
        const std::uint64_t least = written;
        EXPECT_TRUE(store_->FindCachedRows(lookup.rows_at(own)).ok());
        EXPECT_EQ(cudaStreamSynchronize(own.get()), cudaSuccess);
        const auto was_found = lookup.found.get();
        const auto rows = lookup.rows.get();
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < rows.size(); ++i) {
          if (was_found[i / kWords] == 0) continue;
          const std::uint64_t version = (rows[i] ^ id_of(i / kWords)) >> 56;
          const bool is_id = (rows[i] ^ version << 56) == id_of(i / kWords);
          if (!is_id || version < least || rows[i] != rows[i / kWords * kWords]) ++wrong;
          ++found;
        }
        EXPECT_EQ(wrong, 0U);
      }
    });
  }
  threads.emplace_back([&] {
    const HeldStream own;
    const There<std::uint64_t> ids(kRows);
    ids.put(ids_of(0, kRows), own.get());
    while (written < kVersions) {
      std::unique_ptr<RowPins> pins;
      EXPECT_TRUE(store_
                      ->PinRows({.ids = ids.at(),
                                 .count = kRows / 4,
                                 .row_bytes = kRowBytes,
                                 .stream = own.get()},
                                &pins)
                      .ok());
    }
  });
  for (std::uint64_t version = 2; version <= kVersions; ++version) {
    write(version, stream_);
    written = version;
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(found, 0U);
}

// Goal: lookups of several streams at once, beside writers, find rows that somebody wrote.
// Method: threads that look up in streams of their own, without a wait but for the last one's
//         results, while others put the same rows again, and look up what is not cached.
// Mutation: an executor that two calls have; counts of one call that are another's.
TEST_F(HashRowsOnGpu, ManyStreams) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const HeldStream own;
      const Lookup lookup(kRows);
      const std::uint64_t first = 97 * static_cast<std::uint64_t>(t);
      const Written written(first, kRows, own);
      for (int turn = 0; turn < 60; ++turn) {
        lookup.ids.put(ids_of(first, kRows), own.get());
        const IdRows rows = lookup.rows_at(own);
        const Status status = turn % 8 == 7 ? store_->FindRows(rows) : store_->FindCachedRows(rows);
        EXPECT_TRUE(status.ok()) << status.ToString();
        if (turn % 10 == 0) {
          EXPECT_EQ(cudaStreamSynchronize(own.get()), cudaSuccess);
          (void)lookup.check(first);
        }
        if (turn % 16 == t) put(written, 0, 500, own);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace breccia
