#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "exec/pool.h"
#include "hash/backend.h"

namespace breccia::bench {

/// A column in the backend's memory.
template <class T>
class Column {
 public:
  static Result<Column> make(hash::Backend& backend, std::uint64_t count) {
    BRECCIA_TAKE(auto array, exec::Array<T>::make(backend.tenant().pool(), count));
    return Column(backend, std::move(array));
  }
  [[nodiscard]] T* data() const { return array_.data(); }
  Status put(std::span<const T> values) {
    return backend_->copy_in(reinterpret_cast<char*>(array_.data()),
                             reinterpret_cast<const char*>(values.data()), values.size_bytes());
  }
  Result<std::vector<T>> get() const { return get(array_.count()); }
  /// The first ones.
  Result<std::vector<T>> get(std::uint64_t count) const {
    std::vector<T> values(count);
    BRECCIA_TRY(backend_->copy_out(reinterpret_cast<char*>(values.data()),
                                   reinterpret_cast<const char*>(array_.data()),
                                   count * sizeof(T)));
    return values;
  }

 private:
  Column(hash::Backend& backend, exec::Array<T> array)
      : backend_(&backend), array_(std::move(array)) {}
  hash::Backend* backend_;
  exec::Array<T> array_;
};

}  // namespace breccia::bench
