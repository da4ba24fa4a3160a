#include "power_life.h"

#include <breccia/optimistic_transaction_db.h>
#include <breccia/rocks.h>
#include <breccia/transaction_db.h>
#include <fmt/format.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/transaction.h>

#include <chrono>
#include <utility>

#include "support/append_operator.h"
#include "support/refill.h"
#include "support/sim_env.h"

namespace breccia::crash {

namespace {

using wal::SimDisk;
using wal::Survives;

constexpr char kStore[] = "/db";
constexpr char kFilesIn[] = "/in";
constexpr std::uint64_t kDefault = 0;  // number of the default family

class Quiet final : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char*, va_list) override {}
};

/// Options of a store that opens in little time.
Options power_options(rocksdb::Env* env, const PowerSetting& setting, std::uint64_t variant) {
  Options options;
  if (setting.own_log_folder) options.wal_dir = "/logs/log";
  options.create_if_missing = true;
  options.backend = BackendChoice::kHost;
  options.device_requests_min = variant % 2 == 0 ? 4 : 64;
  options.memtable_bytes = 256 << 20;
  options.entry_cache_bytes = 0;
  options.flush_threads = 1;
  options.log_keep_bytes = variant % 3 == 0 ? 128 << 20 : 0;
  rocksdb::Options& tree = options.rocksdb;
  tree.env = env;
  tree.info_log = std::make_shared<Quiet>();
  tree.compression = rocksdb::kNoCompression;
  tree.max_file_opening_threads = 1;
  tree.skip_stats_update_on_db_open = true;
  tree.skip_checking_sst_file_sizes_on_db_open = true;
  tree.stats_dump_period_sec = 0;
  tree.stats_persist_period_sec = 0;
  tree.level0_file_num_compaction_trigger = 3;
  tree.disable_auto_compactions = !setting.compacts_itself;
  tree.merge_operator = testing::make_append_operator(/*partial=*/true);
  rocksdb::BlockBasedTableOptions table;
  table.no_block_cache = true;
  tree.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

std::string first_difference(const Content& found, const Content& expected) {
  for (const auto& [key, value] : expected) {
    const auto at = found.find(key);
    if (at == found.end()) return key + " is missing";
    if (at->second != value) return key + " is " + at->second + ", not " + value;
  }
  for (const auto& [key, value] : found) {
    if (!expected.contains(key)) return key + " is " + value + ", not missing";
  }
  return "";
}

/// What `world` says of the families in `names`, against what was found.
std::string first_difference(const std::map<std::string, Content>& found, const Names& names,
                             const World& world) {
  static const Content kNothing;
  for (const auto& [name, family] : names) {
    const auto at = world.find(family);
    const std::string difference =
        first_difference(found.at(name), at == world.end() ? kNothing : at->second);
    if (!difference.empty()) return name + "." + difference;
  }
  return "";
}

bool same_names(const std::map<std::string, Content>& found, const Names& names) {
  return found.size() == names.size() &&
         std::equal(found.begin(), found.end(), names.begin(),
                    [](const auto& a, const auto& b) { return a.first == b.first; });
}

/// RocksDB 7.8 does not open a database whose MANIFEST ends in a record of which a block in the
/// middle is missing. Ends that are cut off it takes.
bool is_torn_manifest(const Status& status) {
  return status.IsCorruption() && status.ToString().find("/MANIFEST-") != std::string::npos;
}

const char* name_of(Survives survives) {
  switch (survives) {
    case Survives::kNothing:
      return "nothing unsynced survives";
    case Survives::kSome:
    case Survives::kTails:
      return "some of what is unsynced survives";
    case Survives::kEverything:
      break;
  }
  return "everything survives";
}

}  // namespace

// ---- what there may be -------------------------------------------------------------------------

Chronicle::Chronicle(World world, Names names) {
  worlds_.push_back(std::make_shared<const World>(std::move(world)));
  names_.push_back(std::make_shared<const Names>(std::move(names)));
  now_.doing = "opening";
}

void Chronicle::begin(World world, std::string doing) {
  const std::lock_guard lock(mutex_);
  worlds_.push_back(std::make_shared<const World>(std::move(world)));
  now_.ceiling = worlds_.size() - 1;
  now_.doing = std::move(doing);
}

