#pragma once

#include <rdma/fabric.h>

#include <utility>

#include "base/assert.h"

namespace breccia::fabric::libfabric {

/// An object of the library (fid_domain, fid_ep, ...), closed with this. Null: none.
template <class Fid>
class Handle {
 public:
  Handle() = default;
  explicit Handle(Fid* object) : object_(object) {}
  ~Handle() {
    // What is still in use: those that use it are closed first.
    if (object_ != nullptr) BRECCIA_ASSERT(fi_close(&object_->fid) == 0);
  }
  Handle(Handle&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  [[nodiscard]] Fid* get() const { return object_; }
  [[nodiscard]] fid* id() const { return &object_->fid; }

 private:
  Fid* object_ = nullptr;
};

}  // namespace breccia::fabric::libfabric
