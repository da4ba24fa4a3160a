#include <breccia/options.h>
#include <breccia/store.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "batch/requests.h"
#include "support/folder.h"
#include "support/seeds.h"

namespace breccia {

namespace {

/// An array in memory of the GPU.
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<char>& bytes) : bytes_(bytes.size()) {
    EXPECT_EQ(cudaMalloc(&at_, bytes_), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(at_, bytes.data(), bytes_, cudaMemcpyHostToDevice), cudaSuccess);
  }
  ~DeviceArray() { EXPECT_EQ(cudaFree(at_), cudaSuccess); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  [[nodiscard]] void* at() const { return at_; }
  [[nodiscard]] std::vector<char> bytes() const {
    std::vector<char> copy(bytes_);
    EXPECT_EQ(cudaMemcpy(copy.data(), at_, bytes_, cudaMemcpyDeviceToHost), cudaSuccess);
    return copy;
  }

 private:
  void* at_ = nullptr;
  std::size_t bytes_;
};

}  // namespace

// Goal: what lies in a GPU's memory is put, found, and found there, behind the caller's stream.
// Method: rows of keys and values, made on the host, of which the keys come to the GPU in the
//         stream that the columns name; lookups of them and of as many others into rows with gaps.
// Mutation: a copy in another stream, which may read keys that are not there yet; gaps left out.
TEST(DeviceColumnsOnGpu, ArePutAndFound) {
  base::Random random(testing::seeds_to_run(1).front());
  constexpr std::uint64_t kCount = 40'000;
  constexpr std::size_t kKey = 16;
  constexpr std::size_t kValue = 100;
  constexpr std::size_t kRow = 112;
  const testing::Folder folder{testing::Place::kMemory};
  Options options;
  options.create_if_missing = true;
  options.backend = BackendChoice::kCuda;
  std::unique_ptr<Store> store;
  ASSERT_TRUE(Store::Open(options, folder / "store", &store).ok());

  std::vector<char> keys(2 * kCount * kKey);
  for (std::size_t at = 0; at < keys.size(); at += 8) {
    const std::uint64_t word = random.next();
    std::memcpy(keys.data() + at, &word, 8);
  }
  std::vector<char> values(kCount * kRow);
  for (char& c : values) c = static_cast<char>(random.next());
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  {
    const DeviceArray keys_there(std::vector<char>(keys.size(), 'x'));
    const DeviceArray values_there(values);
    ASSERT_EQ(
        cudaMemcpyAsync(keys_there.at(), keys.data(), keys.size(), cudaMemcpyHostToDevice, stream),
        cudaSuccess);
    const auto key_column = [&](std::uint64_t count) {
      return BytesColumn::OnDevice(BytesColumn::Fixed(keys_there.at(), count, kKey), stream);
    };
    for (const bool in_place : {false, true}) {
      Batch puts = store->NewBatch();
      puts.SetColumnsInPlace(in_place);
      ASSERT_TRUE(puts.Put(kDefaultFamily, key_column(kCount),
                           BytesColumn::OnDevice(
                               BytesColumn::Fixed(values_there.at(), kCount, kValue, kRow), stream))
                      .ok());
      ASSERT_TRUE(store->Submit({}, &puts).ok());

      const DeviceArray found_values(std::vector<char>(2 * kCount * kRow, '.'));
      const DeviceArray found(std::vector<char>(2 * kCount, 9));
      ValueArray into;
      into.values = found_values.at();
      into.width = kValue;
      into.stride = kRow;
      into.found = static_cast<std::uint8_t*>(found.at());
      into.on_device = true;
      into.stream = stream;
      Batch gets = store->NewBatch();
      ASSERT_TRUE(gets.Get(kDefaultFamily, key_column(2 * kCount), into).ok());
      ASSERT_TRUE(store->Submit({}, &gets).ok());
      const std::vector<char> got = found_values.bytes();
      const std::vector<char> flags = found.bytes();
      for (std::uint64_t i = 0; i < 2 * kCount; ++i) {
        ASSERT_EQ(flags[i], i < kCount ? 1 : 0) << i;
        ASSERT_EQ(got[i * kRow + kValue], '.') << i;
        if (i >= kCount) continue;
        ASSERT_EQ(std::memcmp(&got[i * kRow], &values[i * kRow], kValue), 0) << i;
      }
    }
  }
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

// Goal: keys in registered memory are found by the GPU where they lie, of 8 and of 16 bytes,
//   whether values come with them or from the log. Nothing is registered twice.
// Method: lookups by columns in place of keys that are there, and of as many others.
// Mutation: bytes of a key in the wrong order, or rows of another length, find nothing.
TEST(DeviceColumnsOnGpu, RegisteredKeysAreFound) {
  constexpr std::uint64_t kCount = 300'000;  // several slices
  base::Random random(testing::seeds_to_run(1).front());
  for (const auto& [key_bytes, value_bytes] :
       std::vector<std::pair<std::size_t, std::size_t>>{{8, 8}, {16, 8}, {16, 100}}) {
    const testing::Folder folder{testing::Place::kMemory};
    Options options;
    options.create_if_missing = true;
    options.backend = BackendChoice::kCuda;
    std::unique_ptr<Store> store;
    ASSERT_TRUE(Store::Open(options, folder / "store", &store).ok());
    std::vector<std::uint64_t> keys(2 * kCount * key_bytes / 8);
    for (std::uint64_t& word : keys) word = random.next();
    std::vector<char> values(kCount * value_bytes);
    for (char& c : values) c = static_cast<char>(random.next());
    MemoryRegistration registration;
    ASSERT_TRUE(store->RegisterMemory(keys.data(), keys.size() * 8, &registration).ok());
    MemoryRegistration again;
    EXPECT_FALSE(store->RegisterMemory(keys.data(), keys.size() * 8, &again).ok());
    Batch puts = store->NewBatch();
    ASSERT_TRUE(puts.Put(kDefaultFamily, BytesColumn::Fixed(keys.data(), kCount, key_bytes),
                         BytesColumn::Fixed(values.data(), kCount, value_bytes))
                    .ok());
    ASSERT_TRUE(store->Submit({}, &puts).ok());
    std::vector<char> got(2 * kCount * value_bytes, '.');
    std::vector<std::uint8_t> found(2 * kCount, 9);
    ValueArray into;
    into.values = got.data();
    into.width = value_bytes;
    into.stride = static_cast<std::ptrdiff_t>(value_bytes);
    into.found = found.data();
    for (int times = 0; times < 2; ++times) {
      Batch gets = store->NewBatch();
      gets.SetColumnsInPlace(true);
      ASSERT_TRUE(
          gets.Get(kDefaultFamily, BytesColumn::Fixed(keys.data(), 2 * kCount, key_bytes), into)
              .ok());
      ASSERT_TRUE(store->Submit({}, &gets).ok());
      // Nobody wrote them into columns.
      EXPECT_EQ(gets.requests().reads().front()->rows() != nullptr, times == 0);
      for (std::uint64_t i = 0; i < 2 * kCount; ++i) ASSERT_EQ(found[i], i < kCount ? 1 : 0) << i;
      ASSERT_EQ(std::memcmp(got.data(), values.data(), values.size()), 0);
      std::fill(got.begin(), got.end(), '.');
      std::fill(found.begin(), found.end(), 9);
      registration.reset();  // the second time it is memory like any other
    }
  }
}

}  // namespace breccia
