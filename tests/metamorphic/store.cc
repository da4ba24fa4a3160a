#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <latch>

#include "base/assert.h"
#include "base/log.h"
#include "machine.h"
#include "option_sets.h"
#include "rocks/engine.h"
#include "subject.h"
#include "support/folder.h"
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

class StoreSubject final : public Subject {
 public:
  StoreSubject(const model::Universe& universe, std::uint32_t set, std::uint64_t seed)
      : Subject(universe), folder_(testing::Place::kMemory), set_(set), seed_(seed) {
    for (std::uint32_t family = 0; family < kFixedFamilies; ++family) {
      families_[family] = Family{};
    }
    log().set_level(spdlog::level::off);  // crashes are no news here
    const Status status = open();
    if (!status.ok()) std::fprintf(stderr, "open: %s\n", status.ToString().c_str());
    BRECCIA_ASSERT(status.ok());
  }
  ~StoreSubject() override { engine_.reset(); }

 protected:
  Status write(const Op& op) override {
    const Status status = write_alone(op);
    note_write(op.durability, status);
    return status;
  }

  Status get(const Op& op, std::string* value) override {
    if (op.snapshot == kNone && op.family == 0) return engine_->Get(key(op.key), value);
    rocksdb::PinnableSlice found;
    const rocks::Pin pin = pin_of(op.snapshot);
    BRECCIA_TRY(engine_->get(pin, id_of(op.family, op.snapshot), key(op.key), &found, nullptr));
    value->assign(found.data(), found.size());
    return Status::OK();
  }

  Status run_parts(const Op& op, History* history) override {
    if (op.kind == Kind::kMultiGet) return run_multi_get(op, history);
    const std::vector<Op> alone{op};
    const std::vector<Op>& parts = op.kind == Kind::kRange ? alone : op.parts;
    Batch batch = parts.size() % 2 == 0 ? Batch() : engine_->NewBatch();
    for (const Op& part : parts) BRECCIA_TRY(add(part, op.snapshot, &batch));
    if (op.kind == Kind::kRead || op.snapshot != kNone) {
      BRECCIA_TRY(engine_->read(pin_of(op.snapshot), &batch.requests()));
      add_results(parts, batch, history);
      return Status::OK();
    }
    const std::uint32_t again = op.kind == Kind::kBatch ? op.number : 0;
    for (std::uint32_t i = 0; i <= again; ++i) {
      BRECCIA_TRY(submit(op, &batch));
      add_results(parts, batch, history);
    }
    return Status::OK();
  }

  void take_snapshot(std::uint32_t slot) override {
    snapshots_[slot] = {{families_}, engine_->pin()};
  }
  void release_snapshot(std::uint32_t slot) override { snapshots_[slot] = {}; }

  std::unique_ptr<rocksdb::Iterator> iterate(const rocksdb::ReadOptions& options,
                                             std::uint32_t family,
                                             std::uint32_t snapshot) override {
    std::function<rocks::Pin()> repin;
    if (snapshot == kNone) repin = [this] { return engine_->pin(); };
    return engine_->iterate(options, id_of(family, snapshot), pin_of(snapshot), std::move(repin));
  }

  Status create_family(std::uint32_t family) override {
    auto created = engine_->create_family(family_name(family), options_of(family));
    BRECCIA_TRY(created.status());
    families_[family] = Family{created.value()->GetID(), nullptr};
    return Status::OK();
  }
  Status drop_family(const Op& op) override {
    const FamilyId id = families_[op.family]->id;
    families_[op.family].reset();
    return op.variant ? engine_->drop_family(id, [] {}) : engine_->DropFamily(id);
  }

  Status flush() override {
    unlogged_ = false;
    return engine_->Flush();
  }
  Status compact() override {
    BRECCIA_TRY(flush());
    for (const auto& family : engine_->below().families()) {
      BRECCIA_TRY(engine_->below().db()->CompactRange(rocksdb::CompactRangeOptions(), family.get(),
                                                      nullptr, nullptr));
    }
    return Status::OK();
  }
  Status sync() override {
    unlogged_ = false;
    return engine_->SyncLog();
  }

