#pragma once

#include <breccia/status.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace breccia::hash {

/// Keys whose number another key has, too: their newest payloads, by the keys themselves. Of n keys
/// there are about n * n / 2^65 such pairs, so mostly none; a number that was shared once stays so.
/// Threads find(), has() and none() by any number; the rest by one, with nobody else in a call.
class SharedNumbers {
 public:
  [[nodiscard]] bool none() const { return numbers_.empty(); }
  [[nodiscard]] bool has(std::uint64_t number) const { return numbers_.contains(number); }
  /// 0: there is none.
  [[nodiscard]] std::uint64_t find(const Slice& key) const {
    const auto found = payloads_.find(key.ToString());
    return found == payloads_.end() ? 0 : found->second;
  }

  /// From here on its keys are to be looked up here.
  /// Errors  std::bad_alloc.
  void share(std::uint64_t number) { numbers_.insert(number); }
  void raise(const Slice& key, std::uint64_t payload) {
    std::uint64_t& newest = payloads_[key.ToString()];
    newest = std::max(newest, payload);
  }
  /// Forgets the key, if this is its newest payload.
  void drop(const Slice& key, std::uint64_t payload) {
    const auto found = payloads_.find(key.ToString());
    if (found != payloads_.end() && found->second == payload) payloads_.erase(found);
  }

 private:
  std::unordered_set<std::uint64_t> numbers_;
  std::unordered_map<std::string, std::uint64_t> payloads_;
};

}  // namespace breccia::hash
