#include "sst/block_builder.h"

#include <algorithm>

namespace breccia::sst {

void append_varint(std::string* to, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) to->push_back(static_cast<char>(value | 0x80));
  to->push_back(static_cast<char>(value));
}

void append_handle(std::string* to, const Handle& handle) {
  append_varint(to, handle.offset);
  append_varint(to, handle.bytes);
}

std::size_t BlockBuilder::begin(const Slice& key) {
  BRECCIA_ASSERT(key.size() <= UINT32_MAX && bytes_.size() <= UINT32_MAX);
  std::size_t shared = 0;
  if (restarts_ != 0 && since_restart_ >= restarts_) {
    restart_at_.push_back(static_cast<std::uint32_t>(bytes_.size()));
    since_restart_ = 0;
  } else {
    const std::size_t most = std::min(key.size(), last_key_.size());
    shared = static_cast<std::size_t>(
        std::mismatch(key.data(), key.data() + most, last_key_.data()).first - key.data());
  }
  ++since_restart_;
  append_varint(&bytes_, shared);
  append_varint(&bytes_, key.size() - shared);
  return shared;
}

void BlockBuilder::add(const Slice& key, const Slice& value) {
  const std::size_t shared = begin(key);
  append_varint(&bytes_, value.size());
  bytes_.append(key.data() + shared, key.size() - shared);
  bytes_.append(value.data(), value.size());
  last_key_.assign(key.data(), key.size());
}

void BlockBuilder::add_handle(const Slice& key, const Handle& handle) {
  const std::size_t shared = begin(key);
  bytes_.append(key.data() + shared, key.size() - shared);
  if (shared == 0) {
    append_handle(&bytes_, handle);
  } else {
    BRECCIA_ASSERT(handle.offset == last_handle_.end());
    const auto more = static_cast<std::int64_t>(handle.bytes - last_handle_.bytes);
    append_varint(&bytes_, static_cast<std::uint64_t>(more << 1 ^ more >> 63));
  }
  last_key_.assign(key.data(), key.size());
  last_handle_ = handle;
}

std::string BlockBuilder::finish() {
  for (const std::uint32_t at : restart_at_) append_fixed(&bytes_, at);
  append_fixed(&bytes_, static_cast<std::uint32_t>(restart_at_.size()));
  return std::move(bytes_);
}

}  // namespace breccia::sst
