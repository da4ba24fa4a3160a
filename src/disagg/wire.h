#pragma once

#include <breccia/status.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace breccia::disagg {

/// Puts a payload together: numbers little-endian, bytes behind their length.
class WireWriter {
 public:
  template <class Number>
  WireWriter& add(Number number) {
    static_assert(std::is_trivially_copyable_v<Number> &&
                  std::has_unique_object_representations_v<Number>);
    const auto* const bytes = reinterpret_cast<const std::byte*>(&number);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof number);
    return *this;
  }
  WireWriter& add_bytes(const Slice& more) {
    add(static_cast<std::uint32_t>(more.size()));
    const auto* const bytes = reinterpret_cast<const std::byte*>(more.data());
    bytes_.insert(bytes_.end(), bytes, bytes + more.size());
    return *this;
  }
  /// What another one has put together.
  WireWriter& append(const WireWriter& other) {
    bytes_.insert(bytes_.end(), other.bytes_.begin(), other.bytes_.end());
    return *this;
  }
  /// Room for bytes that the caller puts there before anything else is added.
  std::byte* add_room(std::size_t bytes) {
    bytes_.resize(bytes_.size() + bytes);
    return bytes_.data() + bytes_.size() - bytes;
  }
  void reserve(std::size_t bytes) { bytes_.reserve(bytes); }
  [[nodiscard]] const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

/// Takes a payload apart that came from elsewhere. What is not there is zero, and is_whole() false.
class WireReader {
 public:
  explicit WireReader(std::span<const std::byte> bytes) : left_(bytes) {}

  template <class Number>
  Number take() {
    static_assert(std::is_trivially_copyable_v<Number>);
    Number number{};
    if (left_.size() < sizeof number) {
      is_short_ = true;
      left_ = {};
      return number;
    }
    std::memcpy(&number, left_.data(), sizeof number);
    left_ = left_.subspan(sizeof number);
    return number;
  }
  /// In what is read.
  Slice take_bytes() {
    const auto size = take<std::uint32_t>();
    if (size > left_.size()) {
      is_short_ = true;
      left_ = {};
      return {};
    }
    const Slice bytes(reinterpret_cast<const char*>(left_.data()), size);
    left_ = left_.subspan(size);
    return bytes;
  }
  [[nodiscard]] std::size_t left() const { return left_.size(); }
  /// Whether all was there that was taken, and nothing else.
  [[nodiscard]] bool is_whole() const { return !is_short_ && left_.empty(); }

 private:
  std::span<const std::byte> left_;
  bool is_short_ = false;
};

}  // namespace breccia::disagg
