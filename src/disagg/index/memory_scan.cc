#include "disagg/index/memory_scan.h"

#include <algorithm>
#include <limits>

#include "disagg/location.h"

namespace breccia::disagg {

namespace {

using fabric::TimeUs;

/// With more than that no more is asked for.
constexpr std::size_t kFoundMax = 64 << 10;

}  // namespace

void MemoryScan::follow(const ClusterMap& map) {
  epoch_ = map.epoch;
  std::map<std::uint32_t, One> next;
  for (const ClusterMap::Memory& of : map.memory) {
    if (of.is_lost) continue;
    const auto before = all_.find(of.node);
    One one = before == all_.end() ? One() : before->second;
    one.request = 0;
    one.again = 0;
    next.emplace(of.node, one);
  }
  all_ = std::move(next);
}

void MemoryScan::tend() {
  if (found_.size() > kFoundMax) return;
  for (auto& [node, one] : all_) {
    if (!one.is_over && port_->now_us() >= one.again) ask(node, &one);
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

/// For its next page.
void MemoryScan::ask(std::uint32_t node, One* one) {
  one->again = port_->now_us() + again_us_;
  const MemoryPeer* const of = memory_->find(node);
  if (of == nullptr) return;
  if (one->request == 0 || one->peer != of->peer) one->request = asking_->draw_request();
  one->peer = of->peer;
  const fabric::Header header{
      .kind = static_cast<std::uint8_t>(Ask::kValues), .epoch = epoch_, .request = one->request};
  const WireWriter question = WireWriter().add(seeds_).add(one->line);
  (void)port_->send(of->peer, header, question.bytes(), one->again);
}

void MemoryScan::hear(const fabric::Arrival& arrival) {
  constexpr std::uint8_t kTold = static_cast<std::uint8_t>(Ask::kValues) | kAnswerBit;
  const bool is_message = arrival.kind == fabric::Arrival::Kind::kMessage;
  if (!is_message || arrival.header.kind != kTold) return;
  const auto found = std::find_if(all_.begin(), all_.end(), [&](const auto& of) {
    return of.second.request != 0 && of.second.peer == arrival.peer &&
           of.second.request == arrival.header.request;
  });
  if (found == all_.end()) return;
  auto& [node, one] = *found;
  one.request = 0;
  WireReader answer(arrival.payload);
  // Who has another map yet is asked again, behind a pause.
  if (take_code(&answer).ok()) take(answer, node, &one);
}

/// What makes no sense is asked for anew.
void MemoryScan::take(WireReader answer, std::uint32_t node, One* one) {
  const auto next = answer.take<std::uint64_t>();
  std::deque<ValueEntry> entries;
  while (answer.left() > 0) {
    entries.push_back(answer.take<ValueEntry>());
    const Location block = location_in(entries.back().slot);
    const bool is_one = is_block(block) && block.node == node && block.line >= one->line &&
                        (next == 0 || block.line < next) && entries.back().sequence > 0;
    if (!is_one) return;
  }
  if (!answer.is_whole() || (next != 0 && next <= one->line)) return;
  one->line = next;
  one->is_over = next == 0;
  one->again = 0;
  found_.insert(found_.end(), entries.begin(), entries.end());
}

bool MemoryScan::is_over() const {
  return std::all_of(all_.begin(), all_.end(), [](const auto& of) { return of.second.is_over; });
}

}  // namespace breccia::disagg
