#include "disagg/index/memory_scan.h"

#include <algorithm>
#include <limits>

#include "base/assert.h"
#include "disagg/location.h"

namespace breccia::disagg {

namespace {

using fabric::TimeUs;

/// With more than that no more is asked for.
constexpr std::size_t kFoundMax = 64 << 10;

}  // namespace

void MemoryScan::follow(const ClusterMap& map, std::uint32_t shard) {
  epoch_ = map.epoch;
  shard_ = shard;
  std::map<std::uint32_t, One> next;
  for (const ClusterMap::Memory& of : map.memory) {
    if (of.is_lost) continue;
    const auto before = all_.find(of.node);
    One one = before == all_.end() ? One() : before->second;
    // What it has told was not agreed to by a mirror that has its place.
    if (one.member != of.member) one.page.reset();
    one.member = of.member;
    one.request = 0;
    one.again = 0;
    next.emplace(of.node, one);
  }
  all_ = std::move(next);
}

void MemoryScan::tend() {
  if (found_.size() > kFoundMax) return;
  for (auto& [node, one] : all_) {
    if (!one.is_over && port_->now_us() >= one.again) go_on(node, &one);
  }
}

TimeUs MemoryScan::wake() const {
  TimeUs first = std::numeric_limits<TimeUs>::max();
  if (found_.size() > kFoundMax) return first;
  for (const auto& [node, one] : all_) {
    if (!one.is_over) first = std::min(first, one.again);
  }
  return first;
}

/// The server is asked for a page, or its mirror whether it agrees.
void MemoryScan::go_on(std::uint32_t node, One* one) {
  one->again = port_->now_us() + again_us_;
  const std::vector<const MemoryPeer*> all = memory_->find_all(node);
  if (all.empty()) return;
  if (!one->page.has_value()) {
    return ask(one, *all.front(), Ask::kValues,
               WireWriter().add(shard_).add(seeds_).add(one->line));
  }
  if (all.size() == 1) return take(one);  // its mirror is gone
  WireWriter question;
  question.add(shard_).add(one->line).add(one->page->next);
  for (const ValueEntry& entry : one->page->entries) {
    question.add(entry.slot).add(static_cast<std::uint32_t>(entry.generation)).add(entry.sequence);
  }
  ask(one, *all.back(), Ask::kAgree, question);
}

void MemoryScan::ask(One* one, const MemoryPeer& of, Ask what, const WireWriter& question) {
  if (one->request == 0 || one->peer != of.peer) one->request = asking_->draw_request();
  one->peer = of.peer;
  const fabric::Header header{
      .kind = static_cast<std::uint8_t>(what), .epoch = epoch_, .request = one->request};
  // What does not go now goes again.
  (void)port_->send(of.peer, header, question.bytes(), one->again);
}

void MemoryScan::hear(const fabric::Arrival& arrival) {
  if (arrival.kind != fabric::Arrival::Kind::kMessage) return;
  const auto found = std::find_if(all_.begin(), all_.end(), [&](const auto& of) {
    return of.second.request != 0 && of.second.peer == arrival.peer &&
           of.second.request == arrival.header.request;
  });
  if (found == all_.end()) return;
  auto& [node, one] = *found;
  const Ask asked = one.page.has_value() ? Ask::kAgree : Ask::kValues;
  if (arrival.header.kind != (static_cast<std::uint8_t>(asked) | kAnswerBit)) return;
  one.request = 0;
  WireReader answer(arrival.payload);
  // Who has another map yet is asked again, behind a pause.
  if (!take_code(&answer).ok()) return;
  if (asked == Ask::kAgree) return take(&one);
  one.page = page_in(answer, node, one);
  if (one.page.has_value()) one.again = 0;
}

/// None: it makes no sense, and is asked for anew.
std::optional<MemoryScan::Page> MemoryScan::page_in(WireReader answer, std::uint32_t node,
                                                    const One& one) {
  Page page{.next = answer.take<std::uint64_t>(), .entries = {}};
  const auto last = answer.take<std::uint64_t>();
  while (answer.left() > 0) {
    page.entries.push_back(answer.take<ValueEntry>());
    const ValueEntry& entry = page.entries.back();
    const Location block = location_in(entry.slot);
    const bool is_one = is_block(block) && block.node == node && block.line >= one.line &&
                        (page.next == 0 || block.line < page.next) && entry.sequence > 0;
    if (!is_one) return std::nullopt;
  }
  if (!answer.is_whole() || (page.next != 0 && page.next <= one.line)) return std::nullopt;
  last_ = std::max(last_, last);
  return page;
}

/// The page counts.
void MemoryScan::take(One* one) {
  BRECCIA_ASSERT(one->page.has_value());
  found_.insert(found_.end(), one->page->entries.begin(), one->page->entries.end());
  one->line = one->page->next;
  one->is_over = one->line == 0;
  one->page.reset();
  one->request = 0;
  one->again = 0;
}

bool MemoryScan::is_over() const {
  return std::all_of(all_.begin(), all_.end(), [](const auto& of) { return of.second.is_over; });
}

}  // namespace breccia::disagg
