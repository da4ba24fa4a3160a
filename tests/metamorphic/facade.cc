#include <breccia/optimistic_transaction_db.h>
#include <breccia/transaction_db.h>

#include <cstdio>

#include "base/assert.h"
#include "database.h"
#include "ground.h"

namespace breccia::metamorphic {

namespace {

class FacadeSubject final : public DatabaseSubject {
 public:
  FacadeSubject(const model::Universe& universe, Api api, std::uint32_t set, std::uint64_t seed)
      : DatabaseSubject(universe, api), ground_(set, seed) {
    for (std::uint32_t family = 0; family < kFixedFamilies; ++family) {
      families_[family] = Family{};
    }
    const Status status = open(/*create=*/true);
    if (!status.ok()) std::fprintf(stderr, "open: %s\n", status.ToString().c_str());
    BRECCIA_ASSERT(status.ok());
  }
  ~FacadeSubject() override { close(); }

 protected:
  [[nodiscard]] rocksdb::WriteOptions write_options(Durability durability) const override {
    rocksdb::WriteOptions options;
    options.disableWAL = durability == Durability::kNone;
    options.sync = durability == Durability::kSync;
    return options;
  }
  [[nodiscard]] rocksdb::ColumnFamilyOptions options_of(std::uint32_t family) const override {
    return ground_.options_of(family);
  }
  void wrote(const Op& op, const Status& status) override {
    ground_.note_write(op.durability, status);
  }

  Status multi_get(const Op& op, History* history) override {
    std::vector<Slice> keys;
    for (const Op& part : op.parts) keys.push_back(key(part.key));
    std::vector<rocksdb::PinnableSlice> values(keys.size());
    std::vector<Status> statuses(keys.size());
    db()->MultiGet(rocksdb::ReadOptions(), handle(0), keys.size(), keys.data(), values.data(),
                   statuses.data());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      history->add_value(statuses[i].code(), values[i]);
    }
    return Status::OK();
  }

  Status submit(const Op& op, History* history) override {
    auto* const rocks = static_cast<Rocks*>(db()->GetBaseDB());
    Batch batch = op.parts.size() % 2 == 0 ? Batch() : rocks->NewBatch();
    for (const Op& part : op.parts) {
      BRECCIA_TRY(add_request(part, families_[part.family]->id, &batch));
    }
    const Status status = rocks->Submit(write_options(op.durability), &batch);
    if (batch.writes() > 0) wrote(op, status);
    if (status.ok()) add_results(op.parts, batch, history);
    return status;
  }

  Status flush() override {
    ground_.note_sync();
    return db()->Flush(rocksdb::FlushOptions(), handle(0));
  }
  Status compact() override {
    BRECCIA_TRY(flush());
    for (const auto& family : families_) {
      if (!family.has_value()) continue;
      BRECCIA_TRY(
          db()->CompactRange(rocksdb::CompactRangeOptions(), family->handle, nullptr, nullptr));
    }
    return Status::OK();
  }
  Status sync() override {
    ground_.note_sync();
    return db()->SyncWAL();
  }

  Status reopen(const Op& op, History* history) override {
    if (op.kind == Kind::kCrash) {
      BRECCIA_TRY(ground_.crash(/*copied=*/op.variant, [&] { return db()->SyncWAL(); }));
    } else if (op.kind == Kind::kPlain || op.variant) {
      BRECCIA_TRY(flush());
    }
    close();
    if (op.kind == Kind::kPlain) {
      BRECCIA_TRY(ground_.scan_files(families_, [&](rocksdb::Iterator* iterator) {
        add_entries(iterator, /*backwards=*/false, history);
      }));
    }
    ground_.turn(op.number);
    const Status status = open(/*create=*/false);
    history->add("reopen", status);
    return status;
  }

 private:
  /// Families that are missing, or are there and should not be, are errors.
  Status open(bool create) {
    Options options = ground_.start();
    options.rocksdb.create_missing_column_families = create;
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    if (api() == Api::kLocking) {
      rocksdb::TransactionDB* db = nullptr;
      BRECCIA_TRY(TransactionDB::Open(options, without_waiting(), ground_.path(),
                                      ground_.descriptors(families_), &handles, &db));
      take(db, std::move(handles));
      return Status::OK();
    }
    rocksdb::OptimisticTransactionDB* db = nullptr;
    BRECCIA_TRY(OptimisticTransactionDB::Open(options, OptimisticTransactionDBOptions(),
                                              ground_.path(), ground_.descriptors(families_),
                                              &handles, &db));
    take(db, std::move(handles));
    return Status::OK();
  }

  Ground ground_;
};

}  // namespace

std::unique_ptr<Subject> make_facade(const model::Universe& universe, Api api, std::uint32_t set,
                                     std::uint64_t seed) {
  return std::make_unique<FacadeSubject>(universe, api, set, seed);
}

}  // namespace breccia::metamorphic
