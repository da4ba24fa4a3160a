#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/result.h"
#include "fabric/libfabric/endpoint.h"

namespace breccia::fabric::libfabric {

/// Opens endpoints, and closes those that are thrown away: a thread of its own, as that takes tens
/// of milliseconds, which nobody who has a time to keep is to wait.
/// Threads any.
class Spare {
 public:
  /// Owner   the provider outlives it.
  explicit Spare(const Provider* provider) : provider_(provider) {}
  ~Spare();
  Spare(const Spare&) = delete;
  Spare& operator=(const Spare&) = delete;

  /// A new endpoint, or why there is none; null: it is being opened.
  Result<std::unique_ptr<Endpoint>> take();
  void throw_away(std::unique_ptr<Endpoint> endpoint);

 private:
  void run();
  Result<std::unique_ptr<Endpoint>> open();
  void start();

  const Provider* const provider_;
  std::mutex mutex_;
  std::condition_variable has_work_;
  bool stops_ = false;
  bool is_wanted_ = false, is_being_opened_ = false;
  Result<std::unique_ptr<Endpoint>> opened_ = std::unique_ptr<Endpoint>();
  std::vector<std::unique_ptr<Endpoint>> thrown_away_;
  std::thread thread_;  // from when there is something to do
};

}  // namespace breccia::fabric::libfabric
