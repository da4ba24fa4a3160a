#include "residency/scan.h"

#include <algorithm>
#include <utility>

#include "base/prefetch.h"

namespace breccia::residency {

namespace {

constexpr std::size_t kLineBytes = 64;

/// Which of a part's blocks holds the byte at `offset`; their number: none.
std::size_t block_at(const std::vector<sst::Handle>& blocks, std::uint64_t offset) {
  const auto behind = std::upper_bound(
      blocks.begin(), blocks.end(), offset,
      [](std::uint64_t sought, const sst::Handle& block) { return sought < block.offset; });
  if (behind == blocks.begin()) return blocks.size();
  return static_cast<std::size_t>(behind - blocks.begin()) - 1;
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
  key_ = files_->part(part_).first_key;
}

void Scan::Level::next() {
  BRECCIA_ASSERT(state_ == State::kEntry);
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
  state_ = State::kEntry;
  key_ = Slice(key.data(), key.size() - sst::kTagBytes);
}

bool Scan::Level::is_deletion() const {
  const auto tag = sst::load_little_endian<std::uint64_t>(key_.data() + key_.size());
  return static_cast<sst::EntryType>(tag & 0xFF) != sst::EntryType::kValue;
}

// ---- all of them ----

Scan::Scan(const FileSet& files) : files_(files) {
  for (std::size_t level = 0; level < files.levels().size(); ++level) {
    levels_.emplace_back(files, files.parts_end(level));
  }
}

void Scan::fetch(const FileSet::Starts& starts, std::uint64_t i) const {
  for (std::size_t level = 0; level < levels_.size(); ++level) {
    const std::uint64_t place = starts.place(i, level);
    if (place == kNowhere || place == kAsk) continue;
    const FileSet::Part& part = files_.part(starts.part(i, level));
    if (part.file == nullptr || part.is_packed) continue;
    base::prefetch_far(part.file->data() + offset_of(place));
    base::prefetch_far(part.file->data() + offset_of(place) + kLineBytes);
  }
}

void Scan::begin(const FileSet::Starts& starts, std::uint64_t i) {
  is_lost_ = false;
  for (std::size_t level = 0; level < levels_.size(); ++level) {
    levels_[level].begin(starts.place(i, level), starts.part(i, level));
  }
  settle();
}

void Scan::next() {
  BRECCIA_ASSERT(valid());
  pass_least();
  settle();
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
  for (Level& level : levels_) {
    if (!level.valid()) continue;
    if (least_ == nullptr || level.key().compare(least_->key()) < 0) least_ = &level;
  }
  is_lost_ = is_lost_ || (least_ != nullptr && least_->is_unknown());
}

void Scan::pass_least() {
  for (Level& level : levels_) {
    const bool has_it = &level != least_ && level.valid() && level.key() == least_->key();
    if (has_it && !level.is_unknown()) pass(&level);
  }
  pass(least_);
}

void Scan::pass(Level* level) {
  passed_.assign(level->key().data(), level->key().size());
  do {
    level->next();
  } while (level->valid() && !level->is_unknown() && level->key() == Slice(passed_));
}

}  // namespace breccia::residency
