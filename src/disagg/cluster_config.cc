#include "disagg/cluster_config.h"

#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "base/assert.h"
#include "disagg/coordinator/remote_coordinator.h"
#include "disagg/coordinator/zookeeper.h"
#include "fabric/local/local_port.h"

namespace breccia::disagg {

namespace {

constexpr const char* kLocal = "local";
constexpr std::string_view kZooKeeper = "zookeeper:";

/// Of "HOST:PORT,...;/ROOT".
ZooKeeper::Options zookeeper_in(const std::string& address) {
  const std::size_t root = address.find(';');
  ZooKeeper::Options options;
  options.hosts = address.substr(0, root);
  options.root = root == std::string::npos ? "/breccia" : address.substr(root + 1);
  return options;
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
    config.ports = json.at("ports");
    config.coordinator = json.at("coordinator");
    config.session_ms = json.value("session_ms", config.session_ms);
    config.copies = json.value("copies", config.copies);
  } catch (const nlohmann::json::exception& error) {
    return Status::InvalidArgument(file + " says nothing of a cluster", error.what());
  }
  if (config.transport != kLocal) {
    return Status::InvalidArgument(file + " names a transport that there is not", config.transport);
  }
  if (config.copies != 1 && config.copies != 2) {
    return Status::InvalidArgument(file + " wants copies that there are not",
                                   "one or two of each value");
  }
  return config;
}

Status ClusterConfig::write(const std::string& file) const {
  const nlohmann::json json = {{"transport", transport},
                               {"ports", ports},
                               {"coordinator", coordinator},
                               {"session_ms", session_ms},
                               {"copies", copies}};
  std::ofstream stream(file);
  stream << json.dump(2) << "\n";
  stream.close();
  return stream.good() ? Status::OK() : Status::IOError("cannot write " + file);
}

Result<std::unique_ptr<fabric::Port>> ClusterConfig::open_port(const std::string& name) const {
  BRECCIA_ASSERT(transport == kLocal && !name.empty());
  BRECCIA_TAKE(auto port, fabric::local::LocalPort::open(ports + "/" + name));
  return std::unique_ptr<fabric::Port>(std::move(port));
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
