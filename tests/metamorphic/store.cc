#include <cstdio>
#include <latch>

#include "base/assert.h"
#include "base/random.h"
#include "ground.h"
#include "ordered/engine.h"
#include "support/random_column.h"

namespace breccia::metamorphic {

namespace {

class StoreSubject final : public Subject {
 public:
  StoreSubject(const model::Universe& universe, std::uint32_t set, std::uint64_t seed)
      : Subject(universe), ground_(set, seed) {
    for (std::uint32_t family = 0; family < kFixedFamilies; ++family) {
      families_[family] = Family{};
    }
    const Status status = open();
    if (!status.ok()) std::fprintf(stderr, "open: %s\n", status.ToString().c_str());
    BRECCIA_ASSERT(status.ok());
  }
  ~StoreSubject() override { engine_.reset(); }

 protected:
  Status write(const Op& op) override {
    const Status status = write_alone(op);
    ground_.note_write(op.durability, status);
    return status;
  }

  Status get(const Op& op, std::string* value) override {
    if (op.snapshot == kNone && op.family == 0) return engine_->Get(key(op.key), value);
    rocksdb::PinnableSlice found;
    const ordered::Pin pin = pin_of(op.snapshot);
    BRECCIA_TRY(
        engine_->lookups().get(pin, id_of(op.family, op.snapshot), key(op.key), &found, nullptr));
    value->assign(found.data(), found.size());
    return Status::OK();
  }

