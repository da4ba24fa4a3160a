#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fabric/libfabric/libfabric_port.h"
#include "fabric/local/local_port.h"
#include "fabric/port.h"
#include "fabric/sim/net.h"
#include "support/folder.h"

/// Networks on which the conformance tests of ports run.

namespace breccia::fabric::testing {

/// Some nodes with a port and a thread each.
class World {
 public:
  using Body = std::function<void(Port*)>;

  virtual ~World() = default;
  /// Runs them all, each with a port of its own, until they end. Addresses are known to all of
  /// them: a node's by its number.
  virtual void run(const std::vector<Body>& bodies) = 0;
  /// Of a node of the run.
  [[nodiscard]] virtual std::string address(std::size_t node) const = 0;
  /// Of a thread of a node: others go on meanwhile.
  virtual void sleep(TimeUs us) = 0;
  /// Of a node's thread, which then returns: nobody is there any more.
  virtual void die(std::size_t node) = 0;
};

class SimWorld final : public World {
 public:
  explicit SimWorld(std::uint64_t seed) : net_(seed, sim::Weather()) {}

  void run(const std::vector<Body>& bodies) override {
    std::vector<std::unique_ptr<Port>> ports;
    addresses_.clear();
    nodes_.clear();
    for (std::size_t i = 0; i < bodies.size(); ++i) {
      const sim::Net::Node node = nodes_.emplace_back(net_.add_node());
      ports.push_back(net_.open(node));
      addresses_.push_back(ports.back()->address());
      net_.start(node, [&bodies, i, port = ports.back().get()] { bodies[i](port); });
    }
    net_.run();
  }
  [[nodiscard]] std::string address(std::size_t node) const override { return addresses_.at(node); }
  void sleep(TimeUs us) override { net_.sleep(us); }
  void die(std::size_t node) override { net_.kill(nodes_.at(node)); }

 private:
  sim::Net net_;
  std::vector<sim::Net::Node> nodes_;
  std::vector<std::string> addresses_;
};

/// Nodes are threads of this process.
class ThreadWorld : public World {
 public:
  void run(const std::vector<Body>& bodies) override {
    addresses_.clear();
    for (std::size_t i = 0; i < bodies.size(); ++i) {
      ports_.push_back(open(i));
      ASSERT_NE(ports_.back(), nullptr);
      addresses_.push_back(ports_.back()->address());
    }
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < bodies.size(); ++i) {
      threads.emplace_back([&bodies, i, port = ports_[i].get()] { bodies[i](port); });
    }
    for (std::thread& thread : threads) thread.join();
    ports_.clear();
  }
  [[nodiscard]] std::string address(std::size_t node) const override { return addresses_.at(node); }
  void sleep(TimeUs us) override { std::this_thread::sleep_for(std::chrono::microseconds(us)); }
  void die(std::size_t node) override { ports_.at(node).reset(); }

 protected:
  template <class Opened>
  static std::unique_ptr<Port> port_of(Opened opened) {
    EXPECT_TRUE(opened.ok()) << opened.status().ToString();
    return opened.ok() ? opened.take() : nullptr;
  }

 private:
  virtual std::unique_ptr<Port> open(std::size_t node) = 0;

  std::vector<std::unique_ptr<Port>> ports_;
  std::vector<std::string> addresses_;
};

class LocalWorld final : public ThreadWorld {
 private:
  std::unique_ptr<Port> open(std::size_t node) override {
    return port_of(local::LocalPort::open(folder_.path() + "/" + std::to_string(node)));
  }
  breccia::testing::Folder folder_{breccia::testing::Place::kDisk};
};

/// By TCP, as everybody has that.
class LibfabricWorld final : public ThreadWorld {
 private:
  std::unique_ptr<Port> open(std::size_t /*node*/) override {
    libfabric::Options options;
    options.policy = libfabric::Policy::kTcp;
    options.node = "127.0.0.1";
    return port_of(libfabric::LibfabricPort::open(options));
  }
};

struct Kind {
  const char* name;
  std::unique_ptr<World> (*make)(std::uint64_t seed);
  std::uint64_t seeds;
};

inline std::vector<Kind> kinds() {
  return {{"Sim",
           [](std::uint64_t seed) -> std::unique_ptr<World> {
             return std::make_unique<SimWorld>(seed);
           },
           100},
          {"Local",
           [](std::uint64_t /*seed*/) -> std::unique_ptr<World> {
             return std::make_unique<LocalWorld>();
           },
           5},
          {"Libfabric",
           [](std::uint64_t /*seed*/) -> std::unique_ptr<World> {
             return std::make_unique<LibfabricWorld>();
           },
           3}};
}

}  // namespace breccia::fabric::testing
