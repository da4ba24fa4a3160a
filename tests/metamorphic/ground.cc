#include "ground.h"

#include "base/log.h"
#include "wal/real_files.h"

namespace breccia::metamorphic {

namespace {

std::shared_ptr<wal::Files> files_of(LogFiles kind) {
  switch (kind) {
    case LogFiles::kPwrite:
      return wal::real_files_with(wal::Engine::kPwrite, /*force_buffered=*/true);
    case LogFiles::kRing:
      return wal::real_files_with(wal::Engine::kRing, /*force_buffered=*/true);
    case LogFiles::kMapped:
      break;
  }
  return wal::real_files();
}

}  // namespace

Ground::Ground(std::uint32_t set, std::uint64_t seed)
    : folder_(testing::Place::kMemory), set_(set), seed_(seed) {
  set_log_level(LogLevel::kError);  // crashes are no news here
}

rocksdb::ColumnFamilyOptions Ground::options_of(std::uint32_t family) const {
  const OptionSet& set = option_sets()[set_];
  rocksdb::ColumnFamilyOptions options = family_options(family);
  options.compaction_style = set.compaction;
  options.level0_file_num_compaction_trigger = set.level0_files;
  return options;
}

std::vector<rocksdb::ColumnFamilyDescriptor> Ground::descriptors(
    const FamilyTable& families) const {
  std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
  for (std::uint32_t family = 0; family < kFamilies; ++family) {
    if (!families[family].has_value()) continue;
    descriptors.emplace_back(family_name(family), options_of(family));
  }
  return descriptors;
}

Options Ground::start() {
  const OptionSet& set = option_sets()[set_];
  machine_ = std::make_unique<Machine>(files_of(set.log_files));
  Options options = store_options(set, ++seed_, &machine_->fake_gpu());
  options.rocksdb.env = machine_->env();
  unlogged_ = false;
  return options;
}

void Ground::turn(std::uint32_t sets) {
  set_ = (set_ + sets) % static_cast<std::uint32_t>(option_sets().size());
}

void Ground::note_write(Durability durability, const Status& status) {
  if (status.ok()) unlogged_ = durability == Durability::kNone;
}

Status Ground::crash(bool copied, const std::function<Status()>& sync) {
  if (unlogged_) BRECCIA_TRY(sync());
  machine_->crash();
  if (copied) {
    const std::string before = path();
    ++folders_;
    testing::copy_sparse(before, path());
  }
  return Status::OK();
}

Status Ground::scan_files(const FamilyTable& families, const Visit& visit) const {
  rocksdb::DB* opened = nullptr;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  BRECCIA_TRY(rocksdb::DB::OpenForReadOnly(database_options(), path(), descriptors(families),
                                           &handles, &opened));
  const std::unique_ptr<rocksdb::DB> db(opened);
  for (auto* handle : handles) {
    const std::unique_ptr<rocksdb::Iterator> iterator(
        db->NewIterator(rocksdb::ReadOptions(), handle));
    visit(iterator.get());
  }
  for (auto* handle : handles) BRECCIA_TRY(db->DestroyColumnFamilyHandle(handle));
  return Status::OK();
}

}  // namespace breccia::metamorphic
