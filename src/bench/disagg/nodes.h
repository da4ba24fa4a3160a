#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "bench/disagg/ordered_alone.h"
#include "bench/disagg/watched_port.h"
#include "bench/disagg/ways.h"
#include "disagg/cluster_config.h"
#include "disagg/cluster_map.h"
#include "disagg/index/hash_server.h"
#include "disagg/index/ordered_server.h"
#include "disagg/memory/memory_server.h"

namespace breccia::bench::disagg {

/// Servers of a disaggregated store on this computer: a hash server and an ordered server of each
/// shard, and memory servers, each with a port and a thread of its own; or one index alone.
/// Owner   the watch outlives it.
/// Threads one owner; its clients have threads of their own.
class Nodes {
 public:
  struct Options {
    breccia::disagg::ClusterConfig network;  // that ports are opened by; all that is said of it
    std::uint64_t keys = 0;                  // that there are at most
    std::uint64_t block_bytes = 0;           // of a key with its value
    std::uint32_t memory_servers = 2;
    std::string keep;          // a folder for memory servers' files, which are removed; empty: none
    std::uint32_t shards = 1;  // one, unless the indexes are those of a store
    Indexes indexes = Indexes::kBoth;
    Watch* hash_watch = nullptr;  // on the hash server's port, if it is wanted
    std::uint64_t seed = 1;
  };

  /// Errors  IOError; MemoryLimit.
  static Result<std::unique_ptr<Nodes>> start(const Options& options);
  ~Nodes();
  Nodes(const Nodes&) = delete;
  Nodes& operator=(const Nodes&) = delete;

  /// Who is who, for clients.
  [[nodiscard]] const breccia::disagg::ClusterMap& map() const { return map_; }
  /// Of the first shard. Takes the server of an index away, and makes ready another one, as one
  /// that waits has its memory before. Nobody is answered until begin_rebuild(). There are both
  /// indexes.
  Status lose(breccia::disagg::Role role);
  /// That other one begins to build the index; who asks needs the map anew.
  Status begin_rebuild() { return serve_all(); }
  /// Whether the last one that was begun is whole.
  [[nodiscard]] bool is_rebuilt() const { return is_rebuilt_; }
  /// There is a hash server, and meanwhile the first one does nothing, neither has its port
  /// anything to do.
  void let_hash_server_pause(const std::function<void()>& meanwhile);
  /// A port of a client's.
  Result<std::unique_ptr<fabric::Port>> open_port();
  /// Entries of a hundred that a hash index has room for without longer chains, with so many keys.
  [[nodiscard]] double fill_percent(std::uint64_t keys) const;
  /// What index servers' threads have worked so far, in seconds; of one that is not there none.
  struct Cpu {
    double hash = 0, ordered = 0;
  };
  [[nodiscard]] Cpu index_cpu() const;

 private:
  explicit Nodes(const Options& options) : options_(options) {}
  Status make();
  /// A thread that serves.
  struct Served {
    std::atomic<bool> is_over{false};
    std::thread thread;
  };
  std::unique_ptr<Served> serve(const std::function<Status(fabric::TimeUs until)>& once);
  static void stop(Served* served);
  Result<std::unique_ptr<breccia::disagg::HashServer>> make_hash_server(std::uint32_t shard);
  Result<std::unique_ptr<breccia::disagg::OrderedServer>> make_ordered_server(std::uint32_t shard);
  Status make_indexes();
  Status make_alone();
  Status serve_shard(std::uint32_t shard);
  Status serve_all();
  std::unique_ptr<Served> serve_index(breccia::disagg::IndexServer* server);

  const Options options_;
  breccia::disagg::ClusterMap map_;
  int next_port_ = 0;
  std::uint32_t bucket_bits_ = 0;
  std::vector<std::unique_ptr<fabric::Port>> ports_;
  std::vector<std::unique_ptr<breccia::disagg::MediumPlace>> files_;
  std::vector<std::unique_ptr<breccia::disagg::MemoryServer>> memory_;
  std::unique_ptr<OrderedAlone> alone_;
  std::atomic<bool> is_rebuilt_{false};
  std::vector<std::unique_ptr<Served>> memory_threads_;
  struct Pair {
    std::unique_ptr<breccia::disagg::OrderedServer> ordered;
    std::unique_ptr<breccia::disagg::HashServer> hash;
    std::unique_ptr<Served> ordered_thread, hash_thread;
  };
  std::vector<Pair> pairs_;  // by shard; without servers, as there are none of that kind
};

}  // namespace breccia::bench::disagg
