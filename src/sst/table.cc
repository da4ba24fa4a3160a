#include "sst/table.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/memory.h"
#include "sst/block.h"
#include "sst/checksum.h"
#include "sst/decompress.h"

namespace breccia::sst {

namespace {

Status file_error(const char* what, const std::string& path) {
  return Status::IOError(fmt::format("cannot {} {}", what, path), std::strerror(errno));
}

/// Where the handles of a footer are.
constexpr std::size_t kHandlesEnd = 41;

/// Moves contents that lie in `*stored` into `*room`.
void keep_stored(std::string* stored, std::string* room, Slice* contents) {
  if (contents->data() != stored->data()) return;
  *room = std::move(*stored);
  *contents = Slice(room->data(), contents->size());
}

bool is_only_zeros(const Slice& bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != 0) return false;
  }
  return true;
}

}  // namespace

Table::~Table() {
  if (file_ >= 0) ::close(file_);
}

Result<std::unique_ptr<Table>> Table::open(const std::string& path) {
  return base::or_memory_limit([&]() -> Result<std::unique_ptr<Table>> {
    std::unique_ptr<Table> table(new Table);
    table->path_ = path;
    BRECCIA_TRY(table->open_file());
    BRECCIA_TRY(table->take_footer());
    BRECCIA_TRY(table->take_metaindex());
    BRECCIA_TRY(table->take_properties());
    BRECCIA_TRY(table->take_index());
    return table;
  });
}

Status Table::open_file() {
  file_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (file_ < 0) return file_error("open", path_);
  is_in_memory_ = lies_in_memory(file_);
  struct stat about = {};
  if (fstat(file_, &about) != 0) return file_error("read", path_);
  bytes_ = static_cast<std::uint64_t>(about.st_size);
  if (bytes_ >= kFooterBytes) return Status::OK();
  return Status::Corruption(fmt::format("{} bytes are no table", bytes_), path_);
}

Status Table::take_footer() {
  char footer[kFooterBytes];
  BRECCIA_TRY(read_range(range(bytes_ - kFooterBytes, kFooterBytes, footer)));
  const auto magic = load_little_endian<std::uint64_t>(footer + kFooterBytes - 8);
  if (magic != kTableMagic) {
    return Status::Corruption("the file ends as no block-based table does",
                              "it was cut, or is of another table format");
  }
  version_ = load_little_endian<std::uint32_t>(footer + kHandlesEnd);
  if (version_ < kVersionMin || version_ > kVersionMax) {
    return Status::NotSupported(fmt::format("format_version {}", version_), "2 to 5 are read");
  }
  checksum_type_ = static_cast<ChecksumType>(footer[0]);
  Input handles(Slice(footer + 1, kHandlesEnd - 1));
  if (!handles.handle(&metaindex_) || !handles.handle(&index_) || !is_only_zeros(handles.rest())) {
    return Status::Corruption("the footer is broken");
  }
  return Status::OK();
}

Status Table::check_place(const Handle& handle) const {
  const std::uint64_t end = bytes_ - kFooterBytes;
  if (handle.bytes > end || handle.offset > end || handle.end() > end) {
    return Status::Corruption(fmt::format("a block of {} bytes at {} does not lie in the file",
                                          handle.bytes, handle.offset));
  }
  if (handle.bytes > kBlockBytesMax) {
    return Status::NotSupported(fmt::format("a block of {} bytes", handle.bytes));
  }
  return Status::OK();
}

Status Table::read_stored(const Handle& handle, std::string* stored) const {
  BRECCIA_TRY(check_place(handle));
  stored->resize(handle.bytes + kTrailerBytes);
  return read_range(range(handle.offset, stored->size(), stored->data()));
}

Status Table::open_block(const Handle& handle, const char* stored, std::string* room,
                         Slice* contents) const {
  const Slice raw(stored, handle.bytes);
  const auto type = static_cast<Compression>(stored[handle.bytes]);
  const auto sum = load_little_endian<std::uint32_t>(stored + handle.bytes + 1);
  std::uint32_t own = 0;
  if (!block_checksum(checksum_type_, raw, &own)) {
    return Status::Corruption(
        fmt::format("unknown checksum type {}", static_cast<int>(checksum_type_)));
  }
  if (own != sum) {
    return Status::Corruption(fmt::format("checksum of the block at {}", handle.offset),
                              fmt::format("{:08x} in the file, {:08x} of it", sum, own));
  }
  return decompress(type, raw, room, contents);
}

Status Table::open_data(const Handle& handle, const char* stored, std::string* room,
                        Slice* contents) const {
  const auto type = static_cast<Compression>(stored[handle.bytes]);
  if (type != Compression::kNone && meta_blocks_.contains(names::kDictionary)) {
    return Status::NotSupported("blocks that are compressed with a dictionary");
  }
  return open_block(handle, stored, room, contents);
}

Status Table::read(const Handle& handle, std::string* room, Slice* contents) const {
  std::string stored;
  BRECCIA_TRY(read_stored(handle, &stored));
  BRECCIA_TRY(open_block(handle, stored.data(), room, contents));
  keep_stored(&stored, room, contents);
  return Status::OK();
}