void Chronicle::begin_names(Names names, std::string doing) {
  const std::lock_guard lock(mutex_);
  names_.push_back(std::make_shared<const Names>(std::move(names)));
  now_.names_ceiling = names_.size() - 1;
  now_.doing = std::move(doing);
}

void Chronicle::begin(std::string doing) {
  const std::lock_guard lock(mutex_);
  now_.doing = std::move(doing);
}

void Chronicle::survives() {
  const std::lock_guard lock(mutex_);
  now_.floor = now_.ceiling;
}

void Chronicle::names_survive() {
  const std::lock_guard lock(mutex_);
  now_.names_floor = now_.names_ceiling;
}

Moment Chronicle::now() const {
  const std::lock_guard lock(mutex_);
  return now_;
}

Chronicle::Match Chronicle::match(const std::map<std::string, Content>& found, const Moment& moment,
                                  std::string* why) const {
  std::vector<std::shared_ptr<const World>> worlds;
  Match match;
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = moment.floor; i <= moment.ceiling; ++i) worlds.push_back(worlds_[i]);
    for (std::size_t i = moment.names_floor; i <= moment.names_ceiling; ++i) {
      if (same_names(found, *names_[i])) match.names = names_[i];
    }
  }
  if (match.names == nullptr) {
    *why = "these families are there:";
    for (const auto& [name, content] : found) *why += " " + name;
    return match;
  }
  // The newest that fits, so that the successor's numbers go on.
  for (auto world = worlds.rbegin(); world != worlds.rend(); ++world) {
    if (!first_difference(found, *match.names, **world).empty()) continue;
    match.world = *world;
    return match;
  }
  *why = fmt::format("against what is durable, {}; against all that was begun, {}",
                     first_difference(found, *match.names, *worlds.front()),
                     first_difference(found, *match.names, *worlds.back()));
  return match;
}

// ---- a store on the disk -----------------------------------------------------------------------

PowerStore::~PowerStore() { close(); }

void PowerStore::close() {
  if (db_ == nullptr) return;
  std::vector<rocksdb::Transaction*> prepared;
  if (kind_ == Kind::kTwoPhases) transactions()->GetAllPreparedTransactions(&prepared);
  for (const rocksdb::Transaction* one : prepared) delete one;
  for (const auto& [name, handle] : handles_) {
    db_->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
  }
  handles_.clear();
  db_.reset();
  env_.reset();
}

Status PowerStore::open(SimDisk* disk, Kind kind, const PowerSetting& setting,
                        std::uint64_t variant) {
  env_ = testing::make_sim_env(disk);
  const Options options = power_options(env_.get(), setting, variant);
  family_options_ = options.rocksdb;
  std::vector<std::string> names = {rocksdb::kDefaultColumnFamilyName};
  if (env_->FileExists(std::string(kStore) + "/CURRENT").ok()) {
    BRECCIA_TRY(Rocks::ListColumnFamilies(options.rocksdb, kStore, &names));
    // Of one that a cut has stopped while it was being made, the list may be without any.
    if (names.empty()) names = {rocksdb::kDefaultColumnFamilyName};
  }
  BRECCIA_TRY(open_as(kind, options, names));
  // Half of the time what is compared comes from clean runs, as far as the log has them.
  if (variant % 2 == 1) testing::wait_for_refill(db_.get());
  return Status::OK();
}

Status PowerStore::open_as(Kind kind, const Options& options,
                           const std::vector<std::string>& names) {
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (const std::string& name : names) families.emplace_back(name, options.rocksdb);
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* db = nullptr;
  if (kind == Kind::kRocks) {
    BRECCIA_TRY(Rocks::Open(options, kStore, families, &handles, &db));
  } else if (kind == Kind::kTwoPhases) {
    rocksdb::TransactionDB* opened = nullptr;
    BRECCIA_TRY(
        TransactionDB::Open(options, TransactionDBOptions(), kStore, families, &handles, &opened));
    db = opened;
  } else {
    rocksdb::OptimisticTransactionDB* opened = nullptr;
    BRECCIA_TRY(OptimisticTransactionDB::Open(options, OptimisticTransactionDBOptions(), kStore,
                                              families, &handles, &opened));
    db = opened;
  }
  db_.reset(db);
  kind_ = kind;
  for (std::size_t i = 0; i < names.size(); ++i) handles_[names[i]] = handles[i];
  return Status::OK();
}

