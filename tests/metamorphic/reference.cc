#include "base/assert.h"
#include "option_sets.h"
#include "subject.h"

namespace breccia::metamorphic {

namespace {

rocksdb::WriteOptions without_log() {
  rocksdb::WriteOptions options;
  options.disableWAL = true;
  return options;
}

class Reference final : public Subject {
 public:
  explicit Reference(const model::Universe& universe)
      : Subject(universe), env_(rocksdb::NewMemEnv(rocksdb::Env::Default())) {
    rocksdb::Options options = database_options();
    options.env = env_.get();
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    std::vector<rocksdb::ColumnFamilyDescriptor> families;
    for (std::uint32_t family = 0; family < kFixedFamilies; ++family) {
      families.emplace_back(family_name(family), in_memory(family));
    }
    rocksdb::DB* db = nullptr;
    BRECCIA_ASSERT(rocksdb::DB::Open(options, "/reference", families, &handles_, &db).ok());
    db_.reset(db);
    for (std::uint32_t family = 0; family < kFixedFamilies; ++family) {
      families_[family] = Family{handles_[family]->GetID(), handles_[family]};
    }
  }
  ~Reference() override {
    for (auto* handle : handles_) db_->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
  }

 protected:
  Status write(const Op& op) override {
    auto* const handle = families_[op.family]->handle;
    switch (op.kind) {
      case Kind::kPut:
        return db_->Put(without_log(), handle, key(op.key), make_value(op.value));
      case Kind::kDelete:
        return db_->Delete(without_log(), handle, key(op.key));
      case Kind::kSingleDelete:
        return db_->SingleDelete(without_log(), handle, key(op.key));
      case Kind::kMerge:
        return db_->Merge(without_log(), handle, key(op.key), make_value(op.value));
      default:
        return db_->DeleteRange(without_log(), handle, key(op.key), key(op.end));
    }
  }

  Status get(const Op& op, std::string* value) override { return get_at(op, op.snapshot, value); }

  Status run_parts(const Op& op, History* history) override {
    if (op.kind == Kind::kRange) {
      run_range(op, op.snapshot, history);
      return Status::OK();
    }
    for (std::uint32_t again = 0; again <= op.number; ++again) {
      for (const Op& part : op.parts) BRECCIA_TRY(run_part(part, op.snapshot, history));
    }
    return Status::OK();
  }

  void take_snapshot(std::uint32_t slot) override {
    snapshots_[slot] = {{families_}, db_->GetSnapshot()};
  }
  void release_snapshot(std::uint32_t slot) override {
    db_->ReleaseSnapshot(snapshots_[slot].at);
    snapshots_[slot] = {};
  }

  std::unique_ptr<rocksdb::Iterator> iterate(const rocksdb::ReadOptions& options,
                                             std::uint32_t family,
                                             std::uint32_t snapshot) override {
    rocksdb::ReadOptions at = options;
    if (snapshot != kNone) at.snapshot = snapshots_[snapshot].at;
    return std::unique_ptr<rocksdb::Iterator>(
        db_->NewIterator(at, family_at(family, snapshot).handle));
  }

  Status create_family(std::uint32_t family) override {
    rocksdb::ColumnFamilyHandle* handle = nullptr;
    BRECCIA_TRY(db_->CreateColumnFamily(in_memory(family), family_name(family), &handle));
    handles_.push_back(handle);
    families_[family] = Family{handle->GetID(), handle};
    return Status::OK();
  }
  Status drop_family(const Op& op) override {
    const Status status = db_->DropColumnFamily(families_[op.family]->handle);
    families_[op.family].reset();  // readers may still need the handle
    return status;
  }

  Status flush() override { return Status::OK(); }
  Status compact() override { return Status::OK(); }
  Status sync() override { return Status::OK(); }
  Status reopen(const Op& op, History* history) override {
    for (std::uint32_t family = 0; op.kind == Kind::kPlain && family < kFamilies; ++family) {
      if (!families_[family].has_value()) continue;
      const auto iterator = iterate(rocksdb::ReadOptions(), family, kNone);
      add_entries(iterator.get(), /*backwards=*/false, history);
    }
    history->add("reopen", Status::OK());
    return Status::OK();
  }

 private:
  struct Snapshot : Taken {
    const rocksdb::Snapshot* at = nullptr;
  };

  /// Nothing leaves the memtable, so that the answers are those of RocksDB's simplest part.
  static rocksdb::ColumnFamilyOptions in_memory(std::uint32_t family) {
    rocksdb::ColumnFamilyOptions options = family_options(family);
    options.write_buffer_size = 1 << 30;
    options.arena_block_size = 64 << 10;
    return options;
  }

  [[nodiscard]] const Family& family_at(std::uint32_t family, std::uint32_t snapshot) const {
    return *(snapshot == kNone ? families_ : snapshots_[snapshot].families)[family];
  }

  Status run_part(const Op& part, std::uint32_t snapshot, History* history) {
    if (is_write(part.kind)) return write(part);
    if (part.kind == Kind::kRange) {
      run_range(part, snapshot, history);
    } else {
      std::string value;
      const Status status = get_at(part, snapshot, &value);
      history->add_value(status.code(), value);
    }
    return Status::OK();
  }

  Status get_at(const Op& op, std::uint32_t snapshot, std::string* value) {
    rocksdb::ReadOptions options;
    if (snapshot != kNone) options.snapshot = snapshots_[snapshot].at;
    return db_->Get(options, family_at(op.family, snapshot).handle, key(op.key), value);
  }

  void run_range(const Op& op, std::uint32_t snapshot, History* history) {
    const Slice end = key(op.end);
    rocksdb::ReadOptions options;
    options.iterate_upper_bound = &end;
    const auto iterator = iterate(options, op.family, snapshot);
    add_range(iterator.get(), key(op.key), op.number, history);
  }

  const std::unique_ptr<rocksdb::Env> env_;
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> handles_;
  std::array<Snapshot, kSnapshots> snapshots_;
};

}  // namespace

std::unique_ptr<Subject> make_reference(const model::Universe& universe) {
  return std::make_unique<Reference>(universe);
}

}  // namespace breccia::metamorphic
