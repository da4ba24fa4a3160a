#pragma once

#include <breccia/status.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "record/columns.h"

namespace rocksdb {
class PinnableSlice;
}

namespace breccia::tree {

/// What is known of a family's files without asking RocksDB, in one state of the tree.
/// Threads any.
class KnownFiles {
 public:
  virtual ~KnownFiles() = default;

  /// What the tree has of a key: OK and the value, or NotFound. None: RocksDB must be asked.
  /// *was_packed: the value's block had to be unpacked for it.
  [[nodiscard]] virtual std::optional<Status> get(const Slice& key, rocksdb::PinnableSlice* value,
                                                  bool* was_packed) const = 0;

  /// True if get_many() costs less than to ask a filter first.
  [[nodiscard]] virtual bool come_first() const = 0;

  /// What the tree has of key `place` of the columns: a value, or nothing.
  struct Known {
    std::uint32_t place;
    bool is_found;
    Slice value;
    bool was_packed = false;  // as of get()
  };
  /// Takes what the tree has of some keys; values last until it returns. `worker` is below
  /// `workers` of get_many(); calls with different ones may come at once.
  using Answer = std::function<void(std::uint64_t worker, std::span<const Known> known)>;
  /// The same for many keys of the columns, by up to `workers` threads: *places, lists of places in
  /// the columns, keeps those of which RocksDB must be asked, some of them maybe in other lists.
  /// Errors  std::bad_alloc, also what `answer` throws; then nobody knows which were answered.
  virtual void get_many(const record::KeyColumnsRef& keys,
                        std::vector<std::vector<std::uint32_t>>* places, std::uint64_t workers,
                        const Answer& answer) const = 0;
};

}  // namespace breccia::tree
