#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "disagg/coordinator/coordinator.h"
#include "fabric/port.h"

namespace breccia::disagg {

/// How to get to a cluster: the file that servers, clients and people name.
///
///     {"transport": "local", "ports": "/run/breccia", "coordinator":
///     "local:/run/breccia/coordinator"}
///
/// The coordinator is the address of a CoordinatorServer, or "zookeeper:HOST:PORT,...;/ROOT".
struct ClusterConfig {
  std::string transport = "local";
  std::string ports;  // a folder for the sockets of this computer
  std::string coordinator;
  std::uint64_t session_ms = 200;  // who was not heard of so long is gone; of "session_ms", if any
  std::uint32_t copies = 1;  // of each value, on servers of their own: 1 or 2; of "copies", if any

  /// Errors  NotFound, IOError; InvalidArgument: it is no such file, or says what there is not.
  static Result<ClusterConfig> read(const std::string& file);
  [[nodiscard]] Status write(const std::string& file) const;

  /// A port whose name nobody else has.
  [[nodiscard]] Result<std::unique_ptr<fabric::Port>> open_port(const std::string& name) const;
};

/// A coordinator, and the port that it is met by, if it is met by one.
struct MetCoordinator {
  std::unique_ptr<fabric::Port> port;
  std::unique_ptr<Coordinator> coordinator;

  /// Errors  those of a port; IOError: ZooKeeper's library.
  static Result<MetCoordinator> meet(const ClusterConfig& config, const std::string& name);
};

}  // namespace breccia::disagg
