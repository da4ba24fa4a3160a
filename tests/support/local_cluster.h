#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "disagg/cluster_config.h"
#include "disagg/cluster_servers.h"
#include "support/folder.h"

namespace breccia::testing {

/// Servers of a cluster in threads of this process, over shared memory: two copies of each value.
class LocalCluster {
 public:
  /// Index servers have room for so many keys at first.
  explicit LocalCluster(std::uint64_t keys) {
    config_.ports = folder_.path();
    config_.session_ms = 2000;
    config_.copies = 2;
    config_.coordinator = "local:" + folder_.path() + "/coordinator";
    EXPECT_TRUE(config_.write(file()).ok());
    start([this] { EXPECT_TRUE(disagg::run_coordinator(config_, "", is_over_).ok()); });
    for (int i = 0; i < 2; ++i) {
      start([this] { (void)disagg::run_memory_server(config_, 64 << 20, "", is_over_); });
      start([this, keys] { disagg::run_index_server(config_, keys, is_over_); });
    }
  }
  ~LocalCluster() {
    is_over_ = true;
    for (std::thread& server : servers_) server.join();
  }
  LocalCluster(const LocalCluster&) = delete;
  LocalCluster& operator=(const LocalCluster&) = delete;

  /// By which it is found.
  [[nodiscard]] std::string file() const { return folder_ / "cluster.json"; }

 private:
  void start(const std::function<void()>& body) { servers_.emplace_back(body); }

  const Folder folder_{Place::kMemory};
  disagg::ClusterConfig config_;
  std::atomic<bool> is_over_{false};
  std::vector<std::thread> servers_;
};

}  // namespace breccia::testing
