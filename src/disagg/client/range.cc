#include "disagg/client/range.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/assert.h"
#include "disagg/protocol.h"
#include "disagg/wire.h"

namespace breccia::disagg {

using fabric::TimeUs;

namespace {

/// Of a range of that many keys so many are asked of each shard: a shard rarely has more of them,
/// as keys are dealt by chance. What has as many may have more.
std::uint32_t share_of(std::uint32_t limit, std::uint32_t shards) {
  constexpr std::uint32_t kFew = 8;
  if (shards == 1) return limit;
  const double mean = static_cast<double>(limit) / shards;
  return std::min(limit, kFew + static_cast<std::uint32_t>(mean + 3 * std::sqrt(mean)));
}

/// Errors  IOError: that is no answer.
Result<RangeAnswer> answer_in(std::vector<std::byte> bytes, std::uint32_t shard, bool has_keys,
                              std::uint32_t share, TimeUs* for_us) {
  RangeAnswer answer;
  answer.shard = shard;
  answer.bytes = std::move(bytes);
  WireReader reader(answer.bytes);
  const auto head = reader.take<ScanHead>();
  *for_us = head.for_us;
  answer.sequence = head.sequence;
  answer.is_cut = head.is_cut != 0;
  while (reader.left() >= sizeof(Slot)) {
    answer.slots.push_back(reader.take<Slot>());
    if (!has_keys) continue;
    const Slice key = reader.take_bytes();
    answer.keys.emplace_back(key.data(), key.size());
  }
  const bool is_answer = reader.is_whole() && answer.slots.size() <= share &&
                         (!answer.is_cut || (has_keys && !answer.slots.empty()));
  if (!is_answer) return Status::IOError("no answer to a scan");
  return answer;
}

}  // namespace

Result<std::vector<RangeAnswer>> ask_range(fabric::Port* port, Routes* routes, ShardSet shards,
                                           const RangeQuestion& range, TimeUs until) {
  const bool has_keys = shards.size() > 1;
  const std::uint32_t share = share_of(range.limit, shards.size());
  std::vector<Routes::ToShard> asked;
  for (std::uint32_t shard = shards.next(0); shard < kShardsMax; shard = shards.next(shard + 1)) {
    asked.push_back({.shard = shard, .question = {}});
    asked.back()
        .question.add_bytes(range.begin)
        .add_bytes(range.end)
        .add(share)
        .add(static_cast<std::uint8_t>(has_keys ? 1 : 0));
  }
  const TimeUs since = port->now_us();
  routes->ask_ordered(Ask::kScan, asked, until);
  std::vector<RangeAnswer> all;
  for (Routes::ToShard& one : asked) {
    TimeUs for_us = 0;
    BRECCIA_TAKE(auto bytes, std::move(one.answer));
    BRECCIA_TAKE(auto answer, answer_in(std::move(bytes), one.shard, has_keys, share, &for_us));
    if (port->now_us() - since >= for_us) {
      return Status::TryAgain("there may be another ordered server");
    }
    answer.is_cut = answer.is_cut || (share < range.limit && answer.slots.size() == share);
    all.push_back(std::move(answer));
  }
  return all;
}

/// Behind the last key of an answer that is cut there may be more of that shard, so what others
/// have there is not next.
std::vector<Slot> merge_ranges(const std::vector<RangeAnswer>& all, std::uint32_t limit,
                               bool* is_cut) {
  std::vector<std::pair<std::string_view, Slot>> found;
  std::optional<std::string_view> last;
  for (const RangeAnswer& one : all) {
    BRECCIA_ASSERT(one.keys.size() == one.slots.size());
    for (std::size_t i = 0; i < one.slots.size(); ++i)
      found.emplace_back(one.keys[i], one.slots[i]);
    if (one.is_cut) last = last.has_value() ? std::min(*last, one.keys.back()) : one.keys.back();
  }
  if (last.has_value()) std::erase_if(found, [&](const auto& one) { return one.first > *last; });
  std::sort(found.begin(), found.end());
  *is_cut = last.has_value() && found.size() < limit;
  if (found.size() > limit) found.resize(limit);
  std::vector<Slot> slots;
  slots.reserve(found.size());
  for (const auto& [key, slot] : found) slots.push_back(slot);
  return slots;
}

}  // namespace breccia::disagg
