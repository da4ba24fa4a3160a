#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "disagg/client/client.h"
#include "disagg/cluster_config.h"
#include "fabric/port.h"

namespace breccia::disagg {

/// Clients of a cluster, each used by one thread at a time.
/// Threads any.
class Clients {
  struct One;

 public:
  /// Shape   clients_max > 0.
  Clients(ClusterConfig config, std::uint32_t clients_max);
  ~Clients();
  Clients(const Clients&) = delete;
  Clients& operator=(const Clients&) = delete;

  /// A client that is its holder's until this ends.
  /// Owner   before the clients.
  class Taken {
   public:
    Taken(Clients* all, One* one) : all_(all), one_(one) {}
    Taken(Taken&& other) noexcept : all_(other.all_), one_(std::exchange(other.one_, nullptr)) {}
    Taken& operator=(Taken&&) = delete;
    ~Taken() {
      if (one_ != nullptr) all_->give_back(one_);
    }
    [[nodiscard]] Client* get() const;
    Client* operator->() const { return get(); }

   private:
    Clients* const all_;
    One* one_;
  };
  /// One that nobody uses; another one is made, or waited for.
  /// Errors  TimedOut: there is none until then, or no cluster; those of a port; IOError: no
  ///         coordinator.
  Result<Taken> take(fabric::TimeUs until);
  /// What all of them did, as of when they were given back.
  [[nodiscard]] ClientCounts counts() const;
  /// The network that the first one is on, for people; empty: there is none yet.
  [[nodiscard]] std::string describe() const;
  /// Gives the memory back that they have of servers, when it has rested. Nobody has one.
  /// Errors  the first one's.
  [[nodiscard]] Status close(fabric::TimeUs until);

 private:
  /// A client with what it stands on.
  struct One {
    std::unique_ptr<fabric::Port> port;
    MetCoordinator met;
    std::unique_ptr<Client> client;
    ClientCounts counts;  // as of when it was given back
  };
  Result<std::unique_ptr<One>> make(std::uint64_t number, fabric::TimeUs until) const;
  void give_back(One* one);

  const ClusterConfig config_;
  const std::uint32_t clients_max_;
  const std::string name_;  // that no other ones' has
  mutable std::mutex mutex_;
  std::condition_variable given_back_;
  std::vector<std::unique_ptr<One>> all_;
  std::vector<One*> free_;
  ClientCounts gone_;       // of those that were closed
  std::uint32_t made_ = 0;  // and those that are being made
  std::uint64_t next_ = 0;  // number of the next one's name
};

}  // namespace breccia::disagg
