#include "residency/scan.h"

#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "base/prefetch.h"
#include "residency/cold_pages.h"

namespace breccia::residency {

namespace {

constexpr std::size_t kLineBytes = 64;
constexpr std::size_t kWord = 8;
/// Of a range: the processor sees where it goes on, but not past a page.
constexpr std::uint64_t kFetchedLinesMin = 4;
constexpr std::uint64_t kFetchedLinesMax = 96;

using Blocks = std::vector<sst::Handle>;

/// Which of a part's blocks holds the byte at `offset` if all are equally long.
/// Shape   there is one.
Blocks::const_iterator guess(const Blocks& blocks, std::uint64_t offset) {
  const std::uint64_t begin = blocks.front().offset;
  const std::uint64_t bytes = blocks.back().end() - begin;
  const std::uint64_t from = std::clamp(offset, begin, begin + bytes - 1) - begin;
  return blocks.begin() + static_cast<std::ptrdiff_t>(from * blocks.size() / bytes);
}

/// Which of them does; their number: none.
std::size_t block_at(const Blocks& blocks, std::uint64_t offset) {
  if (blocks.empty() || offset < blocks.front().offset) return blocks.size();
  auto low = guess(blocks, offset);  // begins before, or will
  std::ptrdiff_t step = 1;
  for (; low->offset > offset; step *= 2) low -= std::min(step, low - blocks.begin());
  auto high = low;
  for (step = 1; high != blocks.end() && high->offset <= offset; step *= 2) {
    low = high;
    high += std::min(step, blocks.end() - high);
  }
  const auto behind = std::upper_bound(
      low, high, offset,
      [](std::uint64_t sought, const sst::Handle& block) { return sought < block.offset; });
  return static_cast<std::size_t>(behind - blocks.begin()) - 1;
}

/// The first 8 bytes, as many as there are, as they compare.
std::uint64_t head_of(const Slice& key) {
  return base::load_big_endian(key.data(), std::min(kWord, key.size()));
}

/// Of neighbours in order the last bytes differ most often.
bool are_same(const Slice& a, const Slice& b) {
  if (a.size() != b.size()) return false;
  if (a.size() >= kWord && base::load_big_endian_8(a.data() + a.size() - kWord) !=
                               base::load_big_endian_8(b.data() + b.size() - kWord)) {
    return false;
  }
  return a == b;
}

}  // namespace

// ---- one level ----

void Scan::Level::begin(std::uint64_t place, std::uint32_t part) {
  if (place == kNowhere) {
    state_ = State::kEnd;
    return;
  }
  part_ = part;
  lose();
  const FileSet::Part& in = files_->part(part_);
  if (place == kAsk || in.file == nullptr) return;
  const std::size_t block =
      in.is_packed ? packed_block(place) : block_at(*in.blocks, offset_of(place));
  if (block >= in.blocks->size() || !open_block(block)) return;
  const std::uint64_t at =
      in.is_packed ? packed_at(place) : offset_of(place) - (*in.blocks)[block].offset;
  if (entries_.seek_value(at)) take_entry();
}

void Scan::Level::lose() {
  state_ = State::kUnknown;
  is_deletion_ = false;
  key_ = files_->part(part_).first_key;
}

void Scan::Level::next() {
  BRECCIA_ASSERT(is_entry());
  while (!entries_.next()) {
    const bool is_last = block_ + 1 == files_->part(part_).blocks->size();
    if (entries_.status().ok() && is_last) return open_part(part_ + 1);
    if (!entries_.status().ok() || !open_block(block_ + 1)) return lose();
  }
  take_entry();
}

/// Goes to the first entry of a part.
void Scan::Level::open_part(std::size_t part) {
  if (part == part_end_) {
    state_ = State::kEnd;
    return;
  }
  part_ = part;
  lose();
  if (files_->part(part).file == nullptr || !open_block(0)) return;
  if (entries_.next()) take_entry();
}

/// False: it is not any more what it was.
bool Scan::Level::open_block(std::size_t block) {
  block_ = block;
  Slice contents;
  if (!FileSet::open_block(files_->part(part_), block, &unpacked_, &contents).ok()) return false;
  entries_.open(contents);
  return true;
}

void Scan::Level::take_entry() {
  const Slice key = entries_.key();
  if (key.size() < sst::kTagBytes) return lose();
  key_ = Slice(key.data(), key.size() - sst::kTagBytes);
  const auto tag = sst::load_little_endian<std::uint64_t>(key_.data() + key_.size());
  const auto type = static_cast<sst::EntryType>(tag & 0xFF);
  is_deletion_ = sst::is_deletion(type);
  state_ = type == sst::EntryType::kValue || is_deletion_ ? State::kEntry : State::kOther;
}

void Scan::Level::ask_ahead(std::uint64_t bytes) const {
  if (state_ != State::kEntry && state_ != State::kOther) return;
  const FileSet::Part& part = files_->part(part_);
  const std::uint64_t begin = (*part.blocks)[block_].offset;
  const std::uint64_t end = std::min(begin + bytes, part.file->bytes());
  ask_for_pages(part.file->data() + begin, end - begin);
}

std::uint32_t Scan::Level::take_pairs(std::uint64_t end_head, std::uint32_t limit,
                                      std::uint64_t* pairs) {
  BRECCIA_ASSERT(state_ == State::kEntry);
  const std::uint32_t taken = entries_.take_pairs(end_head, limit, pairs);
  if (taken > 0) take_entry();
  return taken;
}

// ---- all of them ----

Scan::Scan(const FileSet& files) : files_(files) {
  for (std::size_t level = 0; level < files.levels(); ++level) {
    levels_.emplace_back(files, files.parts_end(level));
  }
}

template <class Fetch>
void Scan::each_plain(const FileSet::Starts& starts, std::uint64_t i, const Fetch& fetch) const {
  for (std::size_t level = 0; level < levels_.size(); ++level) {
    const std::uint64_t place = starts.place(i, level);
    if (place == kNowhere || place == kAsk) continue;
    const FileSet::Part& part = files_.part(starts.part(i, level));
    if (part.file != nullptr && !part.is_packed) fetch(part, offset_of(place));
  }
}

void Scan::fetch_block(const FileSet::Starts& starts, std::uint64_t i,
                       std::uint64_t entries) const {
  if (levels_.empty()) return;
  // Of what several levels have each has a part.
  const std::uint64_t own = entries / levels_.size() + 1;
  each_plain(starts, i, [own](const FileSet::Part& part, std::uint64_t offset) {
    const std::uint64_t bytes = std::min(own, kFetchedLinesMax * kLineBytes) * part.entry_bytes;
    const std::uint64_t lines = std::clamp(bytes / kLineBytes, kFetchedLinesMin, kFetchedLinesMax);
    const char* const at = part.file->data() + offset;
    for (std::uint64_t line = 0; line < lines; ++line) {
      base::prefetch_far(at + line * kLineBytes);
    }
    base::prefetch_far(&*guess(*part.blocks, offset));
  });
}

void Scan::fetch_entry(const FileSet::Starts& starts, std::uint64_t i) const {
  each_plain(starts, i, [](const FileSet::Part& part, std::uint64_t offset) {
    const std::size_t block = block_at(*part.blocks, offset);
    if (block == part.blocks->size()) return;
    const sst::Handle& handle = (*part.blocks)[block];
    const char* const end = part.file->data() + handle.offset + handle.bytes;
    base::prefetch_far(end - 1);
    base::prefetch_far(end - kLineBytes);
  });
}

void Scan::begin(const FileSet::Starts& starts, std::uint64_t i, const Slice& begin,
                 std::optional<Slice> end) {
  least_ = nullptr;
  end_ = end;
  end_head_ = end.has_value() ? head_of(*end) : 0;
  // Nothing is opened for what RocksDB is asked in any case.
  is_lost_ = false;
  read_bytes_ = 0;
  asks_at_ = kGoesOnBytes;
  for (std::size_t level = 0; level < levels_.size() && !is_lost_; ++level) {
    is_lost_ = starts.place(i, level) == kAsk &&
               files_.part(starts.part(i, level)).first_key.compare(begin) <= 0;
  }
  if (is_lost_) return;
  for (std::size_t level = 0; level < levels_.size(); ++level) {
    levels_[level].begin(starts.place(i, level), starts.part(i, level));
  }
  settle();
}

bool Scan::is_behind(const Slice& key) const {
  if (!end_.has_value()) return false;
  const std::uint64_t head = head_of(key);
  return head != end_head_ ? head > end_head_ : key.compare(*end_) >= 0;
}

void Scan::next() {
  BRECCIA_ASSERT(valid());
  note_read(key().size() + value().size());
  const bool was_alone = pass_least();
  if (!was_alone || !is_alone()) settle();
}

bool Scan::is_alone() const {
  if (!least_->valid() || least_->is_unknown() || least_->is_deletion()) return false;
  const Slice& key = least_->key();
  return (rival_ == nullptr || base::compare_inline(key, rival_->key()) < 0) && !is_behind(key);
}

void Scan::ask_ahead() {
  for (const Level& level : levels_) level.ask_ahead(kAskedBytes);
  asks_at_ = read_bytes_ + kAskedBytes / 2;
}

std::uint32_t Scan::take_pairs(std::uint32_t limit, std::uint64_t* pairs) {
  BRECCIA_ASSERT(valid());
  // Before what other levels have, versions of the same key among that.
  std::uint64_t end_head = end_.has_value() ? end_head_ : ~std::uint64_t{0};
  for (const Level& level : levels_) {
    if (&level != least_ && level.valid()) end_head = std::min(end_head, head_of(level.key()));
  }
  const std::uint32_t taken = least_->take_pairs(end_head, limit, pairs);
  note_read(std::uint64_t{taken} * 2 * sizeof *pairs);
  return taken;
}

void Scan::settle() {
  find_least();
  while (least_ != nullptr && !is_lost_ && least_->is_deletion()) {
    pass_least();
    find_least();
  }
}

void Scan::find_least() {
  least_ = nullptr;
  rival_ = nullptr;
  for (Level& level : levels_) {
    if (!level.valid()) continue;
    if (least_ == nullptr || base::compare_inline(level.key(), least_->key()) < 0) {
      rival_ = std::exchange(least_, &level);
    } else if (rival_ == nullptr || base::compare_inline(level.key(), rival_->key()) < 0) {
      rival_ = &level;
    }
  }
  if (least_ != nullptr && is_behind(least_->key())) least_ = nullptr;
  is_lost_ = is_lost_ || (least_ != nullptr && least_->is_unknown());
}

bool Scan::pass_least() {
  const bool has_alone = rival_ == nullptr || !are_same(rival_->key(), least_->key());
  for (Level& level : levels_) {
    if (has_alone) break;
    const bool has_it = &level != least_ && level.valid() && level.key() == least_->key();
    if (has_it && level.is_entry()) pass(&level);
  }
  pass(least_);
  return has_alone;
}

void Scan::pass(Level* level) {
  const std::size_t bytes = level->key().size();
  if (passed_.size() < bytes) passed_.resize(bytes);
  base::copy_inline(passed_.data(), level->key().data(), bytes);
  const Slice passed(passed_.data(), bytes);
  do {
    level->next();
  } while (level->is_entry() && are_same(level->key(), passed));
}

}  // namespace breccia::residency