  Status reopen(const Op& op, History* history) override {
    if (op.kind == Kind::kCrash) {
      BRECCIA_TRY(crash(/*copied=*/op.variant));
    } else if (op.kind == Kind::kPlain || op.variant) {
      BRECCIA_TRY(flush());
    }
    engine_.reset();
    machine_.reset();
    if (op.kind == Kind::kPlain) BRECCIA_TRY(scan_files(history));
    set_ = (set_ + op.number) % static_cast<std::uint32_t>(option_sets().size());
    unlogged_ = false;
    const Status status = open();
    history->add("reopen", status);
    return status;
  }

 private:
  struct Snapshot : Taken {
    rocks::Pin pin;
  };

  [[nodiscard]] std::string path() const { return folder_ / ("store" + std::to_string(folders_)); }

  [[nodiscard]] rocksdb::ColumnFamilyOptions options_of(std::uint32_t family) const {
    const OptionSet& set = option_sets()[set_];
    rocksdb::ColumnFamilyOptions options = family_options(family);
    options.compaction_style = set.compaction;
    options.level0_file_num_compaction_trigger = set.level0_files;
    return options;
  }

  Status open() {
    const OptionSet& set = option_sets()[set_];
    machine_ = std::make_unique<Machine>(files_of(set.log_files));
    Options options = store_options(set, ++seed_, &machine_->faults());
    options.log_files = machine_->log_files();
    options.rocksdb.env = machine_->env();
    for (std::uint32_t family = 1; family < kFamilies; ++family) {
      if (!families_[family].has_value()) continue;
      options.families.emplace_back(family_name(family), options_of(family));
    }
    BRECCIA_TRY(rocks::Engine::open(options, path(), &engine_));
    return find_families();
  }

  /// The families that should be there, and no others.
  Status find_families() {
    FamilyTable found;
    for (const auto& [name, id] : engine_->Families()) {
      const std::uint32_t family = family_of(name);
      if (family == kNone || !families_[family].has_value()) {
        return Status::Corruption("there is a family " + name);
      }
      found[family] = Family{id, nullptr};
    }
    for (std::uint32_t family = 0; family < kFamilies; ++family) {
      if (found[family].has_value() == families_[family].has_value()) continue;
      return Status::Corruption("there is no family " + family_name(family));
    }
    families_ = found;
    return Status::OK();
  }

  /// Stops all writing, as a kill does. What was acknowledged without a log is no part of the
  /// promise, so it is logged first.
  Status crash(bool copied) {
    if (unlogged_) BRECCIA_TRY(engine_->SyncLog());
    machine_->crash();
    if (copied) {
      const std::string before = path();
      ++folders_;
      testing::copy_sparse(before, path());
    }
    return Status::OK();
  }

  /// What RocksDB alone finds in the files.
  Status scan_files(History* history) {
    std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
    for (std::uint32_t family = 0; family < kFamilies; ++family) {
      if (families_[family].has_value()) {
        descriptors.emplace_back(family_name(family), options_of(family));
      }
    }
    rocksdb::DB* opened = nullptr;
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    BRECCIA_TRY(
        rocksdb::DB::OpenForReadOnly(database_options(), path(), descriptors, &handles, &opened));
    const std::unique_ptr<rocksdb::DB> db(opened);
    for (auto* handle : handles) {
      const std::unique_ptr<rocksdb::Iterator> iterator(
          db->NewIterator(rocksdb::ReadOptions(), handle));
      add_entries(iterator.get(), /*backwards=*/false, history);
    }
    for (auto* handle : handles) BRECCIA_TRY(db->DestroyColumnFamilyHandle(handle));
    return Status::OK();
  }

  Status write_alone(const Op& op) {
    const WriteOptions options{op.durability};
    const FamilyId family = families_[op.family]->id;
    const Slice at = key(op.key);
    switch (op.kind) {
      case Kind::kPut:
        return family == kDefaultFamily
                   ? engine_->Put(options, at, make_value(op.value))
                   : engine_->write_one(options, wal::Op::kPut, family, at, make_value(op.value));
      case Kind::kDelete:
        return family == kDefaultFamily
                   ? engine_->Delete(options, at)
                   : engine_->write_one(options, wal::Op::kDelete, family, at, Slice());
      case Kind::kSingleDelete:
        return engine_->write_one(options, wal::Op::kSingleDelete, family, at, Slice());
      case Kind::kMerge:
        return family == kDefaultFamily
                   ? engine_->Merge(options, at, make_value(op.value))
                   : engine_->write_one(options, wal::Op::kMerge, family, at, make_value(op.value));
      default:
        return engine_->write_one(options, wal::Op::kDeleteRange, family, at, key(op.end));
    }
  }

