#pragma once

#include <breccia/status.h>

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "disagg/client/routes.h"
#include "disagg/key_id.h"
#include "disagg/location.h"
#include "fabric/port.h"

namespace breccia::disagg {

/// Keys of [begin, end), the first ones; an empty `end` is none.
struct RangeQuestion {
  Slice begin, end;
  std::uint32_t limit = 0;
};

/// What a shard's ordered server has told of a range.
struct RangeAnswer {
  std::uint32_t shard = 0;
  std::uint64_t sequence = 0;  // all writes through this one are in it
  bool is_cut = false;         // there may be more than what is told
  std::vector<Slot> slots;     // where values lie, in the order of keys
  std::vector<std::byte> bytes;
  std::vector<std::string_view> keys;  // in bytes, if they were asked for
};

/// Asks these shards' ordered servers, several of them for keys, too.
/// Errors  TryAgain, Busy, TimedOut: they are to be asked again. IOError: one is no ordered server.
Result<std::vector<RangeAnswer>> ask_range(fabric::Port* port, Routes* routes, ShardSet shards,
                                           const RangeQuestion& range, fabric::TimeUs until);

/// Of answers with keys, the first ones of all; *is_cut: there may be more of them.
std::vector<Slot> merge_ranges(const std::vector<RangeAnswer>& all, std::uint32_t limit,
                               bool* is_cut);

}  // namespace breccia::disagg
