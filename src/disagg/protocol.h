#pragma once

#include <breccia/status.h>

#include <cstdint>
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
};
/// Of answers, in a message's kind.
constexpr std::uint8_t kAnswerBit = 0x80;

enum class Code : std::uint8_t { kOk = 0, kFull, kWrong, kBusy };

/// What kTable tells.
struct TableInfo {
  fabric::RegionName region;
  TableShape shape;
  KeySeeds seeds;
};

/// What kPool tells.
struct PoolInfo {
  fabric::RegionName region;
  std::uint64_t node = 0;
};

/// What a write found: where the value before it lies; slot 0: there was none.
struct Replaced {
  Slot slot = 0;
};

}  // namespace breccia::disagg