Status PowerStore::create_family(const std::string& name) {
  return db_->CreateColumnFamily(family_options_, name, &handles_[name]);
}

Status PowerStore::drop_family(const std::string& name) {
  BRECCIA_TRY(db_->DropColumnFamily(handles_.at(name)));
  const Status status = db_->DestroyColumnFamilyHandle(handles_.at(name));
  handles_.erase(name);
  return status;
}

Status PowerStore::read(std::map<std::string, Content>* found) {
  for (const auto& [name, handle] : handles_) {
    Content& content = (*found)[name];
    const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator(rocksdb::ReadOptions(), handle));
    for (at->SeekToFirst(); at->Valid(); at->Next()) {
      content[at->key().ToString()] = at->value().ToString();
    }
    BRECCIA_TRY(at->status());
  }
  return kind_ == Kind::kTwoPhases ? read_prepared(&(*found)[kPrepared]) : Status::OK();
}

/// What the prepared transactions would put, by their names.
Status PowerStore::read_prepared(Content* found) {
  std::vector<rocksdb::Transaction*> prepared;
  transactions()->GetAllPreparedTransactions(&prepared);
  for (rocksdb::Transaction* const one : prepared) {
    BRECCIA_TRY(one->Get(rocksdb::ReadOptions(), one->GetName(), &(*found)[one->GetName()]));
  }
  return Status::OK();
}

// ---- cuts --------------------------------------------------------------------------------------

Life::Life(std::uint64_t seed, std::uint64_t number, Remains before)
    : seed_(seed),
      setting_(seed),
      number_(number),
      disk_(std::move(before.disk)),
      random_(base::mix64(seed) + number),
      chronicle_(std::move(before.world), std::move(before.names)),
      kind_(random_kind()),
      families_(1000 * (number + 1)) {
  constexpr int kThreads = 2;
  for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { check_cuts(); });
}

Life::~Life() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
  store_.close();
}

void Life::note_sync(SimDisk::SyncSeen seen) {
  {
    const std::lock_guard lock(mutex_);
    ++syncs_;
  }
  const std::string what = seen.path + ", ";
  // In the middle of it: some of what it syncs is durable, or all.
  const auto middle = syncs_ % 4 == 0 ? Survives::kEverything : Survives::kSome;
  add_cut(seen.before->clone(), middle, "in the sync of " + what);
  add_cut(std::move(seen.before), Survives::kNothing, "before the sync of " + what);
  add_cut(seen.after->clone(), Survives::kTails, "after the sync of " + what);
  add_cut(std::move(seen.after), Survives::kNothing, "after the sync of " + what);
}

void Life::add_cut(std::unique_ptr<SimDisk> disk, Survives survives, std::string where) {
  const Moment moment = chronicle_.now();
  const std::lock_guard lock(mutex_);
  queue_.push_back({++cuts_, std::move(disk), survives, moment, std::move(where)});
}

void Life::check_cuts() {
  for (;;) {
    Cut cut;
    {
      const std::lock_guard lock(mutex_);
      if (queue_.empty() && ends_) return;
      if (!queue_.empty()) {
        cut = std::move(queue_.front());
        queue_.pop_front();
      }
    }
    if (cut.disk == nullptr) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    } else if (!failed()) {
      check(std::move(cut));
    }
  }
}

bool Life::failed() const {
  const std::lock_guard lock(mutex_);
  return !failure_.empty();
}

void Life::fail(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (failure_.empty()) failure_ = why;
}

