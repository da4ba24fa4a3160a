#include "sst/block.h"

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
  key_.clear();
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
  // An empty block has a restart, too.
  return restart_at(0) == 0;
}

std::uint32_t BlockEntries::restart_at(std::uint32_t i) const {
  BRECCIA_ASSERT(i < restarts_);
  return load_little_endian<std::uint32_t>(restart_array_ + i * sizeof(std::uint32_t));
}

bool BlockEntries::next() {
  if (!status_.ok()) return false;
  const auto at = static_cast<std::uint64_t>(entries_.data() - begin_);
  if (entries_.empty()) {
    const bool is_empty = at == 0 && restarts_ == 1;
    return next_restart_ == restarts_ || is_empty ? false
                                                  : fail("it has more restarts than entries");
  }
  const bool is_restart = next_restart_ < restarts_ && restart_at(next_restart_) == at;
  if (is_restart) {
    next_restart_ += 1;
  } else if (next_restart_ < restarts_ && restart_at(next_restart_) < at) {
    return fail("a restart is within an entry");
  }
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
  key_.clear();
  while (next()) {
    const auto own = static_cast<std::uint64_t>(value_.data() - begin_);
    if (own == at) return true;
    if (own > at) break;
  }
  return status_.ok() ? fail("no value begins there") : false;
}

bool BlockEntries::take_lengths(Input* input, Lengths* lengths) const {
  const Slice& rest = input->rest();
  // Most have a byte each.
  if (kind_ == Kind::kValues && rest.size() >= 3 && ((rest[0] | rest[1] | rest[2]) & 0x80) == 0) {
    *lengths = {static_cast<std::uint32_t>(rest[0]), static_cast<std::uint32_t>(rest[1]),
                static_cast<std::uint32_t>(rest[2])};
    Slice taken;
    return input->bytes(3, &taken);
  }
  return input->varint(&lengths->shared) && input->varint(&lengths->unshared) &&
         (kind_ == Kind::kHandles || input->varint(&lengths->value));
}

bool BlockEntries::take_entry(Input* input, bool is_restart) {
  Lengths lengths;
  if (!take_lengths(input, &lengths)) return false;
  Slice suffix;
  if (!input->bytes(lengths.unshared, &suffix)) return false;
  if (lengths.shared > key_.size() || (is_restart && lengths.shared != 0)) return false;
  key_.resize(lengths.shared);
  key_.append(suffix.data(), suffix.size());
  if (kind_ == Kind::kHandles) return take_handle(input, lengths.shared == 0);
  return input->bytes(lengths.value, &value_);
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
