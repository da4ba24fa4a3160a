#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "base/result.h"
#include "disagg/answers.h"
#include "disagg/asking.h"
#include "disagg/cluster_map.h"
#include "disagg/memory/medium.h"
#include "disagg/memory/mirror.h"
#include "disagg/memory/mirror_link.h"
#include "disagg/memory/orphans.h"
#include "disagg/memory/pool.h"
#include "disagg/protocol.h"
#include "fabric/port.h"

namespace breccia::disagg {

/// Memory for keys and values, which clients read and write themselves; it keeps which blocks are
/// whose, finds those that are nobody's any more, and writes into blocks which write they are of,
/// so that it can tell all values to who makes a hash index of them. It has a number, or is the
/// mirror of the server that has it.
/// Owner   the port outlives it.
/// Threads the port's.
class MemoryServer {
 public:
  struct Options {
    std::string member;                      // its name at first
    std::uint64_t bytes = 0;                 // of its memory
    fabric::TimeUs again_us = 20'000;        // what was not answered so long is asked again
    fabric::TimeUs meet_us = 10'000;         // a mirror waits for a connection so long
    fabric::TimeUs read_us = 100'000;        // and for what it reads of its server
    fabric::TimeUs hold_us = 1'800'000'000;  // what it tells clients (PoolInfo)
    std::uint64_t part_bytes = 512 << 10;    // of what is read at once, or told, and one more
    /// What it has outlives it there, and it begins with that; null: it does not. Outlives it.
    MediumPlace* place = nullptr;
    /// What nobody waits for goes there with what somebody does, or behind that time.
    fabric::TimeUs keep_us = 10'000;
  };

  /// Shape   bytes are whole chunks, if there is a place.
  /// Errors  MemoryLimit; Medium::open()'s.
  static Result<std::unique_ptr<MemoryServer>> make(fabric::Port* port, const Options& options);
  MemoryServer(const MemoryServer&) = delete;
  MemoryServer& operator=(const MemoryServer&) = delete;

  /// It has another name.
  void rename(const std::string& member);
  /// It may come to have that name: whether it has, others know.
  void note_name(const std::string& member) { names_.insert(member); }
  [[nodiscard]] bool may_have(const std::string& member) const { return names_.contains(member); }
  /// From here on it does what the map says of its member. Before that it answers nobody.
  /// Shape   its member is there, or a mirror.
  /// Errors  Aborted: that it cannot do, as it has another number, or not all values; its
  ///         medium's.
  [[nodiscard]] Status follow(const ClusterMap& map);
  /// Does what comes until then.
  void serve(fabric::TimeUs until);
  /// An error: its medium keeps nothing any more, and nobody is told that it did.
  [[nodiscard]] const Status& failure() const { return failure_; }
  /// Null: it has none.
  [[nodiscard]] const Medium* medium() const { return medium_.get(); }
  /// It began with what its medium had, and nobody knows of it yet.
  [[nodiscard]] bool came_back() const {
    return medium_ != nullptr && medium_->was_there() && !node_.has_value();
  }
  /// Null: it is no mirror.
  [[nodiscard]] const Mirror* mirror() const { return mirror_.get(); }
  [[nodiscard]] const Pool& pool() const { return pool_; }
  [[nodiscard]] std::span<std::byte> memory() { return memory_; }
  /// All that it was told of is on its medium, if it has one.
  [[nodiscard]] bool has_kept_all() const {
    return medium_ == nullptr || medium_->kept() == medium_->noted();
  }
  /// Blocks that were nobody's, so far.
  [[nodiscard]] std::uint64_t found_orphans() const { return found_orphans_; }

 private:
  MemoryServer(fabric::Port* port, const Options& options, std::unique_ptr<fabric::Region> region,
               std::unique_ptr<Medium> medium);

  Status be_server(const ClusterMap::Memory& mine, const ClusterMap& map);
  void be_mirror(const ClusterMap::Memory& mine, const ClusterMap& map);
  void take_orphans();
  [[nodiscard]] fabric::TimeUs wake() const;
  [[nodiscard]] fabric::TimeUs wake_of_peers() const;
  void hear(const fabric::Arrival& arrival);
  void keep();
  std::optional<WireWriter> when_kept(const Answers::Asker& asker, WireWriter answer);
  void note(const Location& block, std::uint64_t bytes);
  [[nodiscard]] fabric::RegionName name_of_memory() const;
  std::optional<WireWriter> answer(const Answers::Asker& asker, Ask ask, WireReader question);
  std::optional<WireWriter> change(const Answers::Asker& asker, Ask ask, WireReader question);
  WireWriter lease(WireReader question, MirrorLink::Change* change);
  [[nodiscard]] Status use_chunks(std::uint32_t size_class, std::span<const std::uint64_t> lines);
  WireWriter take_back(WireReader question, MirrorLink::Change* change);
  [[nodiscard]] bool free_block(std::uint32_t size_class, std::uint64_t line);
  [[nodiscard]] ShardKeys keys_of(std::uint32_t shard) const { return {placement_, shard}; }
  void note_write(std::uint64_t sequence);
  WireWriter commit(WireReader question);
  WireWriter retire(WireReader question);
  WireWriter agree(WireReader question);
  WireWriter values(WireReader question) const;
  [[nodiscard]] std::span<std::byte> bytes_of(const Location& block) const;

  fabric::Port* const port_;
  const Options options_;
  std::string member_;
  std::set<std::string> names_;  // that it had, or may have
  const std::unique_ptr<fabric::Region> region_;
  const std::unique_ptr<Medium> medium_;  // null: there is none
  const std::span<std::byte> memory_;     // of the region, for values
  Status failure_;
  struct Held {
    std::uint64_t noted;  // when that is kept
    Answers::Asker asker;
    WireWriter answer;
  };
  std::deque<Held> held_;
  fabric::TimeUs keep_at_ = 0;  // what was noted goes to the medium then; 0: nothing was
  std::optional<std::uint32_t> node_;
  std::uint32_t epoch_ = 0;
  Placement placement_;
  bool is_in_use_ = false;
  std::uint64_t last_ = 0;  // write that it was told of
  Pool pool_;
  Answers answers_;
  Asking asking_;
  MirrorLink link_;
  Orphans orphans_;
  std::unique_ptr<Mirror> mirror_;
  std::uint64_t found_orphans_ = 0;
};

}  // namespace breccia::disagg
