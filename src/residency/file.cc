#include "residency/file.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/assert.h"
#include "base/memory.h"
#include "residency/wanted.h"
#include "sst/algo/bytes.cuh"
#include "sst/check.h"

namespace breccia::residency {

namespace {

/// Of a file that is compressed so much less is read for a piece: it grows.
constexpr std::uint64_t kPackedShare = 4;

Status no_memory() { return Status::MemoryLimit("memory to read a file is exhausted"); }

/// Checks blocks that lie as they are stored in `data`, what the file has from `offset` on.
Status check_blocks(const sst::Table& table, std::span<const sst::DataBlock> blocks,
                    const char* data, std::uint64_t offset) {
  std::string room;
  for (const sst::DataBlock& block : blocks) {
    const char* const stored = data + (block.handle.offset - offset);
    Slice contents;
    BRECCIA_TRY(table.open_data(block.handle, stored, &room, &contents));
    if (contents.data() != stored) return Status::Corruption("a compressed block", table.path());
  }
  return Status::OK();
}

/// The first block behind `first` that no longer goes with it: blocks that are stored within
/// `bytes` of it, `count` at most.
/// Errors  Corruption: blocks lie one over the other.
Result<std::size_t> end_of_stretch(const sst::Table& table, std::size_t first, std::uint64_t bytes,
                                   std::uint64_t count) {
  const auto& all = table.data_blocks();
  const std::uint64_t offset = all[first].handle.offset;
  std::size_t next = first + 1;
  for (; next < all.size() && next - first < count; ++next) {
    const sst::Handle& handle = all[next].handle;
    if (handle.offset < all[next - 1].handle.end()) {
      return Status::Corruption("blocks lie one over the other", table.path());
    }
    if (handle.end() - offset > bytes) break;
  }
  return next;
}

/// What range deletions of a table cover. A single deletion is one in the tree.
/// Errors  those of the table.
Result<std::vector<KeySpan>> deleted_by(const sst::Table& table) {
  std::vector<KeySpan> spans;
  BRECCIA_TRY(
      sst::visit_range_deletions(table, [&](const sst::InternalKey& begin, const Slice& end) {
        KeySpan span{begin.user_key.ToString(), end.ToString()};
        // Of one key alone, as a single deletion is.
        const bool is_one = span.last.size() == span.first.size() + 1 && span.last.back() == 0 &&
                            span.last.starts_with(span.first);
        if (is_one) span.last.pop_back();
        spans.push_back(std::move(span));
        return true;
      }));
  join_spans(&spans, kDeletedSpansMax);
  return spans;
}

}  // namespace

void join_spans(std::vector<KeySpan>* spans, std::size_t most) {
  BRECCIA_ASSERT(most > 0);
  std::sort(spans->begin(), spans->end(),
            [](const KeySpan& a, const KeySpan& b) { return a.first < b.first; });
  std::size_t count = 0;
  for (KeySpan& span : *spans) {
    if (count > 0 && span.first <= (*spans)[count - 1].last) {
      std::string& last = (*spans)[count - 1].last;
      last = std::max(std::move(last), std::move(span.last));
    } else {
      KeySpan own = std::move(span);
      (*spans)[count++] = std::move(own);
    }
  }
  spans->resize(count);
  if (count <= most) return;
  for (std::size_t i = 0; i < most; ++i) {
    KeySpan own{std::move((*spans)[i * count / most].first),
                std::move((*spans)[(i + 1) * count / most - 1].last)};
    (*spans)[i] = std::move(own);
  }
  spans->resize(most);
}

std::uint64_t ResidentFile::keys() const {
  return std::accumulate(
      pieces.begin(), pieces.end(), std::uint64_t{0},
      [](std::uint64_t sum, const PiecePtr& piece) { return sum + piece->count(); });
}

std::uint64_t ResidentFile::memory_bytes() const {
  return std::accumulate(
      pieces.begin(), pieces.end(), std::uint64_t{0},
      [](std::uint64_t sum, const PiecePtr& piece) { return sum + piece->memory_bytes(); });
}

/// Blocks from *next on that become a piece, in the room, and where they are; *next is moved behind
/// them.
Result<FileBlocks> FileReader::read_blocks(const sst::Table& table, std::size_t* next,
                                           std::vector<sst::Handle>* handles) {
  const auto& all = table.data_blocks();
  const std::size_t first = *next;
  BRECCIA_TAKE(*next, end_of_stretch(table, first, piece_bytes_, all.size()));
  FileBlocks blocks;
  blocks.offset = all[first].handle.offset;
  blocks.bytes = all[*next - 1].handle.end() - blocks.offset;
  blocks.is_checked = table.checksum_type() != sst::ChecksumType::kXxh3;
  for (std::size_t b = first; b < *next; ++b) {
    const sst::Handle& handle = all[b].handle;
    blocks.blocks.push_back(
        {handle.offset - blocks.offset, static_cast<std::uint32_t>(handle.bytes)});
    handles->push_back(handle);
  }
  room_.clear();
  if (!room_.reserve(blocks.bytes + sst::algo::kPadBytes)) return no_memory();
  char* const data = room_.extend(blocks.bytes + sst::algo::kPadBytes);
  const sst::FileRange range = table.range(blocks.offset, blocks.bytes, data);
  BRECCIA_TRY(reader_.read(std::span(&range, 1)));
  std::fill_n(data + blocks.bytes, sst::algo::kPadBytes, '\0');
  blocks.data = data;
  if (blocks.is_checked) {
    BRECCIA_TRY(
        check_blocks(table, std::span(all).subspan(first, *next - first), data, blocks.offset));
  }
  return blocks;
}

/// The same of blocks that may be compressed: what comes of them.
Result<FileBlocks> FileReader::unpack_blocks(const sst::Table& table, std::size_t* next,
                                             std::vector<sst::Handle>* handles) {
  const auto& all = table.data_blocks();
  const std::size_t first = *next;
  BRECCIA_TAKE(*next, end_of_stretch(table, first, piece_bytes_ / kPackedShare, kPackedBlocksMax));
  const std::uint64_t offset = all[first].handle.offset;
  stored_.resize(all[*next - 1].handle.end() - offset);
  const sst::FileRange range = table.range(offset, stored_.size(), stored_.data());
  BRECCIA_TRY(reader_.read(std::span(&range, 1)));
  FileBlocks blocks;
  blocks.is_checked = true;
  blocks.was_packed = true;
  room_.clear();
  std::string one;
  for (std::size_t b = first; b < *next; ++b) {
    if (b > first && room_.size() >= piece_bytes_) *next = b;  // it grew by more than most do
    if (b == *next) break;
    const sst::Handle& handle = all[b].handle;
    Slice contents;
    BRECCIA_TRY(
        table.open_data(handle, stored_.data() + (handle.offset - offset), &one, &contents));
    blocks.blocks.push_back({room_.size(), static_cast<std::uint32_t>(contents.size())});
    handles->push_back(handle);
    if (!room_.reserve(room_.size() + contents.size() + sst::algo::kPadBytes)) return no_memory();
    std::copy_n(contents.data(), contents.size(), room_.extend(contents.size()));
  }
  blocks.bytes = room_.size();
  std::fill_n(room_.extend(sst::algo::kPadBytes), sst::algo::kPadBytes, '\0');
  blocks.data = room_.data();
  return blocks;
}

Result<ResidentFilePtr> FileReader::read(const std::string& path, const GoesOn& goes_on) {
  return base::or_memory_limit([&]() -> Result<ResidentFilePtr> {
    BRECCIA_TAKE(const auto table, sst::Table::open(path));
    BRECCIA_TAKE(const Wanted wanted, wanted_by(*table));
    auto file = std::make_shared<ResidentFile>();
    file->is_packed = !table->is_plain();
    BRECCIA_TAKE(file->deleted, deleted_by(*table));
    BRECCIA_TAKE(file->bytes, MappedFile::map(table->range(0, table->bytes(), nullptr), unmapper_));
    for (std::size_t next = 0; next < table->data_blocks().size();) {
      BRECCIA_TRY(goes_on(wanted.memory_bytes));
      std::vector<sst::Handle> handles;
      BRECCIA_TAKE(const FileBlocks blocks, table->is_plain()
                                                ? read_blocks(*table, &next, &handles)
                                                : unpack_blocks(*table, &next, &handles));
      BRECCIA_TAKE(PiecePtr piece, backend_.make_piece(blocks));
      if (!file->pieces.empty() && piece->first_key() < file->pieces.back()->last_key()) {
        return Status::Corruption("entries are out of order", path);
      }
      file->pieces.push_back(std::move(piece));
      file->blocks.push_back(std::move(handles));
    }
    file->bytes->fetch_pages();  // which were all read just now
    return ResidentFilePtr(std::move(file));
  });
}

}  // namespace breccia::residency
