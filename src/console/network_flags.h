#pragma once

#include <string>

#include "base/result.h"
#include "console/app.h"
#include "disagg/cluster_config.h"

namespace breccia::console {

/// Flags that say by which network the servers of a cluster and their clients reach one another,
/// shared by the commands that run them.
struct NetworkFlags {
  std::string transport = "local";
  std::string provider;
  bool allow_software = false;
  std::string node;

  void add_to(App* app);
  /// --node alone, of commands that are told the rest by a cluster's file.
  void add_node(App* app);

  /// What they say, of all that a cluster's file has; the process is ready to open ports by it.
  /// Errors  InvalidArgument: a transport or a provider that there is not, or flags of another
  ///         transport.
  /// Threads there is no other one yet.
  [[nodiscard]] Result<disagg::ClusterConfig> network() const;
  /// What a cluster's file says, with the node that was named, if one was; as above.
  /// Errors  as of ClusterConfig::read() and network().
  [[nodiscard]] Result<disagg::ClusterConfig> read(const std::string& file) const;
};

}  // namespace breccia::console
