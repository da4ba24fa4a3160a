#pragma once

#include <functional>
#include <memory>
#include <string>

#include "machine.h"
#include "option_sets.h"
#include "subject.h"
#include "support/folder.h"

namespace breccia::metamorphic {

/// Where a store lives: its folder, the option set of its present life, and the machine under it.
///
/// Owner   lives longer than the store; the machine as long as start() says.
class Ground {
 public:
  Ground(std::uint32_t set, std::uint64_t seed);

  [[nodiscard]] std::string path() const { return folder_ / ("store" + std::to_string(folders_)); }
  [[nodiscard]] rocksdb::ColumnFamilyOptions options_of(std::uint32_t family) const;
  /// The families that are there, with their options; the default one is the first.
  [[nodiscard]] std::vector<rocksdb::ColumnFamilyDescriptor> descriptors(
      const FamilyTable& families) const;

  /// Puts a new machine under the store, which is closed, and returns the options to open it with.
  [[nodiscard]] Options start();
  /// The store's next life is that of another option set.
  void turn(std::uint32_t sets);

  /// To be told of every write, so that a crash knows what was not logged.
  void note_write(Durability durability, const Status& status);
  void note_sync() { unlogged_ = false; }

  /// Stops all writing, as a kill does. What was acknowledged without a log is no part of the
  /// promise, so `sync` logs it first. `copied`: the next life is that of a copy.
  Status crash(bool copied, const std::function<Status()>& sync);

  using Visit = std::function<void(rocksdb::Iterator*)>;
  /// Shows what RocksDB alone finds in the files of a store that is closed, family by family.
  Status scan_files(const FamilyTable& families, const Visit& visit) const;

 private:
  const testing::Folder folder_;
  std::uint32_t set_;
  std::uint64_t seed_;
  std::uint64_t folders_ = 0;
  bool unlogged_ = false;  // the last write was not logged
  std::unique_ptr<Machine> machine_;
};

}  // namespace breccia::metamorphic
