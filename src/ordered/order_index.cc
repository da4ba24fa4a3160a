#include "ordered/order_index.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/bytes.h"
#include "base/parallel.h"
#include "base/prefetch.h"
#include "ordered/view.h"
#include "wal/format.h"

namespace breccia::ordered {

namespace {

constexpr int kRankBits = 16;
constexpr std::uint64_t kRankMax = (std::uint64_t{1} << kRankBits) - 1;
/// Blocks that a thread fills at once: some milliseconds.
constexpr std::uint64_t kBlocksPerPart = 2048;
constexpr std::uint64_t kLine = 64;

Slice key_at(const Order& order, const wal::SegmentTable& table, std::uint64_t i) {
  const std::byte* const record = table.at(order.position_at(i));
  return {record::record_key(record), record::record_header(record).key_bytes()};
}

/// The prefix that all keys of a sorted order share: that of its first and its last.
std::string shared_prefix(const Order& order, const wal::SegmentTable& table) {
  const Slice first = key_at(order, table, 0);
  const Slice last = key_at(order, table, order.count - 1);
  return {first.data(), first.difference_offset(last)};
}

/// The first of the `count` words at `words` that is not below `word`.
/// Cost    no jumps that depend on words.
std::uint64_t first_not_below(const std::uint64_t* words, std::uint64_t count, std::uint64_t word) {
  BRECCIA_ASSERT(count > 0);
  const std::uint64_t* at = words;
  for (std::uint64_t length = count; length > 1;) {
    const std::uint64_t half = length / 2;
    at += at[half - 1] < word ? half : 0;
    length -= half;
  }
  return static_cast<std::uint64_t>(at - words) + (*at < word ? 1 : 0);
}

/// Where `word` lies between `first`, below which it is not, and `next`.
std::uint64_t rank_between(std::uint64_t word, std::uint64_t first, std::uint64_t next) {
  const int width = static_cast<int>(std::bit_width(next - first));
  return std::min((word - first) >> std::max(0, width - kRankBits), kRankMax);
}

}  // namespace

OrderIndex::OrderIndex(const Order& order, std::string prefix)
    : count_(order.count),
      blocks_((order.count + kBlock - 1) / kBlock),
      prefix_(std::move(prefix)),
      entries_(order.entries()),
      stride_(order.entry_bytes()),
      words_(exec::plain_host_memory()),
      ranks_(exec::plain_host_memory()) {}

bool OrderIndex::reserve() {
  if (!words_.reserve(blocks_ + 1) || !ranks_.reserve(blocks_ * kBlock)) return false;
  words_.extend(blocks_ + 1);
  ranks_.extend(blocks_ * kBlock);
  return true;
}

/// Of a key that begins with the prefix; of others (a device may have lied) anything.
std::uint64_t OrderIndex::word_of(const Slice& key) const {
  const std::size_t skipped = prefix_.size();
  if (key.size() >= skipped + 8) return base::load_big_endian_8(key.data() + skipped);
  return key.size() <= skipped ? 0
                               : base::load_big_endian(key.data() + skipped, key.size() - skipped);
}

std::uint64_t OrderIndex::rank(std::uint64_t word, std::uint64_t block) const {
  return rank_between(word, words_[block], words_[block + 1]);
}

/// How many entries of the block have ranks below `limit`. They ascend.
std::uint64_t OrderIndex::ranks_below(std::uint64_t block, std::uint64_t limit) const {
  const std::uint16_t* at = ranks_.data() + block * kBlock;
  const std::uint16_t* const first = at;
  for (std::uint64_t half = kBlock / 2; half > 0; half /= 2) {
    at += at[half - 1] < limit ? half : 0;
  }
  return static_cast<std::uint64_t>(at - first) + (*at < limit ? 1 : 0);
}

void OrderIndex::fill_blocks(const Order& order, const wal::SegmentTable& table,
                             std::uint64_t first, std::uint64_t last) {
  const auto record_at = [&](std::uint64_t i) { return table.at(order.position_at(i)); };
  std::array<std::uint64_t, kBlock> words;
  for (std::uint64_t block = first; block < last; ++block) {
    const std::uint64_t begin = block * kBlock;
    const std::uint64_t end = std::min(begin + kBlock, count_);
    // The next block's records are on their way while this one's are read.
    for (std::uint64_t i = end; i < std::min(end + kBlock, count_); ++i) {
      const std::byte* const record = record_at(i);
      base::prefetch(record);
      base::prefetch(record + sizeof(record::RecordHeader) + prefix_.size() + 7);
    }
    for (std::uint64_t i = begin; i < end; ++i) {
      words[i - begin] = word_of(key_at(order, table, i));
    }
    const std::uint64_t next = word_of(key_at(order, table, std::min(end, count_ - 1)));
    words_.data()[block] = words[0];
    if (end == count_) words_.data()[block + 1] = next;  // else somebody else may write it
    std::uint16_t* const ranks = ranks_.data() + begin;
    for (std::uint64_t i = 0; i < kBlock; ++i) {
      ranks[i] = static_cast<std::uint16_t>(i < end - begin ? rank_between(words[i], words[0], next)
                                                            : kRankMax);
    }
  }
}

std::unique_ptr<const OrderIndex> OrderIndex::make(const Order& order,
                                                   const wal::SegmentTable& table,
                                                   const std::atomic<bool>& stopping) {
  BRECCIA_ASSERT(order.count > 0);
  std::unique_ptr<OrderIndex> index(new OrderIndex(order, shared_prefix(order, table)));
  if (!index->reserve()) return nullptr;
  const std::uint64_t blocks = index->blocks_;
  const std::uint64_t parts = (blocks + kBlocksPerPart - 1) / kBlocksPerPart;
  base::parallel_for(std::uint64_t{0}, parts, [&](std::uint64_t part) {
    if (stopping.load(std::memory_order_relaxed)) return;
    const std::uint64_t first = part * kBlocksPerPart;
    index->fill_blocks(order, table, first, std::min(first + kBlocksPerPart, blocks));
  });
  if (stopping.load(std::memory_order_relaxed)) return nullptr;
  return index;
}

/// A block's entries come into the cache while its ranks do.
void OrderIndex::prefetch(std::uint64_t block) const {
  base::prefetch(ranks_.data() + block * kBlock);
  const char* const entries = entries_ + block * kBlock * stride_;
  for (std::uint64_t at = 0; at < kBlock * stride_; at += kLine) base::prefetch(entries + at);
}

OrderRange OrderIndex::narrow(const Slice& key) const {
  const int order = Slice(key.data(), std::min(key.size(), prefix_.size())).compare(prefix_);
  if (order != 0) return order < 0 ? OrderRange{0, 0} : OrderRange{count_, count_};
  const std::uint64_t word = word_of(key);
  // Blocks [0, below) begin below the word, and [0, not_above) not above it.
  const std::uint64_t below = first_not_below(words_.data(), blocks_, word);
  if (below > 0) prefetch(below - 1);
  std::uint64_t not_above = below;
  if (below < blocks_ && words_[below] == word) {
    const std::uint64_t rest = blocks_ - below;
    not_above = word == ~std::uint64_t{0}
                    ? blocks_
                    : below + first_not_below(words_.data() + below, rest, word + 1);
  }
  OrderRange range{0, 0};
  if (below > 0) {
    const std::uint64_t block = below - 1;
    range.begin = std::min(block * kBlock + ranks_below(block, rank(word, block)), count_);
  }
  if (not_above > 0) {
    const std::uint64_t block = not_above - 1;
    range.end = std::min(block * kBlock + ranks_below(block, rank(word, block) + 1), count_);
  }
  BRECCIA_ASSERT(range.begin <= range.end);
  return range;
}

}  // namespace breccia::ordered
