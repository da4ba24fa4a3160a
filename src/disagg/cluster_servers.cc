#include "disagg/cluster_servers.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/secret.h"
#include "disagg/coordinator/coordinator_server.h"
#include "disagg/index/seat.h"
#include "disagg/memory/memory_seat.h"

namespace breccia::disagg {

namespace {

using fabric::TimeUs;

/// Between two looks at whether it is to end.
constexpr TimeUs kTurnUs = 20'000;
/// A hash index grows up to so many bits of chains by itself.
constexpr std::uint32_t kGrownBits = 22;
/// Who failed begins anew behind that time.
constexpr auto kPause = std::chrono::milliseconds(100);

/// A name that nobody had or will have.
std::string new_name(const char* what) {
  return std::string(what) + "-" + std::to_string(::getpid()) + "-" +
         std::to_string(base::draw_secret_word() % 1'000'000'000);
}

/// Sits down on a seat again each time that it is of no use any more.
template <class MakeSeat>
void sit(const ClusterConfig& config, const char* what, const std::atomic<bool>& is_over,
         const MakeSeat& make_seat) {
  while (!is_over) {
    const std::string name = new_name(what);
    Status status;
    auto port = config.open_port(name);
    auto met = MetCoordinator::meet(config, name + ".c");
    if (port.ok() && met.ok()) {
      log(LogLevel::kInfo,
          name + " at " + port.value()->address() + ", " + port.value()->describe());
      const auto seat = make_seat(port.value().get(), met.value().coordinator.get(), name);
      while (!is_over && status.ok()) {
        status = seat->serve(port.value()->now_us() + kTurnUs);
      }
      // Others believe what its server told until then, so it does not leave before.
      while (port.value()->now_us() < met.value().coordinator->sure_until_us()) {
        (void)port.value()->poll(port.value()->now_us() + kTurnUs);
      }
    } else {
      status = port.ok() ? met.status() : port.status();
    }
    if (status.ok()) continue;
    log(LogLevel::kWarning, name + " begins anew: " + status.ToString());
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace

Status run_coordinator(const ClusterConfig& config, const std::string& file,
                       const std::atomic<bool>& is_over) {
  BRECCIA_TAKE(const auto port, config.open_coordinator_port());
  log(LogLevel::kInfo, "coordinator at " + port->address() + ", " + port->describe());
  CoordinatorServer::Options options;
  options.file = file;
  options.session_us = 1000 * config.session_ms;
  BRECCIA_TAKE(const auto server, CoordinatorServer::make(port.get(), options));
  while (!is_over) BRECCIA_TRY(server->serve(port->now_us() + kTurnUs));
  return Status::OK();
}

void run_memory_server(const ClusterConfig& config, std::uint64_t bytes,
                       const std::atomic<bool>& is_over) {
  const std::uint32_t copies = config.copies;
  sit(config, "memory", is_over,
      [bytes, copies](auto* port, auto* coordinator, const std::string& name) {
        MemorySeat::Options options;
        options.server.member = name;
        options.server.bytes = bytes;
        options.copies = copies;
        return std::make_unique<MemorySeat>(port, coordinator, options);
      });
}

void run_index_server(const ClusterConfig& config, std::uint64_t keys,
                      const std::atomic<bool>& is_over) {
  const std::string process = new_name("process");
  const auto sit_as = [&](Role role, const char* what) {
    sit(config, what, is_over, [&](auto* port, auto* coordinator, const std::string& name) {
      Seat::Options options;
      options.role = role;
      options.member = name;
      options.process = process;
      // Seven tenths full with all keys.
      const std::uint64_t buckets = std::bit_ceil(keys * 10 / (7 * Bucket::kSlots) + 1);
      GrowingTable::Options& table = options.hash.table;
      table.bucket_bits = static_cast<std::uint32_t>(std::bit_width(buckets) - 1);
      table.more_buckets = static_cast<std::uint32_t>(std::max<std::uint64_t>(buckets / 4, 64));
      table.bucket_bits_max = std::max(table.bucket_bits, kGrownBits);
      return std::make_unique<Seat>(port, coordinator, options);
    });
  };
  std::thread hash([&sit_as] { sit_as(Role::kHash, "hash"); });
  sit_as(Role::kOrdered, "ordered");
  hash.join();
}

}  // namespace breccia::disagg
