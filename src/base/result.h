#pragma once

#include <breccia/status.h>

#include <optional>
#include <utility>

#include "base/assert.h"

namespace breccia {

/// A value, or the Status that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT: implicit by design
  Result(Status status) : status_(std::move(status)) {  // NOLINT: implicit by design
    BRECCIA_ASSERT(!status_.ok());
  }

  [[nodiscard]] bool ok() const { return value_.has_value(); }
  [[nodiscard]] const Status& status() const { return status_; }
  [[nodiscard]] T& value() {
    BRECCIA_ASSERT(ok());
    return *value_;
  }
  [[nodiscard]] const T& value() const {
    BRECCIA_ASSERT(ok());
    return *value_;
  }
  /// Moves the value out; the result is spent.
  [[nodiscard]] T take() {
    BRECCIA_ASSERT(ok());
    return std::move(*value_);
  }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace breccia

/// Returns the Status of `expression` from the calling function unless it is ok.
#define BRECCIA_TRY(expression)                        \
  do {                                                 \
    ::breccia::Status breccia_status_ = (expression);  \
    if (!breccia_status_.ok()) return breccia_status_; \
  } while (0)

#define BRECCIA_CONCAT_(a, b) a##b
#define BRECCIA_CONCAT(a, b) BRECCIA_CONCAT_(a, b)

/// Declares `target` from the value of the Result `expression`, or returns its Status.
#define BRECCIA_TAKE(target, expression)                         \
  auto BRECCIA_CONCAT(breccia_result_, __LINE__) = (expression); \
  if (!BRECCIA_CONCAT(breccia_result_, __LINE__).ok())           \
    return BRECCIA_CONCAT(breccia_result_, __LINE__).status();   \
  target = BRECCIA_CONCAT(breccia_result_, __LINE__).take()
