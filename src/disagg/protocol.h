#pragma once

#include <breccia/status.h>

#include <cstdint>
#include <string>
#include <vector>

#include "disagg/hash_table.h"
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
  kPut,        // (slot: 8, key) -> Replaced; of a hash server
  kErase,      // (key) -> Replaced
  kShip,       // (writes in their order) -> Logged; of an ordered server, asked by a hash server
  kScan,       // (begin, end, limit: 4) -> (sequence: 8, slots: 8 each); of an ordered server
};
/// Of answers, in a message's kind.
constexpr std::uint8_t kAnswerBit = 0x80;

enum class Code : std::uint8_t { kOk = 0, kFull, kWrong, kBusy };

/// What kTable tells. The region has a line before its buckets (watermark.h).
struct TableInfo {
  fabric::RegionName region;
  TableShape shape;
  KeySeeds seeds;
  /// 1: blocks say that they are replaced before that is so, and where a value lies may be
  /// remembered; 0: they do not.
  std::uint64_t marks = 0;
  /// Between the entry of a key and its value a lookup takes no longer than read_us, or begins
  /// anew; blocks rest for rest_us, which is longer, before they are used again.
  fabric::TimeUs read_us = 0;
  fabric::TimeUs rest_us = 0;
};

/// What kPool tells.
struct PoolInfo {
  fabric::RegionName region;
  std::uint64_t node = 0;
};

/// Keys of one kScan.
constexpr std::uint32_t kScanMax = 4096;

/// A write as the log has it.
struct LoggedWrite {
  std::uint64_t sequence = 0;  // one more than that of the write before
  Slot slot = 0;               // where the value lies; 0: the key was deleted
  std::string key;

  void add_to(WireWriter* writer) const { writer->add(sequence).add(slot).add_bytes(key); }
  static LoggedWrite taken_from(WireReader* reader) {
    LoggedWrite write;
    write.sequence = reader->take<std::uint64_t>();
    write.slot = reader->take<Slot>();
    write.key = reader->take_bytes().ToString();
    return write;
  }
};

/// What kShip tells: up to which write the log has all.
struct Logged {
  std::uint64_t through = 0;
};

/// What a write found: where the value before it lies; slot 0: there was none.
struct Replaced {
  Slot slot = 0;
};

}  // namespace breccia::disagg
