#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "sst/format.h"
#include "sst/key_room.h"
#include "sst/range_reader.h"

namespace breccia::sst {

/// What the index says of a data block.
struct DataBlock {
  Handle handle;
  Slice separator;  // not less than the block's keys, and less than those of the next
};

/// A file that holds a table, and what is said in it about its blocks. Nothing is believed before
/// its checksum is right and it lies within the file.
/// Shape   format_version 2 to 5, an index in one block. Compressed by none, Snappy, LZ4 or ZSTD.
/// Threads any.
class Table {
 public:
  /// Errors  IOError: no such file, or it cannot be read; Corruption: it is no such table, or is
  ///         broken; NotSupported: a table that is not read here; MemoryLimit.
  static Result<std::unique_ptr<Table>> open(const std::string& path);

  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  ~Table();

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] std::uint32_t version() const { return version_; }
  [[nodiscard]] ChecksumType checksum_type() const { return checksum_type_; }
  [[nodiscard]] const std::vector<DataBlock>& data_blocks() const { return data_blocks_; }
  /// By name: RocksDB's names of filters, properties, range deletions, dictionaries.
  [[nodiscard]] const std::map<std::string, Handle>& meta_blocks() const { return meta_blocks_; }
  [[nodiscard]] const Handle& metaindex() const { return metaindex_; }
  [[nodiscard]] const Handle& index() const { return index_; }
  [[nodiscard]] const std::map<std::string, std::string>& properties() const { return properties_; }
  /// A property that is a number; none if there is no such one.
  [[nodiscard]] std::optional<std::uint64_t> number(const std::string& property) const;
  /// Whether data blocks are stored as they are: none of them is compressed.
  [[nodiscard]] bool is_plain() const;
  /// Whether separators end in tags, as keys do.
  [[nodiscard]] bool has_tagged_separators() const { return has_tagged_separators_; }
  /// Where range deletions are; none if there are none.
  [[nodiscard]] std::optional<Handle> range_deletions() const;

  /// Reads a block. Its contents lie in `*room`.
  /// Errors  Corruption; NotSupported; IOError; MemoryLimit.
  Status read(const Handle& handle, std::string* room, Slice* contents) const;
  /// The same of a data block.
  Status read_data(const Handle& handle, std::string* room, Slice* contents) const;

  /// Bytes of the file, for whoever reads many blocks at once.
  [[nodiscard]] FileRange range(std::uint64_t offset, std::uint64_t bytes, char* to) const {
    return {file_, offset, bytes, to, &path_, is_in_memory_};
  }
  /// Checks a data block that was read with its trailer. Its contents lie there or in `*room`.
  /// Errors  as read_data.
  Status open_data(const Handle& handle, const char* stored, std::string* room,
                   Slice* contents) const;

 private:
  Table() = default;
  Status open_file();
  Status take_footer();
  Status take_metaindex();
  Status take_properties();
  Status take_patched_properties(const std::string& stored);
  Status keep_properties(const Slice& contents);
  Status take_index();
  /// Whether a block of that place may be there.
  [[nodiscard]] Status check_place(const Handle& handle) const;
  /// A block as it is stored, with its trailer.
  Status read_stored(const Handle& handle, std::string* stored) const;
  Status open_block(const Handle& handle, const char* stored, std::string* room,
                    Slice* contents) const;

  std::string path_;
  int file_ = -1;
  bool is_in_memory_ = false;
  std::uint64_t bytes_ = 0;
  std::uint32_t version_ = 0;
  ChecksumType checksum_type_ = ChecksumType::kNone;
  Handle metaindex_;
  Handle index_;
  std::map<std::string, Handle> meta_blocks_;
  std::map<std::string, std::string> properties_;
  bool has_tagged_separators_ = true;
  std::vector<DataBlock> data_blocks_;
  KeyRoom separators_;
};

/// Names of properties and blocks, as RocksDB writes them.
namespace names {
inline constexpr const char* kProperties = "rocksdb.properties";
inline constexpr const char* kRangeDeletions = "rocksdb.range_del";
inline constexpr const char* kDictionary = "rocksdb.compression_dict";
inline constexpr const char* kComparator = "rocksdb.comparator";
inline constexpr const char* kIndexType = "rocksdb.block.based.table.index.type";
inline constexpr const char* kIndexKeyIsUserKey = "rocksdb.index.key.is.user.key";
inline constexpr const char* kIndexValueIsDelta = "rocksdb.index.value.is.delta.encoded";
inline constexpr const char* kExternalVersion = "rocksdb.external_sst_file.version";
inline constexpr const char* kGlobalSequence = "rocksdb.external_sst_file.global_seqno";
}  // namespace names

}  // namespace breccia::sst