  void note_write(Durability durability, const Status& status) {
    if (status.ok()) unlogged_ = durability == Durability::kNone;
  }

  [[nodiscard]] rocks::Pin pin_of(std::uint32_t snapshot) const {
    return snapshot == kNone ? engine_->pin() : snapshots_[snapshot].pin;
  }
  [[nodiscard]] FamilyId id_of(std::uint32_t family, std::uint32_t snapshot) const {
    return (snapshot == kNone ? families_ : snapshots_[snapshot].families)[family]->id;
  }

  Status add(const Op& part, std::uint32_t snapshot, Batch* batch) {
    const FamilyId family = id_of(part.family, snapshot);
    const Slice at = key(part.key);
    switch (part.kind) {
      case Kind::kPut:
        return batch->Put(family, at, make_value(part.value));
      case Kind::kDelete:
        return batch->Delete(family, at);
      case Kind::kSingleDelete:
        return batch->SingleDelete(family, at);
      case Kind::kMerge:
        return batch->Merge(family, at, make_value(part.value));
      case Kind::kDeleteRange:
        return batch->DeleteRange(family, at, key(part.end));
      case Kind::kGet:
        return batch->Get(family, at);
      default:
        return batch->Range(family, at, key(part.end), part.number);
    }
  }

  Status submit(const Op& op, Batch* batch) {
    const Status status =
        op.variant ? submit_async({op.durability}, batch) : engine_->Submit({op.durability}, batch);
    if (batch->writes() > 0) note_write(op.durability, status);
    return status;
  }

  Status submit_async(const WriteOptions& options, Batch* batch) {
    Status status;
    std::latch done(1);
    engine_->SubmitAsync(options, batch, [&](const Status& submitted) {
      status = submitted;
      done.count_down();
    });
    done.wait();
    return status;
  }

  Status run_multi_get(const Op& op, History* history) {
    std::vector<Slice> keys;
    for (const Op& part : op.parts) keys.push_back(key(part.key));
    std::vector<std::string> values;
    const std::vector<Status> statuses = engine_->MultiGet(keys, &values);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      history->add_value(statuses[i].code(), values[i]);
    }
    return Status::OK();
  }

  static Slice value_of(const Batch& batch, std::size_t i) {
    return batch.code(i) == Status::Code::kOk ? batch.value(i) : Slice();
  }

  static void add_results(const std::vector<Op>& parts, const Batch& batch, History* history) {
    std::size_t read = 0;
    std::size_t range = 0;
    for (const Op& part : parts) {
      if (part.kind == Kind::kGet) {
        history->add_value(batch.code(read), value_of(batch, read));
        ++read;
      } else if (part.kind == Kind::kRange) {
        add_range_result(batch, range++, history);
      }
    }
  }

  static void add_range_result(const Batch& batch, std::size_t i, History* history) {
    for (std::size_t j = 0; j < batch.range_size(i); ++j) {
      const auto [found, value] = batch.range_entry(i, j);
      history->add_entry(found, value);
    }
    history->add_end(batch.range_code(i));
  }

  const testing::Folder folder_;
  std::uint32_t set_;
  std::uint64_t seed_;
  std::uint64_t folders_ = 0;
  bool unlogged_ = false;  // the last write was not logged
  std::unique_ptr<Machine> machine_;
  std::unique_ptr<rocks::Engine> engine_;
  std::array<Snapshot, kSnapshots> snapshots_;
};

}  // namespace

std::unique_ptr<Subject> make_store(const model::Universe& universe, std::uint32_t set,
                                    std::uint64_t seed) {
  return std::make_unique<StoreSubject>(universe, set, seed);
}

}  // namespace breccia::metamorphic
