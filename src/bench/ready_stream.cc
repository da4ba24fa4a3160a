#include "bench/ready_stream.h"

#include "base/assert.h"

namespace breccia::bench {

Result<std::unique_ptr<Stream>> ReadyStream::make(std::unique_ptr<Stream> made,
                                                  std::uint64_t count) {
  BRECCIA_TAKE(pmem::PageMemory keys,
               pmem::PageMemory::allocate_huge(count * made->key_size_max()));
  std::unique_ptr<ReadyStream> ready(new ReadyStream(std::move(made), count, std::move(keys)));
  Chunk chunk(ready->stride_);
  for (std::uint64_t from = 0; from < count; from += chunk.count) {
    const std::uint64_t left = std::min<std::uint64_t>(kChunkRequests, count - from);
    ready->made_->fill(from, static_cast<std::uint32_t>(left), &chunk);
    BRECCIA_TRY(ready->take(from, chunk));
  }
  return std::unique_ptr<Stream>(std::move(ready));
}

ReadyStream::ReadyStream(std::unique_ptr<Stream> made, std::uint64_t count, pmem::PageMemory keys)
    : made_(std::move(made)),
      count_(count),
      stride_(made_->key_size_max()),
      keys_(std::move(keys)),
      key_sizes_(count),
      kinds_(count) {
  arrays_.keys = reinterpret_cast<const char*>(keys_.data());
  arrays_.key_stride = stride_;
  arrays_.key_bytes = count * stride_;
  arrays_.kinds = kinds_.data();
  arrays_.key_sizes = key_sizes_.data();
}

Status ReadyStream::take(std::uint64_t first, const Chunk& chunk) {
  for (std::uint32_t i = 0; i < chunk.count; ++i) {
    const auto [kind, key, value, scan_entries] = chunk.at(i);
    const std::uint64_t number = first + i;
    std::memcpy(keys_.data() + number * stride_, key.data(), key.size());
    key_sizes_[number] = static_cast<std::uint16_t>(key.size());
    kinds_[number] = kind;
    arrays_.is_uniform = arrays_.is_uniform && key.size() == stride_ && kind == kinds_.front();
    if (kind == Kind::kScan) {
      scan_entries_.resize(count_);
      arrays_.scan_entries = scan_entries_.data();
      scan_entries_[number] = scan_entries;
    }
    if (has_value(kind)) BRECCIA_TRY(take_value(number, value));
  }
  arrays_.kind = kinds_.front();
  return Status();
}

Status ReadyStream::take_value(std::uint64_t number, const Slice& value) {
  if (values_ == nullptr) {
    value_size_ = value.size();
    BRECCIA_TAKE(pmem::PageMemory memory,
                 pmem::PageMemory::allocate_huge(std::max<std::size_t>(count_ * value_size_, 1)));
    values_ = std::make_unique<pmem::PageMemory>(std::move(memory));
    arrays_.values = reinterpret_cast<const char*>(values_->data());
    arrays_.value_size = value_size_;
  }
  BRECCIA_ASSERT(value.size() == value_size_);
  std::memcpy(values_->data() + number * value_size_, value.data(), value_size_);
  return Status();
}

void ReadyStream::fill(std::uint64_t first, std::uint32_t count, Chunk* chunk) const {
  BRECCIA_ASSERT(count <= kChunkRequests && first + count <= count_);
  chunk->count = count;
  for (std::uint32_t i = 0; i < count; ++i) {
    const Request request = arrays_.at(first + i);
    chunk->kind[i] = request.kind;
    chunk->key[i] = request.key;
    chunk->value[i] = request.value;
    chunk->scan_entries[i] = request.scan_entries;
  }
}

}  // namespace breccia::bench
