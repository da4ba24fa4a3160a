#include "batch/results.h"

#include <algorithm>
#include <new>

#include "base/assert.h"
#include "exec/memory.h"

namespace breccia::batch {

Status status_of(Status::Code code) {
  constexpr char kWhere[] = "in the tree below";
  switch (code) {
    case Status::Code::kOk:
      return Status::OK();
    case Status::Code::kNotFound:
      return Status::NotFound();
    case Status::Code::kCorruption:
      return Status::Corruption(kWhere);
    case Status::Code::kNotSupported:
      return Status::NotSupported(kWhere);
    case Status::Code::kInvalidArgument:
      return Status::InvalidArgument(kWhere);
    case Status::Code::kIncomplete:
      return Status::Incomplete(kWhere);
    case Status::Code::kTimedOut:
      return Status::TimedOut(kWhere);
    case Status::Code::kAborted:
      return Status::MemoryLimit();  // of lookups, nothing else is
    case Status::Code::kBusy:
      return Status::Busy(kWhere);
    case Status::Code::kTryAgain:
      return Status::TryAgain(kWhere);
    default:
      return Status::IOError(kWhere);
  }
}

ResultArena::~ResultArena() {
  for (const Block& block : blocks_) exec::plain_host_memory().release(block.memory, block.bytes);
}

void ResultArena::take_block(std::uint64_t bytes) {
  constexpr std::uint64_t kFirstBytes = 256;  // many batches hold one value
  constexpr std::uint64_t kGrowthBytesMax = 64 << 20;
  while (used_ < blocks_.size() && blocks_[used_].bytes < bytes) ++used_;
  if (used_ == blocks_.size()) {
    const std::uint64_t grown =
        blocks_.empty() ? kFirstBytes : std::min(blocks_.back().bytes * 2, kGrowthBytesMax);
    const std::uint64_t size = std::max(bytes, grown);
    blocks_.reserve(blocks_.size() + 1);
    auto* const memory = static_cast<char*>(exec::plain_host_memory().allocate(size));
    if (memory == nullptr) throw std::bad_alloc();
    blocks_.push_back({memory, size});
  }
  BRECCIA_ASSERT(used_ < blocks_.size() && blocks_[used_].bytes >= bytes);
  next_ = blocks_[used_].memory;
  room_ = blocks_[used_].bytes;
  ++used_;
}

void ResultArena::clear() {
  used_ = 0;
  next_ = nullptr;
  room_ = 0;
}

}  // namespace breccia::batch
