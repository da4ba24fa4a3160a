#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <unordered_set>

#include "disagg/key_id.h"

namespace breccia::disagg {

/// Keys that were written while an index is built. That a key is none of them, as of most keys is
/// asked, a bit says that lies in the first cache, as long as there are some thousand.
class WrittenKeys {
 public:
  void add(const KeyId& id) {
    maybe_.set(id.hash % kBits);
    ids_.insert(id);
  }
  [[nodiscard]] bool has(const KeyId& id) const {
    return maybe_.test(id.hash % kBits) && ids_.contains(id);
  }

 private:
  static constexpr std::size_t kBits = 1 << 16;
  struct Hash {
    std::size_t operator()(const KeyId& id) const { return id.hash; }
  };

  std::bitset<kBits> maybe_;
  std::unordered_set<KeyId, Hash> ids_;
};

}  // namespace breccia::disagg
