#include "disagg/hash_server.h"

#include <utility>

#include "base/assert.h"

namespace breccia::disagg {

namespace {

std::span<Bucket> buckets_in(fabric::Region* region, const TableShape& shape) {
  BRECCIA_ASSERT(region->bytes().size() == shape.buckets * sizeof(Bucket));
  return {reinterpret_cast<Bucket*>(region->bytes().data()), shape.buckets};
}

bool is_key(const Slice& key) { return !key.empty() && key.size() <= kKeyBytesMax; }

WireWriter replaced(Slot slot) { return answer_of(Code::kOk).add(Replaced{slot}); }

}  // namespace

Result<std::unique_ptr<HashServer>> HashServer::make(fabric::Port* port, const Options& options) {
  BRECCIA_ASSERT(options.bucket_bits < 31);
  const TableShape shape{.bucket_bits = options.bucket_bits,
                         .buckets = (1U << options.bucket_bits) + options.more_buckets};
  BRECCIA_TAKE(std::unique_ptr<fabric::Region> region,
               port->make_region(shape.buckets * sizeof(Bucket), fabric::Access::kRead));
  return std::unique_ptr<HashServer>(new HashServer(port, options, shape, std::move(region)));
}

HashServer::HashServer(fabric::Port* port, const Options& options, const TableShape& shape,
                       std::unique_ptr<fabric::Region> region)
    : seeds_(options.seeds),
      shape_(shape),
      region_(std::move(region)),
      table_(buckets_in(region_.get(), shape), shape),
      answers_(port) {}

void HashServer::serve(fabric::TimeUs until) {
  answers_.serve(until, [this](Ask ask, WireReader question) { return answer(ask, question); });
}

WireWriter HashServer::answer(Ask ask, WireReader question) {
  switch (ask) {
    case Ask::kTable:
      return answer_of(Code::kOk).add(TableInfo{region_->name(), shape_, seeds_});
    case Ask::kPut:
      return put(question);
    case Ask::kErase:
      return erase(question);
    default:
      return refusal(Code::kWrong, "a hash server does not do that");
  }
}

WireWriter HashServer::put(WireReader question) {
  const auto slot = question.take<Slot>();
  const Slice key = question.take_bytes();
  const Location location = location_in(slot);
  if (!question.is_whole() || !is_key(key) || location.line == 0 ||
      location.size_class >= kSizeClasses) {
    return refusal(Code::kWrong, "no key, or no place");
  }
  auto before = table_.put(seeds_.id_of(key), location);
  if (!before.ok()) return refusal(Code::kFull, "the hash index is full");
  return replaced(before.value().has_value() ? slot_of(0, *before.value()) : 0);
}

WireWriter HashServer::erase(WireReader question) {
  const Slice key = question.take_bytes();
  if (!question.is_whole() || !is_key(key)) return refusal(Code::kWrong, "no key");
  const auto before = table_.erase(seeds_.id_of(key));
  return replaced(before.has_value() ? slot_of(0, *before) : 0);
}

}  // namespace breccia::disagg
