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
///     {"transport": "libfabric", "provider": "tcp;ofi_rxm", "node": "10.0.0.7", "coordinator":
///     "fi:tcp:10.0.0.1:4711"}
///
/// The coordinator is the address of a CoordinatorServer, or "zookeeper:HOST:PORT,...;/ROOT".
/// A field of the other transport, or one that there is not, is an error.
struct ClusterConfig {
  std::string transport = "local";  // or "libfabric"
  std::string ports;                // local: a folder for the sockets of this computer
  // libfabric:
  std::string provider;         // "verbs;ofi_rxm", "efa", "tcp;ofi_rxm"; empty: the best there is
  bool allow_software = false;  // where no provider is named, and there is no hardware
  std::string node;             // this computer's address or name there; empty: the first it has
  // both:
  std::string coordinator;
  std::uint64_t session_ms = 200;  // who was not heard of so long is gone; of "session_ms", if any
  std::uint32_t copies = 1;  // of each value, on servers of their own: 1 or 2; of "copies", if any
  /// Of "shards", if any: how many indexes of each kind a cluster that begins has, and how many of
  /// each an index server may have at once.
  std::uint32_t shards = 1;

  /// Errors  NotFound, IOError; InvalidArgument: it is no such file, or says what there is not.
  static Result<ClusterConfig> read(const std::string& file);
  [[nodiscard]] Status write(const std::string& file) const;
  /// Errors  InvalidArgument: a transport or a provider that there is not, or what is of another
  ///         transport.
  [[nodiscard]] Status check() const;

  /// Of a program that is to open ports, before it has threads: what the transport takes from its
  /// environment, where the user says nothing there.
  void prepare_process() const;
  /// A port whose name nobody else has.
  /// Errors  InvalidArgument: as check()'s; those of a port.
  [[nodiscard]] Result<std::unique_ptr<fabric::Port>> open_port(const std::string& name) const;
  /// The port that the coordinator is asked at.
  /// Errors  InvalidArgument: it is no CoordinatorServer, or not at an address of this computer's;
  ///         those of a port.
  [[nodiscard]] Result<std::unique_ptr<fabric::Port>> open_coordinator_port() const;
};

/// A coordinator, and the port that it is met by, if it is met by one.
struct MetCoordinator {
  std::unique_ptr<fabric::Port> port;
  std::unique_ptr<Coordinator> coordinator;

  /// Errors  those of a port; IOError: ZooKeeper's library.
  static Result<MetCoordinator> meet(const ClusterConfig& config, const std::string& name);
};

}  // namespace breccia::disagg
