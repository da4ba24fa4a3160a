#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "exec/device.h"
#include "residency/place.h"
#include "runs/refs.h"

/// The verbs on keys of files that lie in a device's memory: what happens inside is one source
/// (residency/algo/), compiled for the host, for CUDA and for the simulator.

namespace breccia::residency {

/// Neighbouring data blocks of a file, uncompressed, in the host's memory.
/// Shape   data[bytes + sst::algo::kPadBytes], what stands in the file from `offset` on, or, if
///         they were packed, what came of each block; blocks in file order, with their trailers
///         behind them unless the host has checked them. At most kPackedBlocksMax that were packed.
/// Owner   the caller's, until the call returns; in memory that the device reaches at full speed.
struct FileBlocks {
  struct Block {
    std::uint64_t at = 0;  // in data
    std::uint32_t bytes = 0;
  };
  const char* data = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;
  std::vector<Block> blocks;
  bool is_checked = false;
  bool was_packed = false;
};

/// The keys of neighbouring blocks of a file in a backend's memory, in order, and of each entry
/// where its value lies. Immutable; freed with its last reference.
/// Threads any.
class Piece {
 public:
  virtual ~Piece() = default;
  [[nodiscard]] virtual std::uint64_t count() const = 0;
  /// Bytes that it occupies in its backend's memory.
  [[nodiscard]] virtual std::uint64_t memory_bytes() const = 0;
  /// User keys of its first and its last entry.
  [[nodiscard]] virtual const std::string& first_key() const = 0;
  [[nodiscard]] virtual const std::string& last_key() const = 0;
};
using PiecePtr = std::shared_ptr<const Piece>;

/// A range of keys of a level: those of a piece, or, without one, keys that only RocksDB knows.
struct LevelPart {
  PiecePtr piece;
  std::string first_key;
  std::string last_key;
};
/// Parts with ascending keys, of which neighbours have at most a key in common.
using Level = std::vector<LevelPart>;

/// Levels, newest first, as a backend searches them. Immutable; freed with its last reference.
/// Owner   holds the pieces.
/// Threads any.
class LevelTable {
 public:
  virtual ~LevelTable() = default;
};
using LevelTablePtr = std::shared_ptr<const LevelTable>;

/// Lookups that a device is at. What they were given outlasts them.
/// Threads one owner.
class Search {
 public:
  /// Waits for it.
  virtual ~Search() = default;
  /// Waits until all is found.
  /// Errors  those of the device; what was to be found is garbage then.
  [[nodiscard]] virtual Status finish() = 0;
};
using SearchPtr = std::unique_ptr<Search>;

/// The verbs, for one tenant of a device.
/// Threads any number, of all calls.
class Backend {
 public:
  explicit Backend(exec::TenantPtr tenant) : tenant_(std::move(tenant)) {}
  virtual ~Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  [[nodiscard]] exec::Tenant& tenant() const { return *tenant_; }
  [[nodiscard]] exec::Device& device() const { return tenant_->device(); }

  /// Decodes blocks, checks them, and keeps their keys and places.
  /// Errors  Corruption: what the blocks hold; NotSupported: entries that are neither values nor
  ///         deletions, or a key that is too long; MemoryLimit; those of the device.
  [[nodiscard]] virtual Result<PiecePtr> make_piece(const FileBlocks& blocks) = 0;

  /// Shape   pieces of this backend; keys of parts ascend within a level.
  /// Errors  MemoryLimit; those of the device.
  [[nodiscard]] virtual Result<LevelTablePtr> make_table(std::span<const Level> levels) = 0;

  /// For keys which[i] of `keys` what the newest level says that has the key; without `which` for
  /// all, which are `count`. A GPU goes on while the caller does something else.
  /// Shape   which[count] and found in host memory; keys there, too, with skip == 0.
  /// Errors  MemoryLimit; those of the device.
  [[nodiscard]] virtual Result<SearchPtr> find(const LevelTable& table,
                                               const record::KeyColumnsRef& keys,
                                               const std::uint32_t* which, std::uint64_t count,
                                               const FoundRef& found) = 0;

  /// Where each level's entries begin that are not below each of `keys`, as algo::Seek says it.
  /// Shape   found[levels * keys.count] in host memory; keys there, too, with skip == 0.
  /// Errors  as find().
  [[nodiscard]] virtual Result<SearchPtr> seek(const LevelTable& table,
                                               const record::KeyColumnsRef& keys,
                                               const FoundRef& found) = 0;

  /// find() for one key, on the calling thread, where the host reads the table.
  /// Shape   device().host_reads().
  [[nodiscard]] virtual std::uint64_t find_one(const LevelTable& table,
                                               const record::KeyColumnsRef& key,
                                               std::uint32_t* part) = 0;

 private:
  const exec::TenantPtr tenant_;
};

/// Takes the verbs in as a tenant of `device`.
/// Errors  those of Device::admit.
Result<std::shared_ptr<Backend>> make_backend(const exec::DevicePtr& device,
                                              exec::TenantOptions options);

}  // namespace breccia::residency
