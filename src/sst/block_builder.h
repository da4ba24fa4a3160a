#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sst/format.h"

namespace breccia::sst {

/// Builds the blocks of a table that are few: index, properties, metaindex.
/// Threads one owner.
class BlockBuilder {
 public:
  /// `restarts`: entries from one restart to the next; 0: one restart.
  explicit BlockBuilder(std::uint32_t restarts) : restarts_(restarts) {}

  /// Adds an entry with its value's length. Keys ascend.
  void add(const Slice& key, const Slice& value);
  /// Adds an entry of an index from format_version 4 on: a handle, or how it differs from the one
  /// before if the key shares bytes.
  void add_handle(const Slice& key, const Handle& handle);

  /// The contents; it is of no use behind that.
  std::string finish();

 private:
  /// Begins an entry; how many bytes it shares.
  std::size_t begin(const Slice& key);

  const std::uint32_t restarts_;
  std::string bytes_;
  std::string last_key_;
  Handle last_handle_;
  std::vector<std::uint32_t> restart_at_{0};
  std::uint32_t since_restart_ = 0;
};

void append_varint(std::string* to, std::uint64_t value);
void append_handle(std::string* to, const Handle& handle);
template <class Word>
void append_fixed(std::string* to, Word value) {
  to->append(reinterpret_cast<const char*>(&value), sizeof value);  // little endian, as the host
}

}  // namespace breccia::sst
