#include "disagg/client/leased_blocks.h"

#include <algorithm>

#include "base/assert.h"

namespace breccia::disagg {

namespace {

using fabric::TimeUs;

/// Blocks that are asked for at once: of small ones many.
constexpr std::uint64_t kLeaseBytes = 64 << 10;
constexpr std::size_t kGiveBackMax = 256;
/// A server that did not answer, or could not be written, is asked for no block so long, each time
/// longer: each one would be lost. Who stood still for a moment is soon written again.
constexpr TimeUs kAvoidUs = 20'000;
constexpr TimeUs kAvoidUsMax = 500'000;
/// What a server does not take now is kept so long.
constexpr TimeUs kKeepUs = 5000;

/// Nothing has happened.
bool is_refused(const Status& status) {
  return status.IsMemoryLimit() || status.IsBusy() || status.IsTryAgain();
}

}  // namespace

Result<Location> LeasedBlocks::take(std::uint32_t size_class, base::Random* random, TimeUs until) {
  const std::vector<std::uint32_t>& nodes = routes_->memory().nodes();
  if (nodes.empty()) return Status::TryAgain("there is no memory server");
  const std::size_t first = random->below(nodes.size());
  Status none = Status::MemoryLimit("no memory server has room");
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::uint32_t node = nodes[(first + i) % nodes.size()];
    const auto lines = lease_lines(node, size_class, until);
    if (!lines.ok()) {
      none = lines.status();
      continue;
    }
    const std::uint64_t line = lines.value()->back();
    lines.value()->pop_back();
    return Location{.node = node, .size_class = size_class, .line = line};
  }
  return none;
}

void LeasedBlocks::lose_unwritten(const Location& block) {
  ++lost_;
  avoid(block.node);
}

void LeasedBlocks::avoid(std::uint32_t node) {
  if (is_avoided(node)) return;  // for another block of the same write
  Avoided& avoided = avoided_[node];
  const std::uint64_t servers = routes_->memory().servers_of(node);
  const TimeUs now = port_->now_us();
  const bool is_again = avoided.servers == servers && now < avoided.until + kAvoidUsMax;
  avoided.servers = servers;
  avoided.for_us = is_again ? std::min(2 * avoided.for_us, kAvoidUsMax) : kAvoidUs;
  avoided.until = now + avoided.for_us;
}

bool LeasedBlocks::is_avoided(std::uint32_t node) const {
  const auto found = avoided_.find(node);
  return found != avoided_.end() && port_->now_us() < found->second.until &&
         found->second.servers == routes_->memory().servers_of(node);
}

/// Of a server, some at least.
Result<LeasedBlocks::Lines*> LeasedBlocks::lease_lines(std::uint32_t node, std::uint32_t size_class,
                                                       TimeUs until) {
  if (routes_->memory().find_all(node).empty() || is_avoided(node)) {
    return Status::TryAgain("a memory server was not reached");
  }
  Leased& leased = leased_[{node, size_class}];
  const std::uint64_t servers = routes_->memory().servers_of(node);
  if (leased.servers != servers || !is_held(node, leased.since)) {
    return_unwritten(node, size_class, &leased);
    leased.servers = servers;
  }
  if (leased.lines.empty()) {
    leased.since = port_->now_us();
    BRECCIA_TRY(lease(node, size_class, &leased.lines, until));
  }
  BRECCIA_ASSERT(!leased.lines.empty());
  return &leased.lines;
}

void LeasedBlocks::return_unwritten(std::uint32_t node, std::uint32_t size_class, Leased* leased) {
  for (const std::uint64_t line : leased->lines) {
    const Location block{.node = node, .size_class = size_class, .line = line};
    resting_.push_front({.until = 0, .since = leased->since, .block = block});
  }
  leased->lines.clear();
}

/// Whether what was leased, or replaced, at that time is still this client's to write or give back.
bool LeasedBlocks::is_held(std::uint32_t node, TimeUs since) const {
  const MemoryPeer* const of = routes_->memory().find(node);
  return of != nullptr && port_->now_us() - since <= of->hold_us / 2;
}

