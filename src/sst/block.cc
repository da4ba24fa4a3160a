#include "sst/block.h"

#include <cstring>

#include "base/bytes.h"

namespace breccia::sst {

namespace {

constexpr std::uint32_t kHashIndexBit = 1U << 31;

/// Small numbers of either sign have few bits.
std::int64_t unzigzag(std::uint64_t word) {
  return static_cast<std::int64_t>(word >> 1) ^ -static_cast<std::int64_t>(word & 1);
}

}  // namespace

void BlockEntries::open(const Slice& contents) {
  status_ = Status::OK();
  next_restart_ = 0;
  key_bytes_ = 0;
  if (!take_restarts(contents)) (void)fail("its restarts do not fit");
}

bool BlockEntries::take_restarts(const Slice& contents) {
  constexpr std::uint64_t kWord = sizeof(std::uint32_t);
  std::uint64_t end = contents.size();
  if (end < kWord) return false;
  end -= kWord;
  const auto packed = load_little_endian<std::uint32_t>(contents.data() + end);
  restarts_ = packed & ~kHashIndexBit;
  if ((packed & kHashIndexBit) != 0) {
    if (end < sizeof(std::uint16_t)) return false;
    end -= sizeof(std::uint16_t);
    const auto buckets = load_little_endian<std::uint16_t>(contents.data() + end);
    if (end < buckets) return false;
    end -= buckets;
  }
  if (restarts_ == 0 || end / kWord < restarts_) return false;
  end -= restarts_ * kWord;
  begin_ = contents.data();
  entries_ = Slice(begin_, end);
  restart_array_ = begin_ + end;
  next_restart_place_ = restart_place(0);
  // An empty block has a restart, too.
  return next_restart_place_ == begin_;
}

std::uint32_t BlockEntries::restart_at(std::uint32_t i) const {
  BRECCIA_ASSERT(i < restarts_);
  return load_little_endian<std::uint32_t>(restart_array_ + i * sizeof(std::uint32_t));
}

bool BlockEntries::next() {
  if (!status_.ok()) return false;
  const char* const at = entries_.data();
  if (entries_.empty()) {
    const bool is_empty = at == begin_ && restarts_ == 1;
    return next_restart_ == restarts_ || is_empty ? false
                                                  : fail("it has more restarts than entries");
  }
  const bool is_restart = next_restart_place_ == at;
  if (is_restart) {
    next_restart_place_ = restart_place(++next_restart_);
  } else if (next_restart_place_ < at) {
    return fail("a restart is within an entry");
  }
  if (take_short_entry(is_restart)) return true;
  Input input(entries_);
  if (!take_entry(&input, is_restart)) return fail("an entry does not fit");
  entries_ = input.rest();
  return true;
}

bool BlockEntries::seek_value(std::uint64_t at) {
  if (!status_.ok()) return false;
  std::uint32_t restart = 0;  // the last one before
  for (std::uint32_t end = restarts_; end - restart > 1;) {
    const std::uint32_t middle = restart + (end - restart) / 2;
    (restart_at(middle) < at ? restart : end) = middle;
  }
  const auto bytes = static_cast<std::uint64_t>(restart_array_ - begin_);
  const std::uint64_t from = restart_at(restart);
  if (from > bytes) return fail("a restart is behind its entries");
  entries_ = Slice(begin_ + from, bytes - from);
  next_restart_ = restart;
  next_restart_place_ = restart_place(restart);
  key_bytes_ = 0;
  while (next()) {
    const auto own = static_cast<std::uint64_t>(value_.data() - begin_);
    if (own == at) return true;
    if (own > at) break;
  }
  return status_.ok() ? fail("no value begins there") : false;
}

inline bool BlockEntries::take_short_entry(bool is_restart) {
  constexpr std::size_t kLengths = 3;
  const char* const at = entries_.data();
  if (kind_ != Kind::kValues || entries_.size() < kLengths) return false;
  const auto shared = static_cast<unsigned char>(at[0]);
  const auto unshared = static_cast<unsigned char>(at[1]);
  const auto value_bytes = static_cast<unsigned char>(at[2]);
  const std::size_t bytes = kLengths + unshared + value_bytes;
  if (((shared | unshared | value_bytes) & 0x80) != 0 || bytes > entries_.size()) return false;
  const std::size_t key_bytes = std::size_t{shared} + unshared;
  if (shared > key_bytes_ || (is_restart && shared != 0) || key_bytes > key_.size()) return false;
  base::copy_inline(key_.data() + shared, at + kLengths, unshared);
  key_bytes_ = key_bytes;
  value_ = Slice(at + kLengths + unshared, value_bytes);
  entries_ = Slice(at + bytes, entries_.size() - bytes);
  return true;
}

std::uint32_t BlockEntries::take_pairs(std::uint64_t end_head, std::uint32_t limit,
                                       std::uint64_t* pairs) {
  constexpr std::uint64_t kWord = sizeof(std::uint64_t);
  constexpr std::uint64_t kKey = kWord + kTagBytes;
  constexpr std::uint64_t kLengths = 3;
  constexpr std::ptrdiff_t kBytesMax = kLengths + kKey + kWord;
  if (!status_.ok() || kind_ != Kind::kValues || key_bytes_ != kKey) return 0;
  const char* at = entries_.data();
  const char* const end = at + entries_.size();
  std::uint64_t head = base::load_big_endian_8(key_.data());
  std::uint64_t tag = 0;
  std::uint32_t taken = 0;
  // What ends it is for next() to say.
  while (taken < limit && end - at >= kBytesMax && next_restart_place_ >= at) {
    const auto shared = static_cast<unsigned char>(at[0]);
    const auto unshared = static_cast<unsigned char>(at[1]);
    const bool is_restart = next_restart_place_ == at;
    if (shared >= kWord || shared + unshared != kKey || at[2] != kWord) break;
    if (is_restart && shared != 0) break;
    const std::uint64_t rest = base::load_big_endian_8(at + kLengths) >> 8 * shared;
    const std::uint64_t own = shared == 0 ? 0 : head >> (64 - 8 * shared) << (64 - 8 * shared);
    const char* const value = at + kLengths + unshared;
    const auto own_tag = load_little_endian<std::uint64_t>(value - kTagBytes);
    const bool is_value = static_cast<EntryType>(own_tag & 0xFF) == EntryType::kValue;
    if (!is_value || (own | rest) <= head || (own | rest) >= end_head) break;
    head = own | rest;
    tag = own_tag;
    if (is_restart) next_restart_place_ = restart_place(++next_restart_);
    pairs[2 * taken] = __builtin_bswap64(head);
    std::memcpy(&pairs[2 * taken + 1], value, kWord);
    ++taken;
    at = value + kWord;
  }
  if (taken == 0) return 0;
  std::memcpy(key_.data(), &pairs[2 * taken - 2], kWord);
  std::memcpy(key_.data() + kWord, &tag, kTagBytes);
  value_ = Slice(at - kWord, kWord);
  entries_ = Slice(at, static_cast<std::size_t>(end - at));
  return taken;
}

bool BlockEntries::take_lengths(Input* input, Lengths* lengths) const {
  return input->varint(&lengths->shared) && input->varint(&lengths->unshared) &&
         (kind_ == Kind::kHandles || input->varint(&lengths->value));
}

bool BlockEntries::take_entry(Input* input, bool is_restart) {
  Lengths lengths;
  if (!take_lengths(input, &lengths)) return false;
  Slice suffix;
  if (!input->bytes(lengths.unshared, &suffix)) return false;
  if (lengths.shared > key_bytes_ || (is_restart && lengths.shared != 0)) return false;
  take_key(lengths.shared, suffix);
  if (kind_ == Kind::kHandles) return take_handle(input, lengths.shared == 0);
  return input->bytes(lengths.value, &value_);
}

void BlockEntries::take_key(std::uint32_t shared, const Slice& suffix) {
  key_bytes_ = shared + suffix.size();
  if (key_bytes_ > key_.size()) key_.resize(2 * key_bytes_);
  std::memcpy(key_.data() + shared, suffix.data(), suffix.size());
}

bool BlockEntries::take_handle(Input* input, bool is_full) {
  if (is_full) return input->handle(&handle_);
  std::uint64_t change = 0;
  if (!input->varint(&change)) return false;
  handle_.offset = handle_.end();
  handle_.bytes += static_cast<std::uint64_t>(unzigzag(change));
  return true;
}

bool BlockEntries::fail(const char* what) {
  status_ = Status::Corruption("a block is broken", what);
  entries_.clear();
  return false;
}

}  // namespace breccia::sst