Status Table::read_data(const Handle& handle, std::string* room, Slice* contents) const {
  std::string stored;
  BRECCIA_TRY(read_stored(handle, &stored));
  BRECCIA_TRY(open_data(handle, stored.data(), room, contents));
  keep_stored(&stored, room, contents);
  return Status::OK();
}

Status Table::take_metaindex() {
  std::string room;
  Slice contents;
  BRECCIA_TRY(read(metaindex_, &room, &contents));
  BlockEntries entries(contents, BlockEntries::Kind::kValues);
  while (entries.next()) {
    Input value(entries.value());
    Handle handle;
    if (!value.handle(&handle) || !value.rest().empty()) {
      return Status::Corruption("the metaindex is broken", entries.key().ToString());
    }
    meta_blocks_[entries.key().ToString()] = handle;
  }
  return entries.status();
}

Status Table::take_properties() {
  const auto found = meta_blocks_.find(names::kProperties);
  if (found == meta_blocks_.end()) return Status::Corruption("the table has no properties");
  std::string stored;
  BRECCIA_TRY(read_stored(found->second, &stored));
  std::string room;
  Slice contents;
  const Status status = open_block(found->second, stored.data(), &room, &contents);
  if (status.ok()) return keep_properties(contents);
  return take_patched_properties(stored).ok() ? Status::OK() : status;
}

/// An ingestion writes the file's sequence number into its properties, and leaves their checksum as
/// it was with zeros.
Status Table::take_patched_properties(const std::string& stored) {
  const Slice contents(stored.data(), stored.size() - kTrailerBytes);
  BRECCIA_TRY(keep_properties(contents));
  const auto found = properties_.find(names::kGlobalSequence);
  if (found == properties_.end() || found->second.size() != sizeof(std::uint64_t)) {
    return Status::Corruption("no ingested file");
  }
  std::string zeroed(contents.data(), contents.size() + 1);
  BlockEntries entries(contents, BlockEntries::Kind::kValues);
  while (entries.next()) {
    if (entries.key() != Slice(names::kGlobalSequence)) continue;
    const auto at = static_cast<std::size_t>(entries.value().data() - contents.data());
    zeroed.replace(at, sizeof(std::uint64_t), sizeof(std::uint64_t), '\0');
  }
  std::uint32_t own = 0;
  const auto sum = load_little_endian<std::uint32_t>(contents.data() + contents.size() + 1);
  const bool is_same =
      block_checksum(checksum_type_, Slice(zeroed.data(), contents.size()), &own) && own == sum;
  return is_same ? Status::OK() : Status::Corruption("checksum of the properties");
}

Status Table::keep_properties(const Slice& contents) {
  properties_.clear();
  BlockEntries entries(contents, BlockEntries::Kind::kValues);
  while (entries.next()) properties_[entries.key().ToString()] = entries.value().ToString();
  return entries.status();
}

std::optional<std::uint64_t> Table::number(const std::string& property) const {
  const auto found = properties_.find(property);
  std::uint64_t value = 0;
  if (found == properties_.end()) return std::nullopt;
  if (!Input(Slice(found->second)).varint(&value)) return std::nullopt;
  return value;
}

bool Table::is_plain() const {
  const auto compression = properties_.find("rocksdb.compression");
  return compression != properties_.end() && compression->second == "NoCompression";
}

std::optional<Handle> Table::range_deletions() const {
  const auto found = meta_blocks_.find(names::kRangeDeletions);
  if (found == meta_blocks_.end()) return std::nullopt;
  return found->second;
}

Status Table::take_index() {
  const auto type = properties_.find(names::kIndexType);
  if (type != properties_.end() && !is_only_zeros(Slice(type->second))) {
    return Status::NotSupported("an index of several blocks, or by hash or first key");
  }
  const bool has_deltas = number(names::kIndexValueIsDelta).value_or(0) != 0;
  has_tagged_separators_ = number(names::kIndexKeyIsUserKey).value_or(0) == 0;
  std::string room;
  Slice contents;
  BRECCIA_TRY(read(index_, &room, &contents));
  BlockEntries entries(contents,
                       has_deltas ? BlockEntries::Kind::kHandles : BlockEntries::Kind::kValues);
  // A block's entry takes more than that; what properties say may be wrong.
  constexpr std::uint64_t kEntryBytesMin = 3;
  data_blocks_.reserve(
      std::min(number("rocksdb.num.data.blocks").value_or(0), contents.size() / kEntryBytesMin));
  std::uint64_t end = 0;
  while (entries.next()) {
    Handle handle = entries.handle();
    if (!has_deltas) {
      Input value(entries.value());
      if (!value.handle(&handle) || !value.rest().empty()) {
        return Status::Corruption("the index is broken");
      }
    }
    if (has_tagged_separators_ && entries.key().size() < kTagBytes) {
      return Status::Corruption("a separator in the index is too short");
    }
    BRECCIA_TRY(check_place(handle));
    if (handle.offset < end) return Status::Corruption("blocks in the index overlap");
    end = handle.end();
    data_blocks_.push_back({handle, separators_.keep(entries.key())});
  }
  return entries.status();
}

}  // namespace breccia::sst