TimeUs LeasedBlocks::ask_until(const Location& block, TimeUs until) const {
  const MemoryPeer* const of = routes_->memory().find(block.node);
  return of == nullptr ? until : std::min(until, port_->now_us() + of->hold_us / 4);
}

Status LeasedBlocks::lease(std::uint32_t node, std::uint32_t size_class, Lines* lines,
                           TimeUs until) {
  const std::uint64_t block_bytes = lines_of(size_class) * kLineBytes;
  const std::uint64_t count = std::clamp<std::uint64_t>(kLeaseBytes / block_bytes, 1, lease_max_);
  WireWriter question;
  question.add(size_class).add(static_cast<std::uint32_t>(count));
  const auto answer = routes_->ask_memory(node, Ask::kLease, question, until);
  // Who has no answer may have the blocks.
  if (!answer.ok() && !is_refused(answer.status())) {
    lost_ += count;
    avoid(node);
  }
  BRECCIA_TRY(answer.status());
  WireReader reader(answer.value());
  while (reader.left() >= sizeof(std::uint64_t)) lines->push_back(reader.take<std::uint64_t>());
  const bool are_lines = std::all_of(lines->begin(), lines->end(), [&](std::uint64_t line) {
    return routes_->memory().is_place({.node = node, .size_class = size_class, .line = line});
  });
  if (reader.is_whole() && !lines->empty() && are_lines) return Status::OK();
  lines->clear();
  return Status::IOError("what a memory server leased is none of its lines");
}

void LeasedBlocks::let_rest(const Location& block, TimeUs since) {
  const TimeUs until = port_->now_us() + routes_->rest_us();
  resting_.push_back({.until = until, .since = since, .block = block});
}

Status LeasedBlocks::tend(TimeUs until) {
  const TimeUs now = port_->now_us();
  if (resting_.empty() || resting_.front().until > now) return Status::OK();
  std::map<std::uint32_t, std::vector<Resting>> blocks;
  for (std::size_t n = 0; n < kGiveBackMax && !resting_.empty(); ++n) {
    if (resting_.front().until > now) break;
    const Resting one = resting_.front();
    resting_.pop_front();
    if (!routes_->memory().is_kept(one.block.node)) continue;
    if (routes_->memory().find(one.block.node) == nullptr) {
      put_off(one);
    } else if (is_held(one.block.node, one.since)) {
      blocks[one.block.node].push_back(one);
    } else {
      ++lost_;
    }
  }
  Status all;
  for (const auto& [node, of_node] : blocks) {
    Status one = give_back(node, of_node, until);
    if (all.ok()) all = std::move(one);
  }
  return all;
}

void LeasedBlocks::put_off(Resting one) {
  one.until = port_->now_us() + kKeepUs;
  resting_.push_back(one);
}

Status LeasedBlocks::give_back(std::uint32_t node, const std::vector<Resting>& blocks,
                               TimeUs until) {
  WireWriter question;
  for (const Resting& one : blocks) question.add(one.block.size_class).add(one.block.line);
  const auto answer = routes_->ask_memory(node, Ask::kGiveBack, question, until);
  if (answer.ok()) return Status::OK();
  if (is_refused(answer.status())) {
    for (const Resting& one : blocks) put_off(one);
    return Status::OK();
  }
  // Who has no answer cannot ask again: the blocks may be others' by now.
  lost_ += blocks.size();
  return answer.status().IsInvalidArgument()
             ? Status::Corruption("a block was given back that is not in use")
             : Status::OK();
}

Status LeasedBlocks::close(TimeUs until) {
  for (auto& [of, leased] : leased_) return_unwritten(of.first, of.second, &leased);
  while (!resting_.empty()) {
    if (port_->now_us() >= until) return Status::TimedOut("blocks rest");
    (void)port_->poll(std::min(until, resting_.front().until));
    (void)routes_->find();  // servers of another map take nothing
    routes_->memory().tend(until);
    BRECCIA_TRY(tend(until));
  }
  return Status::OK();
}

}  // namespace breccia::disagg
