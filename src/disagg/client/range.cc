#include "disagg/client/range.h"

#include <algorithm>
#include <optional>

#include "base/assert.h"
#include "disagg/protocol.h"
#include "disagg/wire.h"

namespace breccia::disagg {

using fabric::TimeUs;

Result<RangeAnswer> ask_range(fabric::Port* port, Routes* routes, std::uint32_t shard,
                              const RangeQuestion& range, bool has_keys, TimeUs until) {
  WireWriter question;
  question.add_bytes(range.begin)
      .add_bytes(range.end)
      .add(range.limit)
      .add(static_cast<std::uint8_t>(has_keys ? 1 : 0));
  const TimeUs asked = port->now_us();
  RangeAnswer answer;
  answer.shard = shard;
  BRECCIA_TAKE(answer.bytes, routes->ask_ordered(shard, Ask::kScan, question, until));
  WireReader reader(answer.bytes);
  const auto head = reader.take<ScanHead>();
  answer.sequence = head.sequence;
  answer.is_cut = head.is_cut != 0;
  while (reader.left() >= sizeof(Slot)) {
    answer.slots.push_back(reader.take<Slot>());
    if (!has_keys) continue;
    const Slice key = reader.take_bytes();
    answer.keys.emplace_back(key.data(), key.size());
  }
  const bool is_answer = reader.is_whole() && answer.slots.size() <= range.limit &&
                         (!answer.is_cut || (has_keys && !answer.slots.empty()));
  if (!is_answer) return Status::IOError("no answer to a scan");
  if (port->now_us() - asked >= head.for_us) {
    return Status::TryAgain("there may be another ordered server");
  }
  return answer;
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