void Life::check(Cut cut) {
  const std::uint64_t draw = base::mix64(base::mix64(seed_ + number_) + cut.number);
  cut.disk->power_cut(draw, cut.survives);
  std::unique_ptr<SimDisk> left;
  {
    const std::lock_guard lock(mutex_);
    if (draw > best_) left = cut.disk->clone();
  }
  const auto explain = [&](const std::string& why) {
    fail(fmt::format("life {}, cut {} while {}: {}{}: {}", number_, cut.number, cut.moment.doing,
                     cut.where, name_of(cut.survives), why));
  };
  PowerStore store;
  const auto kind = setting_.two_phases ? PowerStore::Kind::kTwoPhases : PowerStore::Kind::kRocks;
  const Status opened = store.open(cut.disk.get(), kind, setting_, draw);
  if (cut.survives == Survives::kSome && is_torn_manifest(opened)) {
    const std::lock_guard lock(mutex_);
    ++torn_;
    return;
  }
  if (!opened.ok()) return explain("open: " + opened.ToString());
  std::map<std::string, Content> found;
  const Status read = store.read(&found);
  if (!read.ok()) return explain("read: " + read.ToString());
  std::string why;
  const Chronicle::Match match = chronicle_.match(found, cut.moment, &why);
  if (!why.empty()) return explain(why);
  rocksdb::WriteOptions synced;
  synced.sync = true;
  const Status written = store.db()->Put(synced, "works again", "yes");
  if (!written.ok()) return explain("write: " + written.ToString());
  const std::lock_guard lock(mutex_);
  if (left == nullptr || draw <= best_) return;
  best_ = draw;
  remains_ = {std::move(left), *match.world, *match.names};
}

// ---- work --------------------------------------------------------------------------------------

/// Writes, as a batch and as what they make of the world.
struct Life::Change {
  explicit Change(Life* life) : life(life), world(life->chronicle_.world()) {}

  void put(const std::string& family, const std::string& key, const std::string& value) {
    batch.Put(life->store_.handle(family), key, value);
    content(family)[key] = value;
  }
  void merge(const std::string& family, const std::string& key, const std::string& operand) {
    batch.Merge(life->store_.handle(family), key, operand);
    std::string& value = content(family)[key];
    value += (value.empty() ? "" : ",") + operand;
  }
  void erase(const std::string& family, const std::string& key) {
    batch.Delete(life->store_.handle(family), key);
    content(family).erase(key);
  }
  void single_erase(const std::string& family, const std::string& key) {
    batch.SingleDelete(life->store_.handle(family), key);
    content(family).erase(key);
  }
  void erase_range(const std::string& family, const std::string& from, const std::string& to) {
    batch.DeleteRange(life->store_.handle(family), from, to);
    Content& of = content(family);
    of.erase(of.lower_bound(from), of.lower_bound(to));
  }
  [[nodiscard]] Content& content(const std::string& family) {
    return world[life->chronicle_.names().at(family)];
  }

  Life* life;
  World world;
  rocksdb::WriteBatch batch;
};

PowerStore::Kind Life::random_kind() {
  if (setting_.two_phases) return PowerStore::Kind::kTwoPhases;
  return random_.one_in(2) ? PowerStore::Kind::kRocks : PowerStore::Kind::kOptimistic;
}

std::string Life::random_family() {
  Names names = chronicle_.names();
  names.erase(kPrepared);
  if (random_.one_in(2)) return rocksdb::kDefaultColumnFamilyName;
  return std::next(names.begin(), static_cast<long>(random_.below(names.size())))->first;
}

std::string Life::random_key() { return fmt::format("k{:02}", random_.below(24)); }

/// Sometimes of several blocks.
std::string Life::random_value() {
  const std::uint64_t bytes = random_.one_in(12) ? 700 + random_.below(1500) : random_.below(30);
  return fmt::format("{}.{}{}", number_, ++values_, std::string(bytes, 'v'));
}

rocksdb::WriteOptions Life::random_durability(std::string* name) {
  rocksdb::WriteOptions options;
  const std::uint64_t which = random_.below(5);
  options.sync = which < 2;
  options.disableWAL = which == 4;
  *name = options.sync ? "synced " : options.disableWAL ? "unlogged " : "";
  return options;
}

/// An acknowledged write.
Status Life::done(const Status& status, const rocksdb::WriteOptions& options) {
  BRECCIA_TRY(status);
  if (options.sync) chronicle_.survives();
  return status;
}

/// Something that makes all that was written before durable.
Status Life::flushed(const Status& status) {
  BRECCIA_TRY(status);
  chronicle_.survives();
  return status;
}

