#include "disagg/cluster_config.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/assert.h"
#include "disagg/coordinator/remote_coordinator.h"
#include "disagg/coordinator/zookeeper.h"
#include "disagg/key_id.h"
#include "fabric/libfabric/libfabric_port.h"
#include "fabric/libfabric/library.h"
#include "fabric/local/local_port.h"

namespace breccia::disagg {

namespace {

namespace libfabric = fabric::libfabric;

constexpr const char* kLocal = "local";
constexpr const char* kLibfabric = "libfabric";
constexpr std::string_view kZooKeeper = "zookeeper:";

/// Of "HOST:PORT,...;/ROOT".
ZooKeeper::Options zookeeper_in(const std::string& address) {
  const std::size_t root = address.find(';');
  ZooKeeper::Options options;
  options.hosts = address.substr(0, root);
  options.root = root == std::string::npos ? "/breccia" : address.substr(root + 1);
  return options;
}

/// A field of the file.
struct Field {
  std::string_view name;
  const char* transport;  // null: of each
};
constexpr std::array kFields = {
    Field{"transport", nullptr},
    Field{"coordinator", nullptr},
    Field{"session_ms", nullptr},
    Field{"copies", nullptr},
    Field{"shards", nullptr},
    Field{"ports", kLocal},
    Field{"provider", kLibfabric},
    Field{"node", kLibfabric},
    Field{"allow_software", kLibfabric},
};

/// Errors  InvalidArgument: a field that there is not.
Status check_fields(const nlohmann::json& json, const std::string& transport) {
  for (const auto& [name, value] : json.items()) {
    const auto* const field = std::find_if(kFields.begin(), kFields.end(),
                                           [&](const Field& one) { return one.name == name; });
    if (field == kFields.end()) {
      return Status::InvalidArgument("a field that there is not", name);
    }
    if (field->transport != nullptr && field->transport != transport) {
      return Status::InvalidArgument("the field \"" + name + "\" is of the other transport",
                                     field->transport);
    }
  }
  return Status::OK();
}

libfabric::Options options_of(const ClusterConfig& config) {
  const auto policy = libfabric::Provider::policy_of(config.provider);
  BRECCIA_ASSERT(policy.has_value());  // check() has looked
  return {.policy = *policy,
          .allow_software = config.allow_software,
          .node = config.node,
          .service = {}};
}

Result<std::unique_ptr<fabric::Port>> open_libfabric(const libfabric::Options& options) {
  BRECCIA_TAKE(auto port, libfabric::LibfabricPort::open(options));
  return std::unique_ptr<fabric::Port>(std::move(port));
}

/// Of "fi:NETWORK:HOST:PORT", or "[HOST]" there: the host and the port. None: it is none.
std::optional<std::pair<std::string, std::string>> socket_in(const std::string& address) {
  constexpr std::string_view kScheme = "fi:";
  if (!address.starts_with(kScheme)) return std::nullopt;
  const std::size_t network = address.find(':', kScheme.size());
  const std::size_t port = address.rfind(':');
  if (network == std::string::npos || port <= network + 1) return std::nullopt;
  std::string host = address.substr(network + 1, port - network - 1);
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return std::pair(host, address.substr(port + 1));
}

}  // namespace

Result<ClusterConfig> ClusterConfig::read(const std::string& file) {
  std::ifstream stream(file);
  if (!stream.is_open()) return Status::NotFound("there is no file " + file);
  std::ostringstream all;
  all << stream.rdbuf();
  ClusterConfig config;
  try {
    const auto json = nlohmann::json::parse(all.str());
    config.transport = json.at("transport");
    if (const Status status = check_fields(json, config.transport); !status.ok()) {
      return Status::InvalidArgument(file, status.ToString());
    }
    if (config.transport == kLocal) config.ports = json.at("ports");
    config.provider = json.value("provider", config.provider);
    config.allow_software = json.value("allow_software", config.allow_software);
    config.node = json.value("node", config.node);
    config.coordinator = json.at("coordinator");
    config.session_ms = json.value("session_ms", config.session_ms);
    config.copies = json.value("copies", config.copies);
    config.shards = json.value("shards", config.shards);
  } catch (const nlohmann::json::exception& error) {
    return Status::InvalidArgument(file + " says nothing of a cluster", error.what());
  }
  if (const Status status = config.check(); !status.ok()) {
    return Status::InvalidArgument(file, status.ToString());
  }
  return config;
}

Status ClusterConfig::write(const std::string& file) const {
  BRECCIA_TRY(check());
  nlohmann::json json = {{"transport", transport},
                         {"coordinator", coordinator},
                         {"session_ms", session_ms},
                         {"copies", copies},
                         {"shards", shards}};
  if (transport == kLocal) {
    json["ports"] = ports;
  } else {
    json["provider"] = provider;
    json["allow_software"] = allow_software;
    json["node"] = node;
  }
  std::ofstream stream(file);
  stream << json.dump(2) << "\n";
  stream.close();
  return stream.good() ? Status::OK() : Status::IOError("cannot write " + file);
}

Status ClusterConfig::check() const {
  if (copies != 1 && copies != 2) {
    return Status::InvalidArgument("copies that there are not", "one or two of each value");
  }
  if (shards < 1 || shards > kShardsMax) {
    return Status::InvalidArgument("shards that there are not", "there may be 1 to 16");
  }
  if (transport == kLocal) {
    const bool is_local = provider.empty() && !allow_software && node.empty();
    return is_local ? Status::OK()
                    : Status::InvalidArgument("a provider, software and a node are of libfabric");
  }
  if (transport != kLibfabric) {
    return Status::InvalidArgument("a transport that there is not: " + transport,
                                   "there are local and libfabric");
  }
  if (!ports.empty()) return Status::InvalidArgument("ports in a folder are local ones");
  if (!libfabric::Provider::policy_of(provider).has_value()) {
    return Status::InvalidArgument("a provider that there is not: " + provider,
                                   "there are verbs;ofi_rxm, efa and tcp;ofi_rxm");
  }
  return Status::OK();
}

void ClusterConfig::prepare_process() const {
  if (transport == kLibfabric) libfabric::prepare_process();
}

Result<std::unique_ptr<fabric::Port>> ClusterConfig::open_port(const std::string& name) const {
  BRECCIA_ASSERT(!name.empty());
  BRECCIA_TRY(check());
  if (transport == kLibfabric) return open_libfabric(options_of(*this));
  BRECCIA_TAKE(auto port, fabric::local::LocalPort::open(ports + "/" + name));
  return std::unique_ptr<fabric::Port>(std::move(port));
}

Result<std::unique_ptr<fabric::Port>> ClusterConfig::open_coordinator_port() const {
  const Status another = Status::InvalidArgument("another kind of coordinator", coordinator);
  BRECCIA_TRY(check());
  if (transport == kLocal) {
    const std::string prefix = "local:" + ports + "/";
    if (!coordinator.starts_with(prefix)) return another;
    return open_port(coordinator.substr(prefix.size()));
  }
  const auto socket = socket_in(coordinator);
  if (!socket.has_value()) return another;
  libfabric::Options options = options_of(*this);
  std::tie(options.node, options.service) = *socket;
  BRECCIA_TAKE(auto port, open_libfabric(options));
  if (port->address() != coordinator) {
    return Status::InvalidArgument("the coordinator's address is not the one of its port",
                                   port->address());
  }
  return port;
}

Result<MetCoordinator> MetCoordinator::meet(const ClusterConfig& config, const std::string& name) {
  MetCoordinator met;
  if (config.coordinator.starts_with(kZooKeeper)) {
    auto options = zookeeper_in(config.coordinator.substr(kZooKeeper.size()));
    options.session_us = 1000 * config.session_ms;
    BRECCIA_TAKE(met.coordinator, ZooKeeper::open(options));
    return met;
  }
  BRECCIA_TAKE(met.port, config.open_port(name));
  RemoteCoordinator::Options options;
  options.address = config.coordinator;
  met.coordinator = std::make_unique<RemoteCoordinator>(met.port.get(), options);
  return met;
}

}  // namespace breccia::disagg
