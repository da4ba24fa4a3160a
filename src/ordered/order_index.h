#pragma once

#include <rocksdb/slice.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "exec/host_vector.h"

namespace breccia::wal {
class SegmentTable;
}

namespace breccia::ordered {

using rocksdb::Slice;

struct Order;

/// Entries [begin, end) of an order.
struct OrderRange {
  std::uint64_t begin;
  std::uint64_t end;
};

/// Tells where in an order a key can be, without its records.
///
///   word of a key    the 8 bytes behind the prefix that all keys of the order share, big-endian
///   words[b]         the word of each 32nd entry, and of the last one at the end
///   ranks[i]         how far entry i's word lies between words[b] and words[b + 1] of its block b,
///                    as 16 bits: a block's ranks are one line of the cache, and ascend
///
/// Words ascend as keys do, and so do ranks. So what lies before the query's rank sorts before the
/// query, what lies behind it sorts behind, and few entries are left whose keys have to be read.
///
/// Owner   of nothing that the order has; it may outlive it.
/// Threads any.
class OrderIndex {
 public:
  static constexpr std::uint64_t kBlock = 32;
  /// Entries from which on an order may have one.
  static constexpr std::uint64_t kEntriesMin = 2 * kBlock;

  /// The index of `order`, whose records lie in `table`. Null: no memory, or `stopping` was set.
  /// Shape   order.count > 0.
  /// Cost    each record's key is read once, at a random place of the log, on all cores.
  [[nodiscard]] static std::unique_ptr<const OrderIndex> make(const Order& order,
                                                              const wal::SegmentTable& table,
                                                              const std::atomic<bool>& stopping);

  /// Where versions of `key` may lie: entries before `begin` have smaller keys, those from `end` on
  /// greater ones.
  /// Bound   log2(count / 32) steps in words, 5 in ranks; twice where words are equal.
  [[nodiscard]] OrderRange narrow(const Slice& key) const;

  [[nodiscard]] std::uint64_t memory_bytes() const {
    return words_.size() * sizeof(std::uint64_t) + ranks_.size() * sizeof(std::uint16_t);
  }

 private:
  OrderIndex(const Order& order, std::string prefix);
  [[nodiscard]] bool reserve();
  [[nodiscard]] std::uint64_t word_of(const Slice& key) const;
  void fill_blocks(const Order& order, const wal::SegmentTable& table, std::uint64_t first,
                   std::uint64_t last);
  [[nodiscard]] std::uint64_t rank(std::uint64_t word, std::uint64_t block) const;
  [[nodiscard]] std::uint64_t ranks_below(std::uint64_t block, std::uint64_t limit) const;
  void prefetch(std::uint64_t block) const;

  const std::uint64_t count_;
  const std::uint64_t blocks_;
  const std::string prefix_;    // of all keys
  const char* const entries_;   // the order's, to prefetch them
  const std::uint64_t stride_;  // bytes between two of them
  exec::HostVector<std::uint64_t> words_;
  exec::HostVector<std::uint16_t> ranks_;
};

/// Where an order has its index, once searches have paid for it: a search without one costs some
/// microseconds, and building one some 20 ns an entry.
/// Threads any; give() and give_up() by one at a time.
class IndexPlace {
 public:
  IndexPlace() = default;
  ~IndexPlace() { delete index_.load(std::memory_order_relaxed); }
  IndexPlace(const IndexPlace&) = delete;
  IndexPlace& operator=(const IndexPlace&) = delete;

  /// Null: there is none.
  [[nodiscard]] const OrderIndex* get() const {
    return index_.load(std::memory_order_acquire);  // pairs with give()
  }
  /// To be called when the order of `count` entries was searched without an index.
  void note_search(std::uint64_t count) {
    if (!is_due_.load(std::memory_order_relaxed) &&
        (searches_.fetch_add(1, std::memory_order_relaxed) + 1) * kEntriesPerSearch >= count) {
      is_due_.store(true, std::memory_order_relaxed);
    }
  }
  /// Searches of those that the order was made from have paid for one.
  void inherit() { is_due_.store(true, std::memory_order_relaxed); }
  /// True if searches have paid for an index that is not there. (One that began without it may
  /// note so when it is.)
  [[nodiscard]] bool is_due() const {
    return is_due_.load(std::memory_order_relaxed) && get() == nullptr;
  }

  void give(std::unique_ptr<const OrderIndex> index) {
    BRECCIA_ASSERT(index != nullptr && get() == nullptr);
    index_.store(index.release(), std::memory_order_release);
    is_due_.store(false, std::memory_order_relaxed);
  }
  /// There was no memory: searches have to pay again.
  void give_up() {
    searches_.store(0, std::memory_order_relaxed);
    is_due_.store(false, std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint64_t kEntriesPerSearch = 64;

  std::atomic<const OrderIndex*> index_{nullptr};
  std::atomic<std::uint64_t> searches_{0};
  std::atomic<bool> is_due_{false};
};

}  // namespace breccia::ordered
