#pragma once

#include <breccia/status.h>
#include <sys/mman.h>

#include <breccia/columns.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/assert.h"
#include "exec/memory.h"

namespace breccia::batch {

/// Host memory beside a device whose own can be reached by copy_rows() alone: whoever looks at it
/// otherwise gets a signal.
class BusMemory final : public exec::HostMemory {
 public:
  BusMemory()
      : device_(static_cast<std::byte*>(
            mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    BRECCIA_ASSERT(device_ != MAP_FAILED);
  }
  ~BusMemory() override { munmap(device_, kBytes); }
  BusMemory(const BusMemory&) = delete;
  BusMemory& operator=(const BusMemory&) = delete;

  [[nodiscard]] void* allocate(std::size_t bytes) override {
    return exec::plain_host_memory().allocate(bytes);
  }
  void release(void* memory, std::size_t bytes) override {
    exec::plain_host_memory().release(memory, bytes);
  }
  [[nodiscard]] bool is_beside_device() const override { return true; }
  [[nodiscard]] Status copy_rows(exec::BusWay way, const exec::BusRows& rows,
                                 void* stream) override {
    BRECCIA_ASSERT(stream == this && rows.stride >= rows.width && rows.count > 0);
    if (++copies_ == fail_at_) return Status::IOError("the bus");
    open();
    for (std::size_t i = 0; i < rows.count; ++i) {
      std::byte* const there = rows.device + i * rows.stride;
      BRECCIA_ASSERT(device_ <= there && there + rows.width <= device_ + kBytes);
      std::byte* const here = rows.host + i * rows.width;
      const bool is_in = way == exec::BusWay::kToHost;
      std::memcpy(is_in ? here : there, is_in ? there : here, rows.width);
    }
    close();
    return Status::OK();
  }

  /// Copies bytes to the device, and what it has back.
  std::byte* put(const void* bytes, std::size_t count) {
    std::byte* const at = device_ + used_;
    used_ = (used_ + count + 15) / 8 * 8;
    BRECCIA_ASSERT(used_ <= kBytes);
    open();
    if (count > 0) std::memcpy(at, bytes, count);
    close();
    return at;
  }
  std::vector<char> get(const std::byte* at, std::size_t count) {
    open();
    std::vector<char> bytes(reinterpret_cast<const char*>(at),
                            reinterpret_cast<const char*>(at) + count);
    close();
    return bytes;
  }
  /// The same column there; one of slices becomes one of offsets.
  BytesColumn put(const BytesColumn& column) {
    const std::size_t count = column.count();
    if (column.fixed() && count > 0) {
      const std::ptrdiff_t reach = static_cast<std::ptrdiff_t>(count - 1) * column.stride();
      const char* const lowest = column.data() + (reach < 0 ? reach : 0);
      const auto bytes = static_cast<std::size_t>(reach < 0 ? -reach : reach) + column.width();
      const std::byte* const there = put(lowest, bytes) + (column.data() - lowest);
      return BytesColumn::OnDevice(
          BytesColumn::Fixed(there, count, column.width(), column.stride()), this);
    }
    std::vector<std::int64_t> offsets{5};
    std::vector<char> bytes(5, '-');
    for (std::size_t i = 0; i < count; ++i) {
      const Slice string = column.at(i);
      bytes.insert(bytes.end(), string.data(), string.data() + string.size());
      offsets.push_back(static_cast<std::int64_t>(bytes.size()));
    }
    const std::byte* const strings = put(bytes.data(), bytes.size());
    if (column.offsets32() == nullptr) {
      const std::byte* const places = put(offsets.data(), offsets.size() * sizeof offsets[0]);
      return BytesColumn::OnDevice(
          BytesColumn::Variable(strings, reinterpret_cast<const std::int64_t*>(places), count),
          this);
    }
    const std::vector<std::int32_t> small(offsets.begin(), offsets.end());
    const std::byte* const places = put(small.data(), small.size() * sizeof small[0]);
    return BytesColumn::OnDevice(
        BytesColumn::Variable(strings, reinterpret_cast<const std::int32_t*>(places), count), this);
  }
  /// The n-th copy from now on fails; 0: none.
  void fail_at(std::uint64_t copy) { fail_at_ = copy == 0 ? 0 : copies_ + copy; }
  [[nodiscard]] std::uint64_t copies() const { return copies_; }
  void forget() { used_ = 0; }

 private:
  static constexpr std::size_t kBytes = 64 << 20;
  void open() { BRECCIA_ASSERT(mprotect(device_, kBytes, PROT_READ | PROT_WRITE) == 0); }
  void close() { BRECCIA_ASSERT(mprotect(device_, kBytes, PROT_NONE) == 0); }

  std::byte* const device_;
  std::size_t used_ = 0;
  std::uint64_t copies_ = 0;
  std::uint64_t fail_at_ = 0;
};

}  // namespace breccia::batch
