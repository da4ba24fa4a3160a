#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "support/folder.h"

namespace breccia::testing {

/// A server of ZooKeeper in a process of its own, with sessions of 100 ms and more, which ends with
/// this object, or with the thread that started it.
class ZooKeeperServer {
 public:
  ZooKeeperServer();
  ~ZooKeeperServer();
  ZooKeeperServer(const ZooKeeperServer&) = delete;
  ZooKeeperServer& operator=(const ZooKeeperServer&) = delete;

  [[nodiscard]] std::string hosts() const;

  /// Waits until it serves; with what it had when it was killed.
  void start();
  void kill();
  void send(int signal) const;

 private:
  /// Whether it serves.
  [[nodiscard]] bool answers() const;

  Folder folder_{Place::kMemory};
  std::uint16_t port_ = 0;
  pid_t process_ = 0;  // 0: none
};

}  // namespace breccia::testing
