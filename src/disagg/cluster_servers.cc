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
#include <vector>

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

/// Until it is of no use any more, or that is over.
template <class AnySeat>
Status sit_once(AnySeat* seat, fabric::Port* port, Coordinator* coordinator,
                const std::atomic<bool>& is_over) {
  Status status;
  while (!is_over && status.ok()) status = seat->serve(port->now_us() + kTurnUs);
  // Others believe what its server told until then, so it does not leave before.
  while (port->now_us() < coordinator->sure_until_us()) {
    (void)port->poll(port->now_us() + kTurnUs);
  }
  return status;
}

/// Opens a port, by a new name, and runs what sits there; again each time that it is of no use any
/// more, but where `ends_with` says so.
template <class RunOn>
Status sit(
    const ClusterConfig& config, const char* what, const std::atomic<bool>& is_over,
    const RunOn& run_on, bool (*ends_with)(const Status&) = [](const Status&) { return false; }) {
  while (!is_over) {
    const std::string name = new_name(what);
    const auto port = config.open_port(name);
    Status status = port.status();
    if (port.ok()) {
      log(LogLevel::kInfo,
          name + " at " + port.value()->address() + ", " + port.value()->describe());
      status = run_on(port.value().get(), name);
    }
    if (status.ok()) continue;
    if (ends_with(status)) return status;
    log(LogLevel::kWarning, name + " begins anew: " + status.ToString());
    std::this_thread::sleep_for(kPause);
  }
  return Status::OK();
}

/// A memory server, by other names too, as long as what it has is of use.
Status sit_on_memory(const ClusterConfig& config, MemorySeat::Options options, fabric::Port* port,
                     const std::atomic<bool>& is_over) {
  std::unique_ptr<MemoryServer> server;
  while (true) {
    const auto met = MetCoordinator::meet(config, options.server.member + ".c");
    Status status = met.status();
    if (met.ok()) {
      Coordinator* const coordinator = met.value().coordinator.get();
      MemorySeat seat(port, coordinator, options, std::move(server));
      status = sit_once(&seat, port, coordinator, is_over);
      server = seat.take_server();
    }
    const bool is_at_end = server == nullptr || is_over || status.IsInvalidArgument();
    if (is_at_end) return status;
    log(LogLevel::kWarning,
        options.server.member + " comes back with its values: " + status.ToString());
    // Who is no member any more has no time to lose; others would come here at once again.
    if (!status.IsAborted()) std::this_thread::sleep_for(kPause);
    options.server.member = new_name("memory");
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

Status run_memory_server(const ClusterConfig& config, std::uint64_t bytes, const std::string& file,
                         const std::atomic<bool>& is_over) {
  const auto place = file.empty() ? nullptr : medium_in_file(file);
  MemorySeat::Options options;
  constexpr std::uint64_t kChunkBytes = PoolImage::kChunkLines * kLineBytes;
  options.server.bytes = bytes / kChunkBytes * kChunkBytes;
  options.server.place = place.get();
  options.copies = config.copies;
  const auto sit_once_more = [&](fabric::Port* port, const std::string& name) {
    options.server.member = name;
    return sit_on_memory(config, options, port, is_over);
  };
  // Another try would bring no other file.
  return sit(config, "memory", is_over, sit_once_more, [](const Status& status) {
    return status.IsInvalidArgument() || status.IsCorruption() || status.IsNotSupported();
  });
}

void run_index_server(const ClusterConfig& config, std::uint64_t keys,
                      const std::atomic<bool>& is_over) {
  const std::string process = new_name("process");
  const std::uint64_t keys_of_each = (keys + config.shards - 1) / config.shards;
  const auto sit_as = [&](Role role, const char* what) {
    (void)sit(config, what, is_over, [&](fabric::Port* port, const std::string& name) -> Status {
      BRECCIA_TAKE(const auto met, MetCoordinator::meet(config, name + ".c"));
      Seat::Options options;
      options.role = role;
      options.shards = config.shards;
      options.member = name;
      options.process = process;
      options.other_us = 1250 * config.session_ms;
      // Seven tenths full with all keys.
      const std::uint64_t buckets = std::bit_ceil(keys_of_each * 10 / (7 * Bucket::kSlots) + 1);
      GrowingTable::Options& table = options.hash.table;
      table.bucket_bits = static_cast<std::uint32_t>(std::bit_width(buckets) - 1);
      table.more_buckets = static_cast<std::uint32_t>(std::max<std::uint64_t>(buckets / 4, 64));
      table.bucket_bits_max = std::max(table.bucket_bits, kGrownBits);
      Seat seat(port, met.coordinator.get(), options);
      return sit_once(&seat, port, met.coordinator.get(), is_over);
    });
  };
  std::vector<std::thread> seats;
  for (std::uint32_t i = 0; i < config.shards; ++i) {
    seats.emplace_back([&sit_as] { sit_as(Role::kHash, "hash"); });
    seats.emplace_back([&sit_as] { sit_as(Role::kOrdered, "ordered"); });
  }
  for (std::thread& one : seats) one.join();
}

}  // namespace breccia::disagg
