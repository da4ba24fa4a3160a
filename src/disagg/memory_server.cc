#include "disagg/memory_server.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/assert.h"

namespace breccia::disagg {

namespace {

constexpr std::uint32_t kLeaseMax = 4096;

}  // namespace

Result<std::unique_ptr<MemoryServer>> MemoryServer::make(fabric::Port* port, std::uint64_t bytes) {
  BRECCIA_ASSERT(bytes / kLineBytes <= kLinesOfNode);
  BRECCIA_TAKE(std::unique_ptr<fabric::Region> region,
               port->make_region(bytes, fabric::Access::kReadWrite));
  return std::unique_ptr<MemoryServer>(new MemoryServer(port, std::move(region)));
}

void MemoryServer::be_node(std::uint32_t node) {
  BRECCIA_ASSERT(node < kNodesMax && !node_.has_value());
  node_ = node;
}

void MemoryServer::serve(fabric::TimeUs until) {
  const auto now = [this](const Answers::Asker& /*asker*/, Ask ask, WireReader question) {
    return std::optional(answer(ask, question));
  };
  disagg::serve(port_, &answers_, now, until);
}

WireWriter MemoryServer::answer(Ask ask, WireReader question) {
  if (!node_.has_value()) return refusal(Code::kBusy, "this server has no number yet");
  switch (ask) {
    case Ask::kPool:
      return answer_of(Code::kOk).add(PoolInfo{.region = region_->name(), .node = *node_});
    case Ask::kLease:
      return lease(question);
    case Ask::kGiveBack:
      return take_back(question);
    default:
      return refusal(Code::kWrong, "a memory server does not do that");
  }
}

WireWriter MemoryServer::lease(WireReader question) {
  const auto size_class = question.take<std::uint32_t>();
  const auto count = question.take<std::uint32_t>();
  if (!question.is_whole() || size_class >= kSizeClasses || count > kLeaseMax) {
    return refusal(Code::kWrong, "no such class, or too many blocks");
  }
  const std::vector<std::uint64_t> lines = pool_.take(size_class, count);
  if (lines.empty() && count > 0) return refusal(Code::kFull, "the memory server is full");
  WireWriter answer = answer_of(Code::kOk);
  for (const std::uint64_t line : lines) answer.add(line);
  return answer;
}

/// What is no block in use is said, and the others are taken.
WireWriter MemoryServer::take_back(WireReader question) {
  bool are_all = true;
  while (question.left() > 0) {
    const auto size_class = question.take<std::uint32_t>();
    const auto line = question.take<std::uint64_t>();
    are_all = are_all && question.left() % (sizeof size_class + sizeof line) == 0;
    are_all = pool_.give_back(size_class, line) && are_all;
  }
  return are_all ? answer_of(Code::kOk) : refusal(Code::kWrong, "a block that is not in use");
}

}  // namespace breccia::disagg
