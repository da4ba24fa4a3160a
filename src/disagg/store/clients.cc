#include "disagg/store/clients.h"

#include <unistd.h>

#include <chrono>

#include "base/assert.h"
#include "base/clock.h"
#include "base/secret.h"

namespace breccia::disagg {

using fabric::TimeUs;

Clients::Clients(ClusterConfig config, std::uint32_t clients_max)
    : config_(std::move(config)),
      clients_max_(clients_max),
      name_("store-" + std::to_string(::getpid()) + "-" +
            std::to_string(base::draw_secret_word() >> 32)) {
  BRECCIA_ASSERT(clients_max > 0);
}

Clients::~Clients() { BRECCIA_ASSERT(free_.size() == all_.size()); }

Client* Clients::Taken::get() const { return one_->client.get(); }

Result<std::unique_ptr<Clients::One>> Clients::make(std::uint64_t number, TimeUs until) const {
  auto one = std::make_unique<One>();
  const std::string name = name_ + "-" + std::to_string(number);
  BRECCIA_TAKE(one->port, config_.open_port(name));
  BRECCIA_TAKE(one->met, MetCoordinator::meet(config_, name + ".c"));
  BRECCIA_TAKE(one->client, Client::open(one->port.get(), one->met.coordinator.get(), {}, until));
  return one;
}

Result<Clients::Taken> Clients::take(TimeUs until) {
  std::unique_lock lock(mutex_);
  while (free_.empty() && made_ == clients_max_) {
    const TimeUs now = base::now_us();
    if (now >= until) return Status::TimedOut("all clients of the store are busy");
    given_back_.wait_for(lock, std::chrono::microseconds(until - now));
  }
  if (!free_.empty()) {
    One* const one = free_.back();
    free_.pop_back();
    return Taken(this, one);
  }
  ++made_;
  const std::uint64_t number = next_++;
  lock.unlock();
  auto made = make(number, until);
  lock.lock();
  if (!made.ok()) {
    --made_;
    given_back_.notify_one();
    return made.status();
  }
  all_.push_back(made.take());
  BRECCIA_ASSERT(all_.size() <= clients_max_);
  return Taken(this, all_.back().get());
}

void Clients::give_back(One* one) {
  const std::lock_guard lock(mutex_);
  one->counts = one->client->counts();
  free_.push_back(one);
  given_back_.notify_one();
}

ClientCounts Clients::counts() const {
  const std::lock_guard lock(mutex_);
  ClientCounts sum = gone_;
  for (const auto& one : all_) sum += one->counts;
  return sum;
}

std::string Clients::describe() const {
  const std::lock_guard lock(mutex_);
  return all_.empty() ? std::string() : all_.front()->port->describe();
}

Status Clients::close(TimeUs until) {
  const std::lock_guard lock(mutex_);
  BRECCIA_ASSERT(free_.size() == all_.size());
  Status first;
  for (const auto& one : all_) {
    Status closed = one->client->close(until);
    if (first.ok()) first = std::move(closed);
    gone_ += one->client->counts();
  }
  free_.clear();
  all_.clear();
  made_ = 0;
  return first;
}

}  // namespace breccia::disagg
