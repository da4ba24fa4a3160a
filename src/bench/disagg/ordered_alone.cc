#include "bench/disagg/ordered_alone.h"

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "disagg/bucket.h"
#include "disagg/protocol.h"
#include "disagg/watermark.h"

namespace breccia::bench::disagg {

using namespace breccia::disagg;

namespace {

constexpr fabric::TimeUs kReadUs = 100'000, kRestUs = 300'000;

std::span<TreeNode> nodes_in(fabric::Region* region) {
  const std::span<std::byte> bytes = region->bytes().subspan(sizeof(Watermark));
  return {reinterpret_cast<TreeNode*>(bytes.data()), bytes.size() / sizeof(TreeNode)};
}

bool is_key(const Slice& key) { return !key.empty() && key.size() <= TreeKey::kBytesMax; }

}  // namespace

std::uint64_t OrderedAlone::offset_of(std::uint32_t node) {
  return sizeof(Watermark) + std::uint64_t{node} * sizeof(TreeNode);
}

Result<std::unique_ptr<OrderedAlone>> OrderedAlone::make(fabric::Port* port, std::uint64_t keys) {
  const std::uint64_t bytes = offset_of(static_cast<std::uint32_t>(Tree::nodes_for(keys)));
  BRECCIA_TAKE(std::unique_ptr<fabric::Region> region,
               port->make_region(bytes, fabric::Access::kRead));
  return std::unique_ptr<OrderedAlone>(new OrderedAlone(port, std::move(region)));
}

OrderedAlone::OrderedAlone(fabric::Port* port, std::unique_ptr<fabric::Region> region)
    : port_(port), region_(std::move(region)), tree_(nodes_in(region_.get())), answers_(port) {}

Status OrderedAlone::follow(const ClusterMap& map, std::uint32_t /*shard*/) {
  epoch_ = map.epoch;
  return Status::OK();
}

Status OrderedAlone::serve(fabric::TimeUs until) {
  const auto now = [this](const Answers::Asker& asker, Ask ask, WireReader question) {
    const bool is_of_epoch = asker.header.epoch == epoch_;
    return std::optional(is_of_epoch ? answer(ask, question)
                                     : refusal(Code::kEpoch, "another map of the cluster"));
  };
  breccia::disagg::serve(port_, &answers_, now, until);
  return Status::OK();
}

WireWriter OrderedAlone::answer(Ask ask, WireReader question) {
  switch (ask) {
    case Ask::kTable: {
      const std::uint64_t lines = (region_->bytes().size() - sizeof(Watermark)) / sizeof(Bucket);
      const TableShape shape{.bucket_bits = 0, .buckets = static_cast<std::uint32_t>(lines)};
      return answer_of(Code::kOk).add(TableInfo{.region = region_->name(),
                                                .shape = shape,
                                                .seeds = {},
                                                .read_us = kReadUs,
                                                .rest_us = kRestUs});
    }
    case Ask::kWrite:
      return write(question);
    case Ask::kScan:
      return scan(question);
    default:
      return refusal(Code::kWrong, "an ordered index alone does not do that");
  }
}

/// One write a question.
WireWriter OrderedAlone::write(WireReader question) {
  const auto slot = question.take<Slot>();
  (void)question.take<std::uint32_t>();  // its block's generation
  const Slice key = question.take_bytes();
  const bool is_one =
      question.is_whole() && is_key(key) && (slot == 0 || is_block(location_in(slot)));
  if (!is_one) return refusal(Code::kWrong, "no key, or no place");
  if (slot == 0) return answer_of(Code::kOk).add(tree_.erase(TreeKey::of(key)));
  const auto before = tree_.put(TreeKey::of(key), slot);
  if (!before.ok()) return refusal(Code::kFull, "the ordered index is full");
  return answer_of(Code::kOk).add(before.value());
}

/// A range without an end, or of one key.
WireWriter OrderedAlone::scan(WireReader question) const {
  const Slice begin = question.take_bytes();
  const Slice end = question.take_bytes();
  const auto limit = question.take<std::uint32_t>();
  (void)question.take<std::uint8_t>();  // there is one shard, so keys are not wanted
  const bool is_one = question.is_whole() && is_key(begin) && limit <= kScanMax;
  if (!is_one || (limit != 1 && !end.empty())) return refusal(Code::kWrong, "no such range");
  WireWriter answer = answer_of(Code::kOk);
  answer.add(ScanHead{.sequence = 0, .for_us = trust_until_ - port_->now_us()});
  if (!end.empty()) {
    const Slot slot = tree_.find(TreeKey::of(begin));
    if (slot != 0) answer.add(slot);
    return answer;
  }
  for (const Slot slot : tree_.scan(TreeKey::of(begin), limit)) answer.add(slot);
  return answer;
}

}  // namespace breccia::bench::disagg
