#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "disagg/key_id.h"

namespace breccia::disagg {

/// Which of the two indexes a server has.
enum class Role : std::uint8_t { kHash, kOrdered };

/// Who does what in a cluster, as the coordinator's document has it (docs/format/disagg.md). Who
/// takes a role, and who comes to memory servers or takes them out, makes the epoch one more:
/// messages of another epoch are refused.
struct ClusterMap {
  /// Who is to have an index that another one has.
  struct Heir {
    std::string member;  // empty: nobody
    std::string address;
    std::string process;
    bool may_take = false;  // that one has let it go

    friend bool operator==(const Heir&, const Heir&) = default;
  };
  struct Index {
    std::string member;         // of the coordinator; empty: nobody has had the role yet
    std::string address;        // of its port
    bool is_whole = false;      // it has all keys; if not, it is being built from the other one
    std::string process = {};   // what of it is lost together
    std::string given_by = {};  // who had it and gave it away, all that it had acknowledged done
    Heir heir = {};

    friend bool operator==(const Index&, const Index&) = default;
  };
  /// Some of the keys, and who indexes them.
  struct Shard {
    /// Both indexes were there and whole once: no write was taken before.
    bool has_begun = false;
    Index hash = {};
    Index ordered = {};
    /// Who had an index of values that memory servers came back without: none of it counts, and
    /// nobody takes one as long as one of these is a member.
    std::vector<std::string> left = {};

    [[nodiscard]] Index& of(Role role) { return role == Role::kHash ? hash : ordered; }
    [[nodiscard]] const Index& of(Role role) const { return role == Role::kHash ? hash : ordered; }
    friend bool operator==(const Shard&, const Shard&) = default;
  };
  /// A second server that has, or is to have, what a memory server has.
  struct Mirror {
    std::string member;  // empty: there is none
    std::string address;
    std::uint32_t written_by = 0;  // bits of shards: what these write from here on is there, too
    bool is_whole = false;         // so is what was before: it can take the first one's place
    std::string medium = {};       // as a memory server's

    friend bool operator==(const Mirror&, const Mirror&) = default;
  };
  struct Memory {
    std::uint32_t node = 0;
    std::string member;
    std::string address;
    std::uint64_t bytes = 0;
    bool is_in_use = true;  // values may lie there
    bool is_lost = false;   // and so is what lay there; its number is not used again
    Mirror mirror = {};
    /// What lay there lies under another number now: it is lost as this one's alone.
    bool is_moved = false;
    /// By what its file is known, with which it comes back (memory/medium.h), so that it is waited
    /// for and never lost; empty: it has none.
    std::string medium = {};

    /// Somebody has all of it on a medium.
    [[nodiscard]] bool may_come_back() const {
      return !medium.empty() || (mirror.is_whole && !mirror.medium.empty());
    }
    /// What lies there outlives its servers.
    [[nodiscard]] bool has_medium() const { return !medium.empty() || !mirror.medium.empty(); }

    friend bool operator==(const Memory&, const Memory&) = default;
  };

  std::uint32_t epoch = 0;
  record::HashSeed placement_seed = {};
  std::vector<Shard> shards =
      {};  // as many for ever as the first index server has said; or none yet
  std::vector<Memory> memory = {};  // by node

  [[nodiscard]] Placement placement() const {
    return {.seed = placement_seed, .shards = static_cast<std::uint32_t>(shards.size())};
  }
  /// Under the first number that nobody has. False: all are had.
  [[nodiscard]] bool add(Memory one);
  /// What anybody writes is on that mirror, too.
  [[nodiscard]] bool is_written(const Mirror& mirror) const;

  [[nodiscard]] std::string encode() const;
  /// Of no document at all it is an empty map.
  /// Errors  Corruption: it is no map. NotSupported: one of another version.
  static Result<ClusterMap> decode(const std::string& document);

  friend bool operator==(const ClusterMap&, const ClusterMap&) = default;
};

}  // namespace breccia::disagg
