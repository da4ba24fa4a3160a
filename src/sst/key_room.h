#pragma once

#include <cstring>
#include <memory_resource>

#include "sst/format.h"

namespace breccia::sst {

/// Bytes of many keys, which stay where they are until it goes.
/// Threads one owner.
class KeyRoom {
 public:
  /// A copy that lies here.
  /// Errors  std::bad_alloc.
  Slice keep(const Slice& key) {
    char* const at = static_cast<char*>(memory_.allocate(key.size(), /*alignment=*/1));
    std::memcpy(at, key.data(), key.size());
    return Slice(at, key.size());
  }

 private:
  // The default resource is the program's.
  std::pmr::monotonic_buffer_resource memory_{std::pmr::new_delete_resource()};
};

}  // namespace breccia::sst
