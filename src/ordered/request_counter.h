#pragma once

#include <string>

#include "batch/requests.h"
#include "ordered/parts.h"

namespace breccia::ordered {

/// Counts what batches asked for, when they have been answered.
/// Threads any.
class RequestCounter {
 public:
  /// `no_device`: why no device runs batches of `device_min` requests and more; empty if one does,
  /// or none was looked for.
  RequestCounter(Statistics* statistics, BackendMin device_min, std::string no_device)
      : statistics_(statistics), device_min_(device_min), no_device_(std::move(no_device)) {}

  void count(const batch::Requests& requests) const;

 private:
  void miss_device(const batch::Requests& requests) const;

  Statistics* statistics_;
  const BackendMin device_min_;
  const std::string no_device_;
};

}  // namespace breccia::ordered