void Life::add_random(Change* change) {
  const std::string family = random_family();
  const std::string key = random_key();
  const std::uint64_t kind = random_.below(10);
  if (kind < 5 || change->content(family)[key].size() > 400) {
    change->put(family, key, random_value());
  } else if (kind < 8) {
    // A key that was looked at above has an empty value now; it gets its operand.
    change->merge(family, key, fmt::format("{}", ++values_));
  } else {
    change->erase(family, key);
  }
}

/// Keys of single deletions are put once and then deleted once.
void Life::add_single(Change* change) {
  const std::string key = fmt::format("s{}", random_.below(6));
  const std::string family = rocksdb::kDefaultColumnFamilyName;
  if (change->content(family).contains(key)) {
    change->single_erase(family, key);
  } else {
    change->put(family, key, random_value());
  }
}

Status Life::write_one() {
  std::string durability;
  const rocksdb::WriteOptions options = random_durability(&durability);
  Change change(this);
  random_.one_in(5) ? add_single(&change) : add_random(&change);
  chronicle_.begin(change.world, durability + "write");
  return done(store_.db()->Write(options, &change.batch), options);
}

Status Life::write_batch() {
  std::string durability;
  const rocksdb::WriteOptions options = random_durability(&durability);
  Change change(this);
  const std::uint64_t count = 2 + random_.below(12);
  for (std::uint64_t i = 0; i < count; ++i) add_random(&change);
  if (random_.one_in(3)) add_single(&change);
  if (kind_ == PowerStore::Kind::kRocks && random_.one_in(4)) {
    const std::string from = random_key();
    change.erase_range(random_family(), from, from + "~");
  }
  chronicle_.begin(change.world, fmt::format("{}batch of {}", durability, count));
  return done(store_.db()->Write(options, &change.batch), options);
}

Status Life::delete_range() {
  std::string durability;
  const rocksdb::WriteOptions options = random_durability(&durability);
  const std::string family = random_family();
  std::string from = random_key();
  std::string to = random_key();
  if (to < from) std::swap(from, to);
  Change change(this);
  change.erase_range(family, from, to);
  chronicle_.begin(change.world, durability + "range deletion");
  return done(store_.db()->DeleteRange(options, store_.handle(family), from, to), options);
}

Status Life::transaction() {
  std::string durability;
  const rocksdb::WriteOptions options = random_durability(&durability);
  const std::unique_ptr<rocksdb::Transaction> transaction(
      setting_.two_phases
          ? store_.transactions()->BeginTransaction(options)
          : static_cast<rocksdb::OptimisticTransactionDB*>(store_.db())->BeginTransaction(options));
  Change change(this);
  const std::uint64_t count = 1 + random_.below(5);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string family = random_family();
    const std::string key = random_key();
    std::string before;
    const Status got =
        transaction->GetForUpdate(rocksdb::ReadOptions(), store_.handle(family), key, &before);
    if (!got.ok() && !got.IsNotFound()) return got;
    const std::string value = random_value();
    BRECCIA_TRY(transaction->Put(store_.handle(family), key, value));
    change.content(family)[key] = value;
  }
  chronicle_.begin(change.world, fmt::format("{}transaction of {}", durability, count));
  return done(transaction->Commit(), options);
}

/// A transaction that puts a key of its own name.
Status Life::prepare() {
  std::string durability;
  const rocksdb::WriteOptions options = random_durability(&durability);
  const std::string name = fmt::format("t{}.{}", number_, ++values_);
  const std::string value = random_value();
  rocksdb::Transaction* const transaction = store_.transactions()->BeginTransaction(options);
  BRECCIA_TRY(transaction->SetName(name));
  BRECCIA_TRY(transaction->Put(name, value));
  Change change(this);
  change.content(kPrepared)[name] = value;
  chronicle_.begin(change.world, durability + "preparation");
  return done(transaction->Prepare(), options);
}

Status Life::end_prepared() {
  Change change(this);
  Content& prepared = change.content(kPrepared);
  if (prepared.empty()) return Status::OK();
  const auto [name, value] = *prepared.begin();
  const std::unique_ptr<rocksdb::Transaction> transaction(
      store_.transactions()->GetTransactionByName(name));
  if (transaction == nullptr) return Status::Corruption(name + " is not there");
  prepared.erase(name);
  const bool commits = random_.one_in(2);
  if (commits) change.content(rocksdb::kDefaultColumnFamilyName)[name] = value;
  chronicle_.begin(change.world, commits ? "commit of what was prepared" : "rollback");
  return commits ? transaction->Commit() : transaction->Rollback();
}

