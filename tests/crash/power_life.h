#pragma once

#include <breccia/options.h>
#include <rocksdb/db.h>
#include <rocksdb/utilities/transaction_db.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "wal/sim/sim_files.h"

/// A store on a disk whose power is cut: what it does, and what must be there afterwards.

namespace breccia::crash {

using Content = std::map<std::string, std::string>;
/// What a store's families hold, by the number that each family gets when it is made.
using World = std::map<std::uint64_t, Content>;
/// The families that are there.
using Names = std::map<std::string, std::uint64_t>;

/// What may be found after a cut at some moment: one of the worlds and one of the sets of names
/// from `floor` to `ceiling`, both inclusive.
struct Moment {
  std::size_t floor = 0;
  std::size_t ceiling = 0;
  std::size_t names_floor = 0;
  std::size_t names_ceiling = 0;
  std::string doing;
};

/// All that a store has been through in one life, and how much of it must survive.
/// Threads any.
class Chronicle {
 public:
  Chronicle(World world, Names names);

  /// A write begins that ends in `world`. Until it is acknowledged, it may survive or not.
  void begin(World world, std::string doing);
  /// Families are about to be `names`.
  void begin_names(Names names, std::string doing);
  void begin(std::string doing);
  /// All that has begun is durable.
  void survives();
  void names_survive();

  [[nodiscard]] Moment now() const;
  [[nodiscard]] const World& world() const { return *worlds_.back(); }
  [[nodiscard]] const Names& names() const { return *names_.back(); }

  /// Looks for what was found among what may be. Null names: none fits, *why says so.
  struct Match {
    std::shared_ptr<const World> world;
    std::shared_ptr<const Names> names;
  };
  [[nodiscard]] Match match(const std::map<std::string, Content>& found, const Moment& moment,
                            std::string* why) const;

 private:
  mutable std::mutex mutex_;
  std::deque<std::shared_ptr<const World>> worlds_;  // by one thread but for match()
  std::deque<std::shared_ptr<const Names>> names_;
  Moment now_;
};

/// How all stores of a seed are run.
struct PowerSetting {
  explicit PowerSetting(std::uint64_t seed)
      : two_phases(seed % 3 == 0), own_log_folder(seed % 2 == 0), compacts_itself(seed % 4 < 2) {}
  bool two_phases;       // as a TransactionDB, with transactions that are prepared
  bool own_log_folder;   // Options::wal_dir, two folders deep
  bool compacts_itself;  // in the background, so that a seed does not always give the same syncs
};

/// The transactions that are prepared, as if they were a family's content.
inline constexpr char kPrepared[] = "(prepared)";

/// A store that is open on a simulated disk.
class PowerStore {
 public:
  enum class Kind { kRocks, kOptimistic, kTwoPhases };

  PowerStore() = default;
  ~PowerStore();
  PowerStore(const PowerStore&) = delete;
  PowerStore& operator=(const PowerStore&) = delete;

  /// Opens what there is, or a new one. `variant`: options that may be any.
  Status open(wal::SimDisk* disk, Kind kind, const PowerSetting& setting, std::uint64_t variant);
  void close();

  [[nodiscard]] rocksdb::DB* db() { return db_.get(); }
  /// Of the kind kTwoPhases.
  [[nodiscard]] rocksdb::TransactionDB* transactions() {
    return static_cast<rocksdb::TransactionDB*>(db_.get());
  }
  [[nodiscard]] rocksdb::Env* env() { return env_.get(); }
  [[nodiscard]] rocksdb::ColumnFamilyHandle* handle(const std::string& name) {
    return handles_.at(name);
  }
  [[nodiscard]] Status create_family(const std::string& name);
  [[nodiscard]] Status drop_family(const std::string& name);
  /// All that it holds.
  [[nodiscard]] Status read(std::map<std::string, Content>* found);

 private:
  Status open_as(Kind kind, const Options& options, const std::vector<std::string>& names);
  Status read_prepared(Content* found);

  Kind kind_ = Kind::kRocks;
  std::unique_ptr<rocksdb::Env> env_;
  rocksdb::ColumnFamilyOptions family_options_;
  std::unique_ptr<rocksdb::DB> db_;
  std::map<std::string, rocksdb::ColumnFamilyHandle*> handles_;
};

/// The power goes at this moment, and the store is opened on what is left.
struct Cut {
  std::uint64_t number = 0;
  std::unique_ptr<wal::SimDisk> disk;
  wal::Survives survives = wal::Survives::kSome;
  Moment moment;
  std::string where;
};

/// What a life left: what its successor begins with.
struct Remains {
  std::unique_ptr<wal::SimDisk> disk;
  World world;
  Names names;
};

/// One life of a store: random work, and at each sync of its disk four cuts; two more threads check
/// what is left by them while it goes on.
class Life {
 public:
  /// `number`: which of the lives of `seed` this is.
  Life(std::uint64_t seed, std::uint64_t number, Remains before);
  ~Life();
  Life(const Life&) = delete;
  Life& operator=(const Life&) = delete;

  /// Ends after `steps`, or soon after a failure. Returns what went wrong; empty: nothing.
  std::string run(std::uint64_t steps);
  /// What one of the cuts has left.
  [[nodiscard]] Remains remains() { return std::move(remains_); }

  [[nodiscard]] std::uint64_t cuts() const { return cuts_; }
  [[nodiscard]] std::uint64_t syncs() const { return syncs_; }
  /// Cuts that left half of what RocksDB was about to add to its MANIFEST, which it then refuses.
  [[nodiscard]] std::uint64_t torn() const { return torn_; }

 private:
  // ---- cuts ----
  void note_sync(wal::SimDisk::SyncSeen seen);
  void add_cut(std::unique_ptr<wal::SimDisk> disk, wal::Survives survives, std::string where);
  void check_cuts();
  void check(Cut cut);
  void fail(const std::string& why);
  [[nodiscard]] bool failed() const;

  // ---- work ----
  struct Change;
  Status step();
  Status write_one();
  Status write_batch();
  Status transaction();
  Status prepare();
  Status end_prepared();
  Status delete_range();
  Status ingest();
  Status change_families();
  Status reopen();
  void add_random(Change* change);
  void add_single(Change* change);
  [[nodiscard]] std::string random_family();
  [[nodiscard]] std::string random_key();
  [[nodiscard]] std::string random_value();
  [[nodiscard]] rocksdb::WriteOptions random_durability(std::string* name);
  Status done(const Status& status, const rocksdb::WriteOptions& options);
  Status flushed(const Status& status);

  [[nodiscard]] PowerStore::Kind random_kind();

  const std::uint64_t seed_;
  const PowerSetting setting_;
  const std::uint64_t number_;
  const std::unique_ptr<wal::SimDisk> disk_;
  base::Random random_;
  Chronicle chronicle_;
  PowerStore::Kind kind_;
  PowerStore store_;
  std::uint64_t values_ = 0;
  std::uint64_t families_;  // made so far

  mutable std::mutex mutex_;  // of all below
  std::deque<Cut> queue_;
  bool ends_ = false;
  std::uint64_t cuts_ = 0;
  std::uint64_t syncs_ = 0;
  std::uint64_t torn_ = 0;
  std::uint64_t best_ = 0;
  std::string failure_;
  Remains remains_;

  std::vector<std::thread> threads_;
};

}  // namespace breccia::crash
