#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/prefetch.h"
#include "disagg/location.h"

namespace breccia::disagg {

/// Keys in no order, each with where its value lies: slot, length and key one behind the other, so
/// that they take no memory but that.
class LooseKeys {
 public:
  void reserve(std::size_t keys, std::size_t key_bytes) {
    bytes_.reserve(keys * kHeadBytes + key_bytes);
  }
  void add(std::string_view key, Slot slot) {
    const auto key_bytes = static_cast<std::uint32_t>(key.size());
    bytes_.append(reinterpret_cast<const char*>(&slot), sizeof slot)
        .append(reinterpret_cast<const char*>(&key_bytes), sizeof key_bytes)
        .append(key);
    ++size_;
  }
  [[nodiscard]] std::size_t size() const { return size_; }

  /// One of them, as long as these keys live and there come no more.
  class Ref {
   public:
    Ref() = default;
    explicit Ref(const char* at) : at_(at) {}
    [[nodiscard]] Slot slot() const {
      Slot slot;
      std::memcpy(&slot, at_, sizeof slot);
      return slot;
    }
    [[nodiscard]] std::string_view key() const {
      std::uint32_t key_bytes;
      std::memcpy(&key_bytes, at_ + sizeof(Slot), sizeof key_bytes);
      return {at_ + kHeadBytes, key_bytes};
    }
    /// Most are short, and half of these lie in two lines.
    void prefetch() const {
      constexpr std::size_t kShortBytes = 16;
      base::prefetch(at_);
      base::prefetch(reinterpret_cast<const char*>(reinterpret_cast<std::uintptr_t>(at_) +
                                                   kHeadBytes + kShortBytes - 1));
    }
    /// The one behind it, if there is one.
    [[nodiscard]] Ref next() const { return Ref(key().data() + key().size()); }

   private:
    const char* at_;
  };
  [[nodiscard]] Ref first() const { return Ref(bytes_.data()); }

 private:
  static constexpr std::size_t kHeadBytes = sizeof(Slot) + sizeof(std::uint32_t);

  std::string bytes_;
  std::size_t size_ = 0;
};

}  // namespace breccia::disagg