  Status run_parts(const Op& op, History* history) override {
    if (op.kind == Kind::kMultiGet) return run_multi_get(op, history);
    const std::vector<Op> alone{op};
    const std::vector<Op>& parts = op.kind == Kind::kRange ? alone : op.parts;
    Batch batch = parts.size() % 2 == 0 ? Batch() : engine_->NewBatch();
    batch.SetValuesInPlace(parts.size() % 5 < 2);
    batch.SetColumnsInPlace(parts.size() % 7 < 4);
    columns_.clear();
    BRECCIA_TRY(parts.size() % 3 == 0 ? add_columns(parts, op.snapshot, &batch)
                                      : add_requests(parts, op.snapshot, &batch));
    if (op.kind == Kind::kRead || op.snapshot != kNone) {
      BRECCIA_TRY(engine_->lookups().read(pin_of(op.snapshot), &batch.requests()));
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
    std::function<ordered::Pin()> repin;
    if (snapshot == kNone) repin = [this] { return engine_->pin(); };
    return engine_->lookups().iterate(options, id_of(family, snapshot), pin_of(snapshot),
                                      std::move(repin));
  }

  void begin(const Op& op) override {
    Open& open = open_[op.transaction];
    open.transaction = engine_->OpenTransaction();
    open.durability = op.durability;
  }
  Status run_within(const Op& op, History* history) override {
    Open& open = open_[op.transaction];
    std::vector<Op> reads;
    auto batch = std::make_unique<Batch>(engine_->NewBatch());
    for (const Op& part : op.parts) {
      const bool at_once = part.variant && !is_write(part.kind);
      if (at_once) reads.push_back(part);
      if (!at_once) open.parts.push_back(part);
      BRECCIA_TRY(add_request(part, id_of(part.family, kNone),
                              at_once ? batch.get() : &open.transaction->batch()));
    }
    if (reads.empty()) return Status::OK();
    BRECCIA_TRY(open.transaction->Read(batch.get()));
    add_results(reads, *batch, history);
    open.reads.push_back(std::move(batch));
    return Status::OK();
  }
  void commit(const Op& op, History* history) override {
    Open& open = open_[op.transaction];
    const bool writes = open.transaction->batch().writes() > 0;
    const Status status = open.transaction->Close({open.durability});
    if (writes) ground_.note_write(open.durability, status);
    history->add("commit", status);
    if (status.ok()) add_results(open.parts, open.transaction->batch(), history);
    open = {};
  }
  void roll_back(std::uint32_t transaction) override { open_[transaction] = {}; }
  Status run_indexed(const Op&, History*) override {
    return Status::NotSupported("a store has no WriteBatchWithIndex");
  }

  Status create_family(std::uint32_t family) override {
    auto created =
        engine_->tree_changes().create_family(family_name(family), ground_.options_of(family));
    BRECCIA_TRY(created.status());
    families_[family] = Family{created.value()->GetID(), nullptr};
    return Status::OK();
  }
  Status drop_family(const Op& op) override {
    const FamilyId id = families_[op.family]->id;
    families_[op.family].reset();
    return op.variant ? engine_->tree_changes().drop_family(id, [] {}) : engine_->DropFamily(id);
  }

  Status flush() override {
    ground_.note_sync();
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
    ground_.note_sync();
    return engine_->SyncLog();
  }

  Status reopen(const Op& op, History* history) override {
    if (op.kind == Kind::kCrash) {
      BRECCIA_TRY(ground_.crash(/*copied=*/op.variant, [&] { return engine_->SyncLog(); }));
    } else if (op.kind == Kind::kPlain || op.variant) {
      BRECCIA_TRY(flush());
    }
    engine_.reset();
    if (op.kind == Kind::kPlain) {
      BRECCIA_TRY(ground_.scan_files(families_, [&](rocksdb::Iterator* iterator) {
        add_entries(iterator, /*backwards=*/false, history);
      }));
    }
    ground_.turn(op.number);
    const Status status = open();
    history->add("reopen", status);
    return status;
  }

 private:
  struct Snapshot : Taken {
    ordered::Pin pin;
  };

  struct Open {
    std::vector<std::unique_ptr<Batch>> reads;  // live until the transaction is over
    std::unique_ptr<Transaction> transaction;
    Durability durability = Durability::kDefault;
    std::vector<Op> parts;  // what is in its batch
  };

  Status open() {
    Options options = ground_.start();
    for (const auto& [name, family] : ground_.descriptors(families_)) {
      if (family_of(name) != 0) options.families.emplace_back(name, family);
    }
    BRECCIA_TRY(ordered::Engine::open(options, ground_.path(), &engine_));
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

  Status write_alone(const Op& op) {
    const WriteOptions options{op.durability};
    const FamilyId family = families_[op.family]->id;
    const Slice at = key(op.key);
    switch (op.kind) {
      case Kind::kPut:
        return family == kDefaultFamily
                   ? engine_->Put(options, at, make_value(op.value))
                   : engine_->writer().write_one(options, record::Op::kPut, family, at,
                                                 make_value(op.value));
      case Kind::kDelete:
        return family == kDefaultFamily
                   ? engine_->Delete(options, at)
                   : engine_->writer().write_one(options, record::Op::kDelete, family, at, Slice());
      case Kind::kSingleDelete:
        return engine_->writer().write_one(options, record::Op::kSingleDelete, family, at, Slice());
      case Kind::kMerge:
        return family == kDefaultFamily
                   ? engine_->Merge(options, at, make_value(op.value))
                   : engine_->writer().write_one(options, record::Op::kMerge, family, at,
                                                 make_value(op.value));
      default:
        return engine_->writer().write_one(options, record::Op::kDeleteRange, family, at,
                                           key(op.end));
    }
  }

  Status add_requests(const std::vector<Op>& parts, std::uint32_t snapshot, Batch* batch) const {
    for (const Op& part : parts) {
      BRECCIA_TRY(add_request(part, id_of(part.family, snapshot), batch));
    }
    return Status::OK();
  }

  /// Adds neighbours of one kind and family as columns, where columns may have that kind.
  Status add_columns(const std::vector<Op>& parts, std::uint32_t snapshot, Batch* batch) {
    for (std::size_t begin = 0; begin < parts.size();) {
      std::size_t end = begin + 1;
      while (end < parts.size() && parts[end].kind == parts[begin].kind &&
             parts[end].family == parts[begin].family) {
        ++end;
      }
      const std::vector<Op> same(parts.begin() + static_cast<std::ptrdiff_t>(begin),
                                 parts.begin() + static_cast<std::ptrdiff_t>(end));
      begin = end;
      const Kind kind = same.front().kind;
      if (kind == Kind::kSingleDelete || kind == Kind::kDeleteRange) {
        BRECCIA_TRY(add_requests(same, snapshot, batch));
      } else {
        BRECCIA_TRY(add_as_columns(same, id_of(same.front().family, snapshot), batch));
      }
    }
    return Status::OK();
  }

  Status add_as_columns(const std::vector<Op>& same, FamilyId family, Batch* batch) {
    const Kind kind = same.front().kind;
    const bool has_values = kind == Kind::kPut || kind == Kind::kMerge;
    std::vector<std::string> keys;
    std::vector<std::string> others;  // values, or ends
    std::vector<std::uint32_t> limits;
    for (const Op& part : same) {
      keys.push_back(key(part.key).ToString());
      if (has_values) others.push_back(make_value(part.value));
      if (kind == Kind::kRange) others.push_back(key(part.end).ToString());
      limits.push_back(part.number);
    }
    base::Random random(same.size());
    const auto column_of = [&](const std::vector<std::string>& strings) {
      columns_.push_back(std::make_unique<testing::RandomColumn>(strings, &random));
      return columns_.back()->column();
    };
    const BytesColumn key_column = column_of(keys);
    const BytesColumn other_column = column_of(others);
    switch (kind) {
      case Kind::kPut:
        return batch->Put(family, key_column, other_column);
      case Kind::kMerge:
        return batch->Merge(family, key_column, other_column);
      case Kind::kDelete:
        return batch->Delete(family, key_column);
      case Kind::kGet:
        return batch->Get(family, key_column);
      default:
        return batch->Range(family, key_column, other_column, limits);
    }
  }

  [[nodiscard]] ordered::Pin pin_of(std::uint32_t snapshot) const {
    return snapshot == kNone ? engine_->pin() : snapshots_[snapshot].pin;
  }
  [[nodiscard]] FamilyId id_of(std::uint32_t family, std::uint32_t snapshot) const {
    return (snapshot == kNone ? families_ : snapshots_[snapshot].families)[family]->id;
  }

  Status submit(const Op& op, Batch* batch) {
    const Status status =
        op.variant ? submit_async({op.durability}, batch) : engine_->Submit({op.durability}, batch);
    if (batch->writes() > 0) ground_.note_write(op.durability, status);
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

  Ground ground_;
  std::unique_ptr<ordered::Engine> engine_;
  std::array<Snapshot, kSnapshots> snapshots_;
  std::array<Open, kTransactions> open_;
  std::vector<std::unique_ptr<testing::RandomColumn>> columns_;  // of the batch that runs
};

}  // namespace

std::unique_ptr<Subject> make_store(const model::Universe& universe, std::uint32_t set,
                                    std::uint64_t seed) {
  return std::make_unique<StoreSubject>(universe, set, seed);
}

}  // namespace breccia::metamorphic
