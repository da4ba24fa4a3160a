#include "fabric/libfabric/spare.h"

#include <utility>

#include "base/memory.h"

namespace breccia::fabric::libfabric {

namespace {

constexpr std::size_t kReceives = 64;
constexpr std::size_t kSlots = 32;

}  // namespace

Spare::~Spare() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  has_work_.notify_one();
  if (thread_.joinable()) thread_.join();
}

Result<std::unique_ptr<Endpoint>> Spare::take() {
  const std::lock_guard lock(mutex_);
  auto taken = std::exchange(opened_, std::unique_ptr<Endpoint>());
  if (!taken.ok() || taken.value() != nullptr || is_being_opened_) return taken;
  is_wanted_ = true;
  start();
  return taken;
}

void Spare::throw_away(std::unique_ptr<Endpoint> endpoint) {
  const std::lock_guard lock(mutex_);
  thrown_away_.push_back(std::move(endpoint));
  start();
}

void Spare::start() {
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  has_work_.notify_one();
}

void Spare::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    has_work_.wait(lock, [this] { return stops_ || is_wanted_ || !thrown_away_.empty(); });
    if (stops_) return;
    auto to_close = std::exchange(thrown_away_, {});
    const bool opens = std::exchange(is_wanted_, false);
    is_being_opened_ = opens;
    lock.unlock();
    to_close.clear();
    Result<std::unique_ptr<Endpoint>> opened = std::unique_ptr<Endpoint>();
    if (opens) opened = base::or_memory_limit([this] { return open(); });
    lock.lock();
    if (opens) opened_ = std::move(opened);
    is_being_opened_ = false;
  }
}

Result<std::unique_ptr<Endpoint>> Spare::open() {
  return Endpoint::open(*provider_, provider_->info(), kReceives, kSlots);
}

}  // namespace breccia::fabric::libfabric
