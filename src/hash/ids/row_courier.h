#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/memory.h"
#include "exec/host_vector.h"
#include "hash/algo/cached.cuh"
#include "hash/algo/rows.cuh"
#include "hash/ids/ids.h"
#include "hash/rows.h"

namespace breccia::hash {

/// Brings rows from the host to a device, a piece at a time.
/// Threads one owner.
template <class X>
class Courier {
 public:
  Courier(X& x, exec::HostMemory& memory) : x_(x), rows_(memory), there_(memory) {}
  ~Courier() { (void)x_.finish(); }
  Courier(const Courier&) = delete;
  Courier& operator=(const Courier&) = delete;

  /// Room for a piece; what it brought before is there.
  /// Errors  MemoryLimit; IOError: the device.
  Status load(std::uint64_t rows, std::uint64_t row_bytes) {
    BRECCIA_TRY(x_.finish());
    rows_on_device_.reset();
    there_on_device_.reset();
    rows_.clear();
    there_.clear();
    if (!rows_.reserve(rows * row_bytes) || !there_.reserve(rows)) {
      return Status::MemoryLimit("no memory for rows on their way to the device");
    }
    rows_.extend(rows * row_bytes);
    there_.extend(rows);
    return Status::OK();
  }
  [[nodiscard]] char* rows() { return rows_.data(); }
  [[nodiscard]] std::uint8_t* there() { return there_.data(); }
  /// Sends the piece to the requests that it is of.
  Status send(const std::uint32_t* request, const RowsOutRef& to) {
    const std::uint64_t n = there_.size();
    BRECCIA_TAKE(auto rows, x_.import(rows_.data(), n * to.row_bytes));
    rows_on_device_.emplace(std::move(rows));
    BRECCIA_TAKE(auto there, x_.import(there_.data(), n));
    there_on_device_.emplace(std::move(there));
    return with_row_words(
        algo::RowShape::of(0, to.row_bytes), {rows_on_device_->data(), to.row},
        [&]<class Word>(const Word*, std::uint32_t words) {
          return x_.template launch<32>(
              n * words,
              algo::PutFound<Word>{reinterpret_cast<const Word*>(rows_on_device_->data()),
                                   there_on_device_->data(), request, n,
                                   reinterpret_cast<Word*>(to.row), to.found, words});
        });
  }
  Status finish() { return x_.finish(); }

 private:
  using RowsImport = std::decay_t<
      decltype(std::declval<X&>().import(static_cast<const char*>(nullptr), 0).take())>;
  using ThereImport = std::decay_t<
      decltype(std::declval<X&>().import(static_cast<const std::uint8_t*>(nullptr), 0).take())>;

  X& x_;
  exec::HostVector<char> rows_;
  exec::HostVector<std::uint8_t> there_;
  std::optional<RowsImport> rows_on_device_;
  std::optional<ThereImport> there_on_device_;
};

}  // namespace breccia::hash
