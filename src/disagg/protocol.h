#pragma once

#include <breccia/status.h>

#include <cstdint>
#include <string>
#include <vector>

#include "disagg/key_id.h"
#include "disagg/location.h"
#include "disagg/wire.h"
#include "fabric/port.h"

/// What clients ask servers, and what these answer: docs/format/disagg.md. An answer's payload
/// begins with a code; kOk is followed by what was asked for, others by a sentence.

namespace breccia::disagg {

enum class Ask : std::uint8_t {
  kTable = 1,  // () -> TableInfo; of a hash server
  kPool,       // () -> PoolInfo; of a memory server, as the others that follow
  kLease,      // (class: 4, count: 4) -> (lines: 8 each)
  kGiveBack,   // (blocks: 12 each, class 4, line 8) -> ()
  kWrite,   // (slot: 8, 0: the key is deleted, generation of the block: 4, key; each) -> (slot: 8,
            //   where the value before lies, 0: there was none; each of the first of them, one
            //   at least); of a hash server
  kShip,    // (tells: 1, writes in their order) -> Logged, if it tells with a slot for each write;
            //   of an ordered server, asked by the hash server that it follows
  kScan,    // (begin, end, limit: 4, keys: 1) -> ScanHead, (slots: 8 each, behind each the key if
            //   they are wanted); of an ordered server
  kTrust,   // () -> Trust; of a hash server
  kFollow,  // Follow -> Followed; of an ordered server
  kChains,  // (position: 8) -> (the next one: 8, 0: there are no more, entries: ChainEntry each);
            // of
            //   a hash server: chains in the order of hashes, of which positions are some
  kKeysBehind,  // (key) -> (slot: 8, key, each); of an ordered server; none: there are no more
  kLook,        // (member, empty: none, version: 8 of the document that the asker has, 0: none,
          //   and of the members: 8) -> LookHead, the document if it is another one, members if
          //   they are others; of a coordinator
  kJoin,     // (member) -> ()
  kReplace,  // (version: 8, document) -> (1: it was replaced: 1)
  kState,    // () -> IndexState; of a hash server and an ordered server
  kUse,   // (member, chunk: 8) -> UseHead, chunks (pool_image.h); of a memory server, asked by its
          //   mirror; from its last chunk on the server tells what changes
  kKeep,  // (1: leased, 0: given back: 1, class: 4, line: 8, each) -> (); of a mirror
  kPlaces,  // (node: 4, position: 8) -> (the next one: 8, slots: 8 each); of a hash server; with
            //   position 0 what waits comes, too
  kCommit,  // (shard: 4; slot: 8, generation: 4, sequence: 8, each) -> (); of a memory server or a
            //   mirror: blocks whose writes the shard's hash server has taken
  kRetire,  // (shard: 4; slot: 8, sequence: 8, each) -> (); of the same: blocks that were replaced
            //   by that write of the shard, if they have none of a later one, or another shard's
            //   key, by now; a medium has that by and by
  kValues,  // (shard: 4, seeds: KeySeeds, line: 8) -> (the next one: 8, 0: there are no more,
            //   sequence of the last write that it was told of: 8, ValueEntry each); of a memory
            //   server: which values of the shard's keys lie there, from a line on
  kAgree,   // (shard: 4, line: 8, the next one: 8, 0: there are no more; slot: 8, generation: 4,
            //   sequence: 8, each) -> (); of a mirror: what kValues has told of its server, who
            //   made nothing else known of the shard's keys in the lines between
  kSettle,  // (shard: 4) -> (); of a memory server or a mirror: all that it was told before that is
            //   on its medium
};
/// Of answers, in a message's kind.
constexpr std::uint8_t kAnswerBit = 0x80;

/// kEpoch: the asker has another map of the cluster; nothing happened.
enum class Code : std::uint8_t { kOk = 0, kFull, kWrong, kBusy, kEpoch };

/// What kTable tells. The region has a line before its buckets (watermark.h).
struct TableInfo {
  fabric::RegionName region;
  std::uint64_t number = 0;  // of this table; Trust has another one if there is another table
  TableShape shape;
  KeySeeds seeds;
  /// Between the entry of a key and its value a lookup takes no longer than read_us, or begins
  /// anew; blocks rest for rest_us, which is longer, before they are used again.
  fabric::TimeUs read_us = 0;
  fabric::TimeUs rest_us = 0;
};

/// What kPool tells.
struct PoolInfo {
  fabric::RegionName region;
  std::uint64_t node = 0;
  /// Clients write no block that they were leased longer ago than half of that, and give back none
  /// that was replaced so long ago: orphans.h.
  fabric::TimeUs hold_us = 0;
};

/// What kUse's answer begins with.
struct UseHead {
  fabric::RegionName region;
  std::uint64_t next = 0;  // the chunk that its chunks go up to
};

/// What kTrust tells: for so long, from when it was asked, this is the hash server, and its buckets
/// are the index if they are whole.
struct Trust {
  fabric::TimeUs for_us = 0;
  std::uint64_t is_whole = 0;
  std::uint64_t table = 0;  // TableInfo::number of what is to be read
};

/// What kState tells, for people.
struct IndexState {
  std::uint64_t sequence = 0;  // of the last write in the hash server's buckets, or in the log
  std::uint64_t waiting = 0;   // writes behind that, or in the log alone
  std::uint64_t keys = 0;
  std::uint64_t is_whole = 0;
};

/// What kFollow says, and is told: the hash server's buckets have all writes through `from`, and
/// the ordered server's log has all `through` that one.
struct Follow {
  std::uint64_t from = 0;
  std::uint64_t is_whole = 0;
  KeySeeds seeds;
};
/// Behind it the last writes, LastWrite each, if the hash server is not whole.
struct Followed {
  std::uint64_t through = 0;
  std::uint64_t is_whole = 0;
};
/// A write of which memory servers may not know yet that it was taken, nor that it has replaced
/// another one.
struct LastWrite {
  std::uint64_t sequence = 0;
  Slot slot = 0;      // where its value lies; 0: it was a deletion
  Slot replaced = 0;  // where the value before it lay; 0: there was none
  std::uint64_t generation = 0;
};
/// A hash server has no more such writes than that in the ordered server's log, which knows so
/// many.
constexpr std::uint64_t kLastWrites = 2048;
/// Writes go on so far behind the last that a lost server is known to have numbered.
constexpr std::uint64_t kWritesLost = 1 << 20;

/// An entry of a hash server's table, and whose it is.
struct ChainEntry {
  KeyId id;
  Slot slot = 0;
};

/// A value that a memory server has.
struct ValueEntry {
  KeyId id;
  Slot slot = 0;
  std::uint64_t sequence = 0;    // of its write
  std::uint64_t generation = 0;  // of its block
};

/// What kScan's answer begins with: it has all writes through `sequence`, and for so long, from
/// when it was asked, who answers is the ordered server. If it is cut there may be more than what
/// it tells, which is too much for a message.
struct ScanHead {
  std::uint64_t sequence = 0;
  fabric::TimeUs for_us = 0;
  std::uint64_t is_cut = 0;
};

/// What kLook's answer begins with.
struct LookHead {
  std::uint64_t version = 0;  // of the document
  std::uint64_t members_version = 0;
  /// The asker stays a member for so long from when it asked; 0: it is none.
  fabric::TimeUs sure_us = 0;
};

/// Keys of one kScan.
constexpr std::uint32_t kScanMax = 4096;

/// A write as the log has it.
struct LoggedWrite {
  std::uint64_t sequence = 0;    // one more than that of the write before
  Slot slot = 0;                 // where the value lies; 0: the key was deleted
  std::uint32_t generation = 0;  // of its block
  std::string key;

  void add_to(WireWriter* writer) const {
    writer->add(sequence).add(slot).add(generation).add_bytes(key);
  }
  static LoggedWrite taken_from(WireReader* reader) {
    LoggedWrite write;
    write.sequence = reader->take<std::uint64_t>();
    write.slot = reader->take<Slot>();
    write.generation = reader->take<std::uint32_t>();
    write.key = reader->take_bytes().ToString();
    return write;
  }
};

/// What kShip tells: up to which write the log has all.
struct Logged {
  std::uint64_t through = 0;
};

}  // namespace breccia::disagg
