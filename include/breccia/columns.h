#pragma once

#include <breccia/status.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace breccia {

/// Memory of the caller's that is registered as long as a copy of this lives
/// (Store::RegisterMemory).
using MemoryRegistration = std::shared_ptr<const void>;

/// Byte strings in arrays of the caller: the keys or values of many requests, in their order.
///
/// Shape   fixed: string i is the `width` bytes at data + i * stride. A stride of 0 makes all
///         strings the same one; it may be negative.
///         variable, as Arrow's binary (int32) and large_binary (int64) arrays: string i is bytes
///         [offsets[i], offsets[i + 1]) of `bytes`; offsets[count + 1], which never fall. The first
///         need not be 0, so a slice of an array is one.
///         slices: string i is slices[i], wherever that lies.
///         All of any alignment but the offsets' own, in memory of the host or, but for slices, of
///         a CUDA device (OnDevice).
/// Units   width, stride, offsets: bytes.
/// Owner   refers to the arrays and copies nothing.
class BytesColumn {
 public:
  /// No strings. There is no constructor with arguments: {data, bytes} in a call stays a Slice.
  BytesColumn() = default;

  [[nodiscard]] static BytesColumn Fixed(const void* data, std::size_t count, std::size_t width,
                                         std::ptrdiff_t stride) {
    BytesColumn column;
    column.data_ = static_cast<const char*>(data);
    column.count_ = count;
    column.width_ = width;
    column.stride_ = stride;
    return column;
  }
  /// Strings that lie one behind the other.
  [[nodiscard]] static BytesColumn Fixed(const void* data, std::size_t count, std::size_t width) {
    return Fixed(data, count, width, static_cast<std::ptrdiff_t>(width));
  }
  [[nodiscard]] static BytesColumn Variable(const void* bytes, const std::int32_t* offsets,
                                            std::size_t count) {
    BytesColumn column = Fixed(bytes, count, 0);
    column.offsets32_ = offsets;
    return column;
  }
  [[nodiscard]] static BytesColumn Variable(const void* bytes, const std::int64_t* offsets,
                                            std::size_t count) {
    BytesColumn column = Fixed(bytes, count, 0);
    column.offsets64_ = offsets;
    return column;
  }

  [[nodiscard]] static BytesColumn Slices(const Slice* slices, std::size_t count) {
    BytesColumn column = Fixed(nullptr, count, 0);
    column.slices_ = slices;
    return column;
  }

  /// The same column, whose arrays, offsets too, lie in memory of a CUDA device. They are read
  /// behind what `stream` has to do by then, a cudaStream_t; null: the default stream.
  [[nodiscard]] static BytesColumn OnDevice(const BytesColumn& column, void* stream) {
    BytesColumn on_device = column;
    on_device.on_device_ = true;
    on_device.stream_ = stream;
    return on_device;
  }

  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] bool on_device() const { return on_device_; }
  [[nodiscard]] void* stream() const { return stream_; }
  [[nodiscard]] bool fixed() const { return !has_offsets() && slices_ == nullptr; }
  [[nodiscard]] bool has_offsets() const { return offsets32_ != nullptr || offsets64_ != nullptr; }
  /// Of fixed ones.
  [[nodiscard]] std::size_t width() const { return width_; }
  [[nodiscard]] std::ptrdiff_t stride() const { return stride_; }
  /// Of fixed and variable ones.
  [[nodiscard]] const char* data() const { return data_; }
  /// Of variable ones; one of the two is null.
  [[nodiscard]] const std::int32_t* offsets32() const { return offsets32_; }
  [[nodiscard]] const std::int64_t* offsets64() const { return offsets64_; }
  /// String `i`, where the host has it; if offsets fall there, its length is more than any limit.
  [[nodiscard]] Slice at(std::size_t i) const {
    if (offsets32_ != nullptr) return between(offsets32_[i], offsets32_[i + 1]);
    if (offsets64_ != nullptr) return between(offsets64_[i], offsets64_[i + 1]);
    if (slices_ != nullptr) return slices_[i];
    return {data_ + static_cast<std::ptrdiff_t>(i) * stride_, width_};
  }

 private:
  [[nodiscard]] Slice between(std::int64_t begin, std::int64_t end) const {
    return {data_ + begin, static_cast<std::size_t>(end - begin)};
  }

  const char* data_ = nullptr;
  std::size_t count_ = 0;
  std::size_t width_ = 0;
  std::ptrdiff_t stride_ = 0;
  const std::int32_t* offsets32_ = nullptr;
  const std::int64_t* offsets64_ = nullptr;
  const Slice* slices_ = nullptr;
  bool on_device_ = false;
  void* stream_ = nullptr;
};

