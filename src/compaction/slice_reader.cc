#include "compaction/slice_reader.h"

#include <algorithm>
#include <utility>

#include "base/memory.h"

namespace breccia::compaction {

namespace {

/// The blocks of a table that may have keys of a range: from the first on, up to the second.
std::pair<std::size_t, std::size_t> blocks_of(const sst::Table& table,
                                              const std::optional<std::string>& begin,
                                              const std::optional<std::string>& end) {
  const auto& blocks = table.data_blocks();
  const auto ends_before = [&](const sst::DataBlock& block, const std::string& key) {
    return end_of(table, block).compare(key) < 0;
  };
  auto first = blocks.begin();
  if (begin.has_value()) first = std::lower_bound(first, blocks.end(), *begin, ends_before);
  auto last = blocks.end();
  if (end.has_value()) {
    last = std::lower_bound(first, blocks.end(), *end, ends_before);
    if (last != blocks.end()) ++last;  // it ends behind the range, and may begin before
  }
  return {first - blocks.begin(), last - blocks.begin()};
}

Status no_memory() { return Status::MemoryLimit("memory for a merge is exhausted"); }

}  // namespace

std::uint64_t SliceReader::Stretch::begin() const {
  return file->table->data_blocks()[first].handle.offset;
}

std::uint64_t SliceReader::Stretch::bytes() const {
  return file->table->data_blocks()[last - 1].handle.end() - begin();
}

void SliceReader::find(const std::optional<std::string>& begin,
                       const std::optional<std::string>& end, Slice* slice) {
  stretches_.clear();
  for (const auto& run : inputs_.runs) {
    std::uint64_t blocks = 0;
    for (const Inputs::File& file : run) {
      const auto [first, last] = blocks_of(*file.table, begin, end);
      if (first >= last) continue;
      stretches_.push_back({&file, static_cast<std::uint32_t>(slice->files.size()), first, last});
      slice->files.push_back(file.place);
      blocks += last - first;
    }
    slice->run_blocks.push_back(blocks);
  }
}

/// An index may say anything of where blocks are; where they are aligned, less than half is zeros.
Status SliceReader::check_gaps(const Stretch& stretch) {
  constexpr std::uint64_t kFree = 1 << 20;
  const auto& blocks = stretch.file->table->data_blocks();
  std::uint64_t bytes = 0;
  for (std::size_t b = stretch.first; b < stretch.last; ++b) {
    bytes += blocks[b].handle.bytes + sst::kTrailerBytes;
  }
  if (stretch.bytes() <= 2 * bytes + kFree) return Status::OK();
  return Status::Corruption("blocks lie far apart", stretch.file->table->path());
}

/// Plain blocks go to the room, others to `stored_`.
Status SliceReader::read_stretches() {
  std::uint64_t plain = 0;
  std::uint64_t stored = 0;
  for (Stretch& stretch : stretches_) {
    BRECCIA_TRY(check_gaps(stretch));
    std::uint64_t& bytes = stretch.is_checked() ? stored : plain;
    stretch.at = bytes;
    bytes += stretch.bytes();
  }
  room_.clear();
  if (!room_.reserve(plain + sst::algo::kPadBytes)) return no_memory();
  (void)room_.extend(plain);
  stored_.resize(stored);
  std::vector<sst::FileRange> ranges;
  for (const Stretch& stretch : stretches_) {
    char* const to = (stretch.is_checked() ? stored_.data() : room_.data()) + stretch.at;
    ranges.push_back(stretch.file->table->range(stretch.begin(), stretch.bytes(), to));
  }
  return reader_.read(ranges);
}

void SliceReader::list_plain(const Stretch& stretch, Slice* slice) const {
  const auto& blocks = stretch.file->table->data_blocks();
  for (std::size_t b = stretch.first; b < stretch.last; ++b) {
    const sst::Handle& handle = blocks[b].handle;
    slice->blocks.push_back({/*part=*/0, stretch.number,
                             stretch.at + handle.offset - stretch.begin(),
                             static_cast<std::uint32_t>(handle.bytes)});
  }
}

Status SliceReader::unpack(const Stretch& stretch, Slice* slice) {
  const auto& blocks = stretch.file->table->data_blocks();
  std::string one;
  for (std::size_t b = stretch.first; b < stretch.last; ++b) {
    const sst::Handle& handle = blocks[b].handle;
    rocksdb::Slice contents;
    BRECCIA_TRY(stretch.file->table->open_data(
        handle, stored_.data() + stretch.at + handle.offset - stretch.begin(), &one, &contents));
    slice->blocks.push_back(
        {/*part=*/0, stretch.number, room_.size(), static_cast<std::uint32_t>(contents.size())});
    if (!room_.reserve(room_.size() + contents.size() + sst::algo::kPadBytes)) return no_memory();
    std::copy_n(contents.data(), contents.size(), room_.extend(contents.size()));
  }
  return Status::OK();
}

Status SliceReader::read(std::optional<std::string> begin, std::optional<std::string> end,
                         Slice* slice) {
  return base::or_memory_limit([&] {
    *slice = Slice();
    find(begin, end, slice);
    BRECCIA_TRY(read_stretches());
    for (const Stretch& stretch : stretches_) {
      if (stretch.is_checked()) {
        BRECCIA_TRY(unpack(stretch, slice));
      } else {
        list_plain(stretch, slice);
      }
    }
    std::fill_n(room_.extend(sst::algo::kPadBytes), sst::algo::kPadBytes, '\0');
    if (!slice->blocks.empty()) {
      slice->parts.push_back({room_.data(), room_.size() - sst::algo::kPadBytes});
    }
    slice->begin = std::move(begin);
    slice->end = std::move(end);
    return Status::OK();
  });
}

}  // namespace breccia::compaction
