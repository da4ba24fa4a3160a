#include "disagg/leased_blocks.h"

#include <algorithm>

#include "base/assert.h"

namespace breccia::disagg {

namespace {

using fabric::TimeUs;

/// Blocks that are asked for at once: of small ones many.
constexpr std::uint64_t kLeaseBytes = 64 << 10;
constexpr std::size_t kGiveBackMax = 256;

}  // namespace

Result<Location> LeasedBlocks::take(std::uint32_t size_class, base::Random* random, TimeUs until) {
  const std::vector<std::uint32_t>& nodes = routes_->memory().nodes();
  if (nodes.empty()) return Status::TryAgain("there is no memory server");
  const std::size_t first = random->below(nodes.size());
  Status none = Status::MemoryLimit("no memory server has room");
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::uint32_t node = nodes[(first + i) % nodes.size()];
    if (routes_->memory().find(node) == nullptr) {
      none = Status::TryAgain("a memory server was not reached");
      continue;
    }
    Lines& lines = leased_[{node, size_class}];
    if (lines.empty()) {
      const Status leased = lease(node, size_class, &lines, until);
      if (!leased.ok()) {
        none = leased;
        continue;
      }
    }
    const std::uint64_t line = lines.back();
    lines.pop_back();
    return Location{.node = node, .size_class = size_class, .line = line};
  }
  return none;
}

Status LeasedBlocks::lease(std::uint32_t node, std::uint32_t size_class, Lines* lines,
                           TimeUs until) {
  const std::uint64_t block_bytes = lines_of(size_class) * kLineBytes;
  const std::uint64_t count = std::clamp<std::uint64_t>(kLeaseBytes / block_bytes, 1, lease_max_);
  WireWriter question;
  question.add(size_class).add(static_cast<std::uint32_t>(count));
  const auto answer = routes_->ask_memory(node, Ask::kLease, question, until);
  // Who has no answer may have the blocks.
  if (!answer.ok() && !answer.status().IsMemoryLimit()) lost_ += count;
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

void LeasedBlocks::let_rest(const Location& block) {
  resting_.push_back({port_->now_us() + routes_->table().rest_us, block});
}

Status LeasedBlocks::tend(TimeUs until) {
  const TimeUs now = port_->now_us();
  if (resting_.empty() || resting_.front().until > now) return Status::OK();
  std::map<std::uint32_t, WireWriter> blocks;
  for (std::size_t n = 0; n < kGiveBackMax && !resting_.empty(); ++n) {
    if (resting_.front().until > now) break;
    const Location block = resting_.front().block;
    resting_.pop_front();
    blocks[block.node].add(block.size_class).add(block.line);
  }
  Status all;
  for (const auto& [node, of_node] : blocks) {
    Status one = give_back(node, of_node, until);
    if (all.ok()) all = std::move(one);
  }
  return all;
}

Status LeasedBlocks::give_back(std::uint32_t node, const WireWriter& blocks, TimeUs until) {
  if (routes_->memory().is_lost(node)) return Status::OK();
  const auto answer = routes_->ask_memory(node, Ask::kGiveBack, blocks, until);
  if (!answer.ok()) ++lost_;
  // Who has no answer cannot ask again: the blocks may be others' by now.
  return answer.status().IsInvalidArgument()
             ? Status::Corruption("a block was given back that is not in use")
             : Status::OK();
}

Status LeasedBlocks::close(TimeUs until) {
  for (auto& [of, lines] : leased_) {
    WireWriter blocks;
    for (const std::uint64_t line : lines) blocks.add(of.second).add(line);
    if (!lines.empty()) BRECCIA_TRY(give_back(of.first, blocks, until));
    lines.clear();
  }
  while (!resting_.empty()) {
    if (port_->now_us() >= until) return Status::TimedOut("blocks rest");
    (void)port_->poll(std::min(until, resting_.front().until));
    BRECCIA_TRY(tend(until));
  }
  return Status::OK();
}

}  // namespace breccia::disagg
