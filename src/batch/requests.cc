#include "batch/requests.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/limits.h"

namespace breccia::batch {

void restore_key(const exec::KeyColumnsRef& keys, std::uint64_t i, char* out) {
  const std::uint64_t bytes = keys.bytes_at(i);
  const std::uint64_t* const tail = keys.tail + keys.tail_at(i);
  for (std::uint64_t at = 0; at < bytes; at += 8) {
    const std::uint64_t word = __builtin_bswap64(at == 0 ? keys.head[i] : tail[at / 8 - 1]);
    std::memcpy(out + at, &word, std::min<std::uint64_t>(8, bytes - at));
  }
}

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
      return Status::Aborted(kWhere);
    case Status::Code::kBusy:
      return Status::Busy(kWhere);
    case Status::Code::kTryAgain:
      return Status::TryAgain(kWhere);
    default:
      return Status::IOError(kWhere);
  }
}

void ResultArena::take_block(std::uint64_t bytes) {
  constexpr std::uint64_t kFirstBytes = 64 << 10;
  constexpr std::uint64_t kGrowthBytesMax = 64 << 20;
  while (used_ < blocks_.size() && blocks_[used_].bytes < bytes) ++used_;
  if (used_ == blocks_.size()) {
    const std::uint64_t grown =
        blocks_.empty() ? kFirstBytes : std::min(blocks_.back().bytes * 2, kGrowthBytesMax);
    const std::uint64_t size = std::max(bytes, grown);
    blocks_.push_back({std::make_unique_for_overwrite<char[]>(size), size});
  }
  next_ = blocks_[used_].memory.get();
  room_ = blocks_[used_].bytes;
  ++used_;
}

void ResultArena::clear() {
  used_ = 0;
  next_ = nullptr;
  room_ = 0;
}

Requests::Requests(std::shared_ptr<exec::HostMemory> memory)
    : memory_(std::move(memory)),
      records_(*memory_),
      write_keys_(*memory_),
      write_offsets_(*memory_),
      read_keys_(*memory_),
      read_after_(*memory_),
      found_(*memory_),
      bounds_(*memory_),
      results_(*memory_) {}

namespace {

Status check_key(const Slice& key) {
  if (key.size() <= limits::kKeyBytesMax) return Status::OK();
  return Status::InvalidArgument("key of " + std::to_string(key.size()) + " bytes",
                                 "the limit is " + std::to_string(limits::kKeyBytesMax));
}

Status out_of_memory() { return Status::MemoryLimit("no memory for the batch"); }

}  // namespace

Status Requests::add_write(wal::Op op, const Slice& key, const Slice& value) {
  Status status = check_key(key);
  if (!status.ok()) return status;
  if (value.size() > limits::kValueBytesMax) {
    return Status::InvalidArgument("value of " + std::to_string(value.size()) + " bytes",
                                   "the limit is " + std::to_string(limits::kValueBytesMax));
  }
  const auto header = wal::RecordHeader::make(op, key.size(), value.size());
  const std::uint64_t bytes = header.record_bytes();
  const std::uint64_t offset = records_.size();
  // Room in the frame for its header, alignment, descriptor and commit record.
  constexpr std::uint64_t kFrameSlack = 1024;
  if (offset + bytes + 4 * (write_count() + 1) + kFrameSlack > limits::kFrameBytesMax ||
      write_count() + read_count() >= limits::kBatchRequestsMax) {
    return Status::InvalidArgument("the batch is full; submit it and go on with another");
  }
  if (!records_.reserve(offset + bytes) || !write_offsets_.reserve(write_count() + 1) ||
      !write_keys_.append(key.data(), key.size())) {
    return out_of_memory();
  }
  std::byte* const record = records_.extend(bytes);
  // The last word first: its padding must be zero, and the value then covers the rest.
  std::memset(record + bytes - 8, 0, 8);
  std::memcpy(record, &header, sizeof header);
  std::memcpy(record + sizeof header, key.data(), key.size());
  std::memcpy(record + sizeof header + key.size(), value.data(), value.size());
  write_offsets_.push(offset | static_cast<std::uint64_t>(op));
  return status;
}

Status Requests::add_read(const Slice& key) {
  Status status = check_key(key);
  if (!status.ok()) return status;
  if (write_count() + read_count() >= limits::kBatchRequestsMax) {
    return Status::InvalidArgument("the batch is full; submit it and go on with another");
  }
  if (!read_after_.reserve(read_count() + 1) || !read_keys_.append(key.data(), key.size())) {
    return out_of_memory();
  }
  read_after_.push(records_.size());
  return status;
}

void Requests::clear() {
  records_.clear();
  write_keys_.clear();
  write_offsets_.clear();
  read_keys_.clear();
  read_after_.clear();
  results_.clear();
}

bool Requests::prepare_results(std::size_t parts, bool with_bounds) {
  const std::uint64_t n = read_count();
  if (!found_.reserve(n) || !results_.reserve(n)) return false;
  if (with_bounds && !bounds_.reserve(n)) return false;
  found_.clear();
  found_.extend(n);
  results_.clear();
  (void)results_.extend(n);
  while (arenas_.size() < parts) arenas_.push_back(std::make_unique<ResultArena>());
  for (auto& arena : arenas_) arena->clear();
  return true;
}

}  // namespace breccia::batch
