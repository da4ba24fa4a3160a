#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "disagg/cluster_config.h"
#include "disagg/cluster_map.h"
#include "support/folder.h"
#include "support/net_spaces.h"
#include "support/zookeeper_server.h"

namespace breccia::crash {

/// Of a child's environment: its cluster's file.
constexpr const char* kDisaggConfig = "BRECCIA_CLUSTER";
/// The same: where it keeps what it has.
constexpr const char* kDisaggFile = "BRECCIA_CLUSTER_FILE";

/// How servers find one another, and by what.
enum class Meet : std::uint8_t {
  kShared,     // shared memory, and a coordinator of the cluster's own
  kZooKeeper,  // shared memory, and ZooKeeper
  kTcp,        // TCP between computers of their own, and a coordinator of the cluster's own
  kFiles,      // as kShared, but each value is on one server, and in its file
};

/// The processes of a cluster's servers, each value on two of them, or in files. Over TCP each is
/// on a computer of its own (net_spaces.h), and who makes this is on one more. Each is this program
/// again, with the test DISABLED_DisaggServer.WHAT.
/// Threads one: children end with it.
class DisaggProcesses {
 public:
  /// Shape   null: it is not to be had here, *why_not says why.
  static std::unique_ptr<DisaggProcesses> make(Meet meet, std::uint32_t shards,
                                               fabric::TimeUs session_us, std::string* why_not);
  ~DisaggProcesses();
  DisaggProcesses(const DisaggProcesses&) = delete;
  DisaggProcesses& operator=(const DisaggProcesses&) = delete;

  /// "Index", "Memory": one more, on a computer that is new, if there are any.
  pid_t start(const std::string& what);
  void kill(pid_t process);
  /// All memory servers, or all servers, are killed at once, and begin anew with their files.
  void cut_power(bool of_all);
  /// The coordinator, whichever it is, stands still, or goes on.
  void hold_coordinator(bool stands) const;
  /// The cable to its computer is pulled out, or is in.
  void set_link(pid_t process, bool is_up) const;
  /// What passes there in a second, each way; 0: as much as can.
  void set_speed(pid_t process, std::uint64_t bits) const;

  /// As clients have it.
  [[nodiscard]] const disagg::ClusterConfig& config() const { return config_; }
  /// Waits until all indexes are whole and their servers there, one that waits for their place,
  /// and two memory servers.
  /// Shape   a map without members, if that takes too long; *seen is what there is then.
  [[nodiscard]] disagg::ClusterMap wait_until_whole(const std::string& name,
                                                    std::string* seen) const;

 private:
  struct Child {
    std::string what, file;
    breccia::testing::NetSpaces::Space space;
  };
  DisaggProcesses(std::uint32_t shards, fabric::TimeUs session_us);
  pid_t start(const std::string& what, const std::string& file);

  // Ends last: where it was made others may live as long as it does.
  std::unique_ptr<breccia::testing::NetSpaces> spaces_;
  const breccia::testing::Folder folder_{breccia::testing::Place::kMemory};
  disagg::ClusterConfig config_;
  std::unique_ptr<breccia::testing::ZooKeeperServer> zookeeper_;
  std::map<pid_t, Child> all_;
  pid_t coordinator_ = 0;  // 0: it is ZooKeeper
  std::size_t files_ = 0;
};

/// Of a member's name: WHAT-PROCESS-NUMBER.
[[nodiscard]] pid_t process_of(const std::string& member);

/// An operation has so long, and a cluster to be whole again.
constexpr fabric::TimeUs kDisaggLongUs = 20'000'000;

}  // namespace breccia::crash