Status Life::ingest() {
  const std::string path = fmt::format("{}/{}-{}.sst", kFilesIn, number_, ++values_);
  rocksdb::Options options;
  options.env = store_.env();
  rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), options);
  chronicle_.begin("making a file to ingest");
  BRECCIA_TRY(writer.Open(path));
  const std::string family = random_family();
  Change change(this);
  for (std::uint64_t key = random_.below(8); key < 24; key += 1 + random_.below(8)) {
    const std::string name = fmt::format("k{:02}", key);
    const std::string value = random_value();
    BRECCIA_TRY(writer.Put(name, value));
    change.content(family)[name] = value;
  }
  BRECCIA_TRY(writer.Finish());
  rocksdb::IngestExternalFileOptions how;
  how.move_files = random_.one_in(2);
  how.write_global_seqno = random_.one_in(2);
  chronicle_.begin(change.world, how.move_files ? "ingest by link" : "ingest by copy");
  BRECCIA_TRY(flushed(store_.db()->IngestExternalFile(store_.handle(family), {path}, how)));
  return how.move_files ? Status::OK() : store_.env()->DeleteFile(path);
}

Status Life::change_families() {
  const std::string name = fmt::format("f{}", random_.below(3));
  Names names = chronicle_.names();
  const bool drops = names.erase(name) > 0;
  if (!drops) names[name] = ++families_;
  chronicle_.begin_names(names, drops ? "dropping a family" : "making a family");
  BRECCIA_TRY(drops ? store_.drop_family(name) : store_.create_family(name));
  chronicle_.names_survive();
  return Status::OK();
}

Status Life::reopen() {
  chronicle_.begin("closing");
  store_.close();
  chronicle_.begin("opening");
  kind_ = random_kind();
  return flushed(store_.open(disk_.get(), kind_, setting_, random_.next()));
}

Status Life::step() {
  const bool is_rocks = kind_ == PowerStore::Kind::kRocks;
  const std::uint64_t kind = random_.below(100);
  if (kind < 36) return write_one();
  if (kind < 50) return write_batch();
  if (kind < 54) {
    if (!setting_.two_phases) return write_batch();
    return random_.one_in(2) ? prepare() : end_prepared();
  }
  if (kind < 64) return is_rocks ? delete_range() : transaction();
  if (kind < 70) {
    chronicle_.begin("syncing the log");
    return flushed(store_.db()->SyncWAL());
  }
  if (kind < 78) {
    chronicle_.begin("flush");
    return flushed(store_.db()->Flush(rocksdb::FlushOptions()));
  }
  if (kind < 82) {
    chronicle_.begin("compaction");
    rocksdb::CompactRangeOptions how;
    how.change_level = random_.one_in(4);
    return flushed(
        store_.db()->CompactRange(how, store_.handle(random_family()), nullptr, nullptr));
  }
  if (kind < 90) return change_families();
  if (kind < 95) return ingest();
  return reopen();
}

std::string Life::run(std::uint64_t steps) {
  const auto wait_until = [this](std::size_t left) {
    for (;;) {
      {
        const std::lock_guard lock(mutex_);
        if (queue_.size() <= left) return;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  };
  (void)disk_->files()->create_dir(kFilesIn);
  (void)disk_->files()->sync_dir("/");
  disk_->watch_syncs([this](SimDisk::SyncSeen seen) { note_sync(std::move(seen)); });
  Status status = flushed(store_.open(disk_.get(), kind_, setting_, random_.next()));
  for (std::uint64_t i = 0; status.ok() && i < steps && !failed(); ++i) {
    status = step();
    add_cut(disk_->clone(), Survives::kNothing, "after it, ");
    wait_until(64);
  }
  if (!status.ok()) fail(chronicle_.now().doing + ": " + status.ToString());
  chronicle_.begin("closing");
  store_.close();
  add_cut(disk_->clone(), Survives::kNothing, "after it, ");
  disk_->watch_syncs(nullptr);
  wait_until(0);
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
  return failure_;
}

}  // namespace breccia::crash
