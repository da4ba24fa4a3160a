#pragma once

#include <rocksdb/slice.h>

#include <cstdint>
#include <span>
#include <vector>

#include "record/key_columns.h"

namespace breccia::record {

/// Some keys of columns as bytes, for who takes slices. Its memory is used again.
/// Threads one owner.
class KeySlices {
 public:
  /// The keys `index_of(i)` of `keys`, i in [0, count).
  /// Errors  std::bad_alloc.
  /// Owner   they last until the next call.
  template <class IndexOf>
  std::span<const rocksdb::Slice> restore(const KeyColumnsRef& keys, std::uint64_t count,
                                          const IndexOf& index_of) {
    slices_.resize(count);
    std::uint64_t bytes = 0;
    for (std::uint64_t i = 0; i < count; ++i) bytes += keys.bytes_at(index_of(i));
    if (bytes_.size() < bytes) bytes_.resize(bytes);
    char* at = bytes_.data();
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t index = index_of(i);
      restore_key(keys, index, at);
      slices_[i] = {at, keys.bytes_at(index)};
      at += slices_[i].size();
    }
    return slices_;
  }

 private:
  std::vector<char> bytes_;
  std::vector<rocksdb::Slice> slices_;
};

}  // namespace breccia::record