/// Arrays of the caller that take the values of lookups, in memory of the host or of a CUDA device.
///
/// Shape   value i: the `width` bytes at values + i * stride, of any alignment; values must not
///         overlap, and the stride may be negative. found[i]: 1 if that value is there, else 0, and
///         its bytes are as they were. On a device, where all of them are written at once, behind
///         what `stream` has to do by then, they are of no sense.
/// Units   width, stride: bytes.
struct ValueArray {
  void* values = nullptr;
  std::size_t width = 0;
  std::ptrdiff_t stride = 0;
  std::uint8_t* found = nullptr;
  bool on_device = false;  // values and found
  void* stream = nullptr;  // a cudaStream_t; null: the default stream
};

/// Memory of the caller that takes byte strings of results, in one of BytesColumn's forms.
///
/// Shape   fixed: string i are the `width` bytes at data + i * stride, which must not overlap; the
///         stride may be negative. variable: bytes [offsets[i], offsets[i + 1]) of `bytes`, whose
///         offsets are there already, as the batch gave them.
/// Units   width, stride, offsets: bytes.
class BytesRoom {
 public:
  /// These strings are not wanted.
  BytesRoom() = default;

  [[nodiscard]] static BytesRoom Fixed(void* data, std::size_t width, std::ptrdiff_t stride) {
    BytesRoom room;
    room.is_wanted_ = true;
    room.data_ = static_cast<char*>(data);
    room.width_ = width;
    room.stride_ = stride;
    return room;
  }
  [[nodiscard]] static BytesRoom Fixed(void* data, std::size_t width) {
    return Fixed(data, width, static_cast<std::ptrdiff_t>(width));
  }
  [[nodiscard]] static BytesRoom Variable(void* bytes, const std::int32_t* offsets) {
    BytesRoom room = Fixed(bytes, 0);
    room.offsets32_ = offsets;
    return room;
  }
  [[nodiscard]] static BytesRoom Variable(void* bytes, const std::int64_t* offsets) {
    BytesRoom room = Fixed(bytes, 0);
    room.offsets64_ = offsets;
    return room;
  }

  [[nodiscard]] bool is_wanted() const { return is_wanted_; }
  [[nodiscard]] bool overlaps() const {
    const auto step = static_cast<std::size_t>(stride_ < 0 ? -stride_ : stride_);
    return offsets32_ == nullptr && offsets64_ == nullptr && step < width_;
  }
  /// Bytes that string `i` has there.
  [[nodiscard]] std::size_t bytes_at(std::size_t i) const {
    // Without a sign, as offsets that are not of its making may overflow.
    if (offsets32_ != nullptr) {
      return static_cast<std::uint32_t>(offsets32_[i + 1]) -
             static_cast<std::uint32_t>(offsets32_[i]);
    }
    if (offsets64_ != nullptr) {
      return static_cast<std::uint64_t>(offsets64_[i + 1]) -
             static_cast<std::uint64_t>(offsets64_[i]);
    }
    return width_;
  }
  [[nodiscard]] char* at(std::size_t i) const {
    if (offsets32_ != nullptr) return data_ + offsets32_[i];
    if (offsets64_ != nullptr) return data_ + offsets64_[i];
    return data_ + static_cast<std::ptrdiff_t>(i) * stride_;
  }

 private:
  char* data_ = nullptr;
  bool is_wanted_ = false;
  std::size_t width_ = 0;
  std::ptrdiff_t stride_ = 0;
  const std::int32_t* offsets32_ = nullptr;
  const std::int64_t* offsets64_ = nullptr;
};

}  // namespace breccia
