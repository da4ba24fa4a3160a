#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "database.h"
#include "option_sets.h"

namespace breccia::metamorphic {

namespace {

class Reference : public DatabaseSubject {
 public:
  Reference(const model::Universe& universe, Api api)
      : DatabaseSubject(universe, api), env_(rocksdb::NewMemEnv(rocksdb::Env::Default())) {
    rocksdb::Options options = database_options();
    options.env = env_.get();
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    std::vector<rocksdb::ColumnFamilyDescriptor> families;
    for (std::uint32_t family = 0; family < kFixedFamilies; ++family) {
      families.emplace_back(family_name(family), in_memory(family));
      families_[family] = Family{};
    }
    open(options, families);
  }
  ~Reference() override { close(); }

 protected:
  [[nodiscard]] rocksdb::WriteOptions write_options(Durability) const override {
    rocksdb::WriteOptions options;
    options.disableWAL = true;
    return options;
  }
  [[nodiscard]] rocksdb::ColumnFamilyOptions options_of(std::uint32_t family) const override {
    return in_memory(family);
  }
  void wrote(const Op&, const Status&) override {}
  Status multi_get(const Op& op, History* history) override {
    for (const Op& part : op.parts) BRECCIA_TRY(run_part(part, kNone, history));
    return Status::OK();
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
  void open(const rocksdb::Options& options,
            const std::vector<rocksdb::ColumnFamilyDescriptor>& families) {
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    if (api() == Api::kLocking) {
      rocksdb::TransactionDB* db = nullptr;
      const Status status = rocksdb::TransactionDB::Open(options, without_waiting(), "/reference",
                                                         families, &handles, &db);
      BRECCIA_ASSERT(status.ok());
      return take(db, std::move(handles));
    }
    rocksdb::OptimisticTransactionDBOptions optimistic;
    optimistic.occ_lock_buckets = 1;  // of a million, to make them takes longer than a list
    rocksdb::OptimisticTransactionDB* db = nullptr;
    const Status status = rocksdb::OptimisticTransactionDB::Open(options, optimistic, "/reference",
                                                                 families, &handles, &db);
    BRECCIA_ASSERT(status.ok());
    take(db, std::move(handles));
  }

  /// Nothing leaves the memtable, so that the answers are those of RocksDB's simplest part.
  static rocksdb::ColumnFamilyOptions in_memory(std::uint32_t family) {
    rocksdb::ColumnFamilyOptions options = family_options(family);
    options.write_buffer_size = 1 << 30;
    options.arena_block_size = 64 << 10;
    return options;
  }

  const std::unique_ptr<rocksdb::Env> env_;
};

/// RocksDB, and a Store's transactions in words of it: what they collect is written one after the
/// other when they close, unless there is a conflict by the rule of breccia/transaction.h.
/// RocksDB's own transactions know no conflicts of ranges and range deletions.
class StoreReference final : public Reference {
 public:
  explicit StoreReference(const model::Universe& universe) : Reference(universe, Api::kStore) {}

 protected:
  void wrote(const Op& op, const Status& status) override {
    if (!status.ok()) return;
    for (const Op& part : op.parts) wrote(part, status);
    if (!is_write(op.kind)) return;
    Keys keys{op.family, key(op.key).ToString(), ""};
    keys.end = op.kind == Kind::kDeleteRange ? key(op.end).ToString() : after(keys.begin);
    written_.push_back(std::move(keys));
  }

  void begin(const Op& op) override {
    open_[op.transaction] = {db()->GetSnapshot(), written_.size(), {}, {}};
  }
  void roll_back(std::uint32_t transaction) override { end(transaction); }

  Status run_within(const Op& op, History* history) override {
    Open& open = open_[op.transaction];
    for (const Op& part : op.parts) {
      if (is_write(part.kind) || !part.variant) {
        open.parts.push_back(part);
      } else if (part.kind == Kind::kGet) {
        look_up(part, &open, history);
      } else {
        look_over(part, &open, history);
      }
    }
    return Status::OK();
  }

  void commit(const Op& op, History* history) override {
    const Open open = std::move(open_[op.transaction]);
    open_[op.transaction].snapshot = open.snapshot;
    end(op.transaction);
    const Status status = conflicts(open) ? Status::Busy() : Status::OK();
    history->add("commit", status);
    for (const Op& part : open.parts) {
      if (status.ok()) BRECCIA_ASSERT(run_part(part, kNone, history).ok());
    }
  }

 private:
  /// Keys from `begin` to before `end`.
  struct Keys {
    std::uint32_t family;
    std::string begin;
    std::string end;
  };
  struct Open {
    const rocksdb::Snapshot* snapshot = nullptr;
    std::size_t since = 0;   // in written_
    std::vector<Op> parts;   // for Close
    std::vector<Keys> seen;  // what it depends on
  };

  static std::string after(const std::string& key) { return key + '\0'; }

  void end(std::uint32_t transaction) {
    if (open_[transaction].snapshot != nullptr) {
      db()->ReleaseSnapshot(open_[transaction].snapshot);
    }
    open_[transaction] = {};
  }

  void look_up(const Op& part, Open* open, History* history) {
    rocksdb::ReadOptions options;
    options.snapshot = open->snapshot;
    const std::string at = key(part.key).ToString();
    std::string value;
    const Status status = db()->Get(options, handle(part.family), at, &value);
    history->add_value(status.code(), value);
    open->seen.push_back({part.family, at, after(at)});
  }

  void look_over(const Op& part, Open* open, History* history) {
    const Slice end = key(part.end);
    rocksdb::ReadOptions options;
    options.snapshot = open->snapshot;
    options.iterate_upper_bound = &end;
    const std::unique_ptr<rocksdb::Iterator> iterator(
        db()->NewIterator(options, handle(part.family)));
    add_range(iterator.get(), key(part.key), part.number, history);
    Keys seen{part.family, key(part.key).ToString(), end.ToString()};
    // One that its limit ended has not looked further than to its last entry.
    std::uint32_t count = 0;
    std::string last;
    for (iterator->Seek(seen.begin); iterator->Valid() && count < part.number; iterator->Next()) {
      last = iterator->key().ToString();
      ++count;
    }
    if (count > 0 && count == part.number) seen.end = after(last);
    open->seen.push_back(std::move(seen));
  }

  [[nodiscard]] bool conflicts(const Open& open) const {
    const auto meet = [](const Keys& a, const Keys& b) {
      return a.family == b.family && std::max(a.begin, b.begin) < std::min(a.end, b.end);
    };
    return std::any_of(written_.begin() + static_cast<std::ptrdiff_t>(open.since), written_.end(),
                       [&](const Keys& written) {
                         return std::any_of(open.seen.begin(), open.seen.end(),
                                            [&](const Keys& seen) { return meet(written, seen); });
                       });
  }

  std::vector<Keys> written_;
  std::array<Open, kTransactions> open_;
};

}  // namespace

std::unique_ptr<Subject> make_reference(const model::Universe& universe, Api api) {
  if (api == Api::kStore) return std::make_unique<StoreReference>(universe);
  return std::make_unique<Reference>(universe, api);
}

}  // namespace breccia::metamorphic
