#pragma once

#include <breccia/status.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "record/record.h"

namespace breccia::slab {

/// A record in the host's memory, which never changes, and what keeps it there.
struct Entry {
  Entry* next = nullptr;       // of another key with the same number
  std::uint64_t sequence = 0;  // of the batch that put it; no two batches have one
  Entry* after = nullptr;      // in its list
  Entry* before = nullptr;

  [[nodiscard]] const std::byte* record() const {
    return reinterpret_cast<const std::byte*>(this + 1);
  }
  [[nodiscard]] std::byte* record() { return reinterpret_cast<std::byte*>(this + 1); }
  [[nodiscard]] std::uint64_t bytes() const {
    return sizeof *this + record::record_header(record()).record_bytes();
  }
  [[nodiscard]] Slice key() const {
    return {record::record_key(record()), record::record_header(record()).key_bytes()};
  }
  [[nodiscard]] Slice value() const {
    return {record::record_value(record()), record::record_header(record()).value_bytes};
  }
};

/// All entries of a store, so that they are freed with it, and a lost index can be made again.
/// Threads any, of different entries; for_each() by one, with nobody else in a call.
class Entries {
 public:
  Entries() = default;
  ~Entries();
  Entries(const Entries&) = delete;
  Entries& operator=(const Entries&) = delete;

  /// A copy of a record, in no list yet; null: there is no memory.
  [[nodiscard]] static Entry* make(const std::byte* record, std::uint64_t sequence);
  /// Frees one that is in no list.
  static void discard(Entry* entry);
  void take_in(Entry* entry);
  /// Takes one out that was taken in.
  void take_out(Entry* entry);
  [[nodiscard]] std::uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t count() const { return count_.load(std::memory_order_relaxed); }

  template <class Work>
  void for_each(const Work& work) const {
    for (const List& list : lists_) {
      for (Entry* entry = list.first; entry != nullptr; entry = entry->after) work(entry);
    }
  }

 private:
  struct alignas(64) List {
    std::mutex mutex;
    Entry* first = nullptr;
  };
  [[nodiscard]] List& list_of(const Entry* entry) {
    return lists_[reinterpret_cast<std::uintptr_t>(entry) / 64 % lists_.size()];
  }

  std::array<List, 64> lists_;
  std::atomic<std::uint64_t> bytes_{0};
  std::atomic<std::uint64_t> count_{0};
};

}  // namespace breccia::slab
