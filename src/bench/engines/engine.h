#pragma once

#include <breccia/options.h>

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "bench/audit.h"
#include "bench/engines/rocksdb_tuning.h"
#include "bench/stream.h"

/// Engines behind one face. A virtual call happens once per batch, or per request where a
/// request is the unit.
namespace breccia::bench {

using KindCounts = std::array<std::uint32_t, kKinds>;

/// What a transaction's lookups see.
enum class Lookups {
  kInOrder,    // each the writes before it, those of the transaction included
  kAtOpening,  // what was there before the transaction; at its end they are validated
};

/// One thread's use of an engine.
///
/// Groups are batches kept by place: a group is built once and run once or more. In a group all
/// writes go first and all lookups after them; the writes of read-modify-writes follow in a second
/// batch. The order within a group is not seen: writes of a key all carry its one value, and
/// streams look up an inserted key only after the request that inserts it.
/// Threads one owner.
class Session {
 public:
  virtual ~Session() = default;

  virtual Status put(const Slice& key, const Slice& value) = 0;
  virtual Status erase(const Slice& key) = 0;
  virtual Status merge(const Slice& key, const Slice& operand) = 0;
  /// The first `entries` entries from `begin` on.
  virtual Status scan(const Slice& begin, std::uint32_t entries, ScanDigest* digest) = 0;
  /// *value stays valid until the next call.
  virtual Status get(const Slice& key, Slice* value) = 0;

  /// Replaces group `place` by the requests [first, first + count) of `stream`.
  virtual Status build(const Stream& stream, std::uint64_t first, std::uint32_t count,
                       std::size_t place) = 0;
  /// Runs group `place` and shows its sampled reads to *audit, which is of the group's stream.
  virtual Status run(std::size_t place, Audit* audit) = 0;
  /// Runs the requests [first, first + count) of `stream`, puts and lookups, as one transaction.
  /// Shows the sampled lookups to *audit; where that is null, the transaction is filled and given
  /// up, for the memory that it leaves. Adds to *filling_ns the time before the engine's first
  /// part in it.
  virtual Status transact(const Stream& stream, std::uint64_t first, std::uint32_t count,
                          Lookups lookups, Audit* audit, std::uint64_t* filling_ns) = 0;
  /// Requests of group `place` by kind.
  [[nodiscard]] virtual const KindCounts& counts(std::size_t place) const = 0;
};

struct EngineConfig {
  std::string engine;  // one of kEngines
  BackendChoice backend = BackendChoice::kAuto;
  int device = 0;
  Durability durability = Durability::kDefault;
  std::uint64_t memtable_bytes = 0;
  std::uint64_t log_segment_bytes = 0;      // 0: the store's default; Breccia only
  std::uint64_t log_preallocate_bytes = 0;  // Breccia only
  std::uint64_t cache_bytes = 0;
  std::optional<std::uint64_t> clean_bytes;        // none: the store's default; Breccia only
  std::optional<std::uint64_t> entry_cache_bytes;  // the same
  std::uint64_t residency_bytes = 0;
  std::uint64_t hot_keys = 0;  // that a tier keeps; Breccia only
  bool transactions = false;   // RocksDB is opened as an OptimisticTransactionDB
  bool columns = false;        // groups are filled from columns; Breccia only
  bool registered = false;     // with columns: keys lie in registered memory
  bool in_place = false;       // large values stay in the log's memory; Breccia only
  RocksdbTuning rocksdb;       // of RocksDB, as the engine or below Breccia
  int bloom_bits = -1;
  std::string compression;
  bool no_compactions = false;  // but those that are asked for
  std::string rocksdb_options;  // as RocksDB reads them; they win over those of the flags
  std::string cluster;          // the file of one; disagg only
  std::uint32_t threads = 1;    // that have sessions
  // What will be in it.
  std::uint64_t keys = 0;
  std::size_t key_size = 0;
  std::size_t value_size = 0;
};

inline constexpr const char* kEngines[] = {"breccia", "hash",    "slab",  "slab_in_place",
                                           "rocksdb", "flatmap", "disagg"};

/// Where a database lies. An empty wal_dir is the engine's own default.
struct Place {
  std::string db;
  std::string wal_dir;
};

/// What an engine made of its EngineConfig.
struct InEffect {
  std::uint64_t memtable_bytes = 0;
  std::uint64_t log_segment_bytes = 0;  // 0: the engine has none
  std::uint64_t cache_bytes = 0;
  int bloom_bits = -1;
  std::uint64_t clean_bytes = 0;  // Breccia only, as the next
  std::uint64_t entry_cache_bytes = 0;
  std::uint64_t residency_bytes = 0;
  double residency_load_bytes_per_s = 0;  // of files' bytes, since it was opened; 0: of none
  bool columns = false;
  bool registered = false;
  bool in_place = false;
};

class Engine {
 public:
  virtual ~Engine() = default;
  virtual std::unique_ptr<Session> session(const Sampling& sampling, std::size_t key_size_max) = 0;
  virtual Status flush() = 0;
  /// Whether files are compacted now, or soon will be.
  virtual bool compacts() = 0;
  /// Whether keys of files are still on their way to where lookups find them.
  virtual bool loads() { return false; }
  virtual InEffect in_effect() = 0;
  /// Whether what was written is there when the engine is opened again.
  virtual bool keeps() { return true; }
  /// Whether it is as empty as the place that was made new for it.
  /// Errors  InvalidArgument: it has keys, which lie elsewhere.
  virtual Status check_new() { return Status::OK(); }
  /// Deletes all keys that do not lie in its place.
  virtual Status clean() { return Status::OK(); }
  /// How sessions that are made from now on use the engine; what its opening decides stays.
  virtual void retune(const RocksdbTuning& /*tuning*/) {}
  /// How the engine is used, in words; empty: there is nothing to choose.
  virtual std::string settings() { return ""; }
  /// What runs the batches, as the engine names it.
  virtual std::string backend() = 0;
};

/// The end of scans: behind every key of a benchmark.
[[nodiscard]] inline Slice scan_end() { return {"\xff\xff\xff\xff\xff\xff\xff\xff\xff", 9}; }

/// Opens `config.engine` in `place`, making the database if there is none.
Result<std::unique_ptr<Engine>> open_engine(const EngineConfig& config, const Place& place);
Result<std::unique_ptr<Engine>> open_breccia(const EngineConfig& config, const Place& place);
/// Breccia with the hash engine: what speaks of a tree has no meaning.
Result<std::unique_ptr<Engine>> open_hash(const EngineConfig& config, const Place& place);
/// Breccia with the slab engine, which has neither a folder nor a log.
/// Errors  InvalidArgument: slab_in_place, and other sizes than 8 bytes.
Result<std::unique_ptr<Engine>> open_slab(const EngineConfig& config);
/// Breccia as a client of a cluster, whose keys lie there.
Result<std::unique_ptr<Engine>> open_disagg(const EngineConfig& config);
Result<std::unique_ptr<Engine>> open_rocksdb(const EngineConfig& config, const Place& place);
/// Errors  NotSupported: it was left out of this build; InvalidArgument: other sizes than 8 bytes.
Result<std::unique_ptr<Engine>> open_flat_map(const EngineConfig& config);

/// RocksDB's options for both engines: the database itself, or the one below Breccia.
rocksdb::Options rocksdb_options(const EngineConfig& config);

/// Sets those that `text` names.
/// Errors  InvalidArgument, NotFound, as RocksDB says them.
Status add_options(const std::string& text, rocksdb::Options* options);

/// A read whose result is looked at: its place among the group's lookups, or scans, and the number
/// of its request.
struct SampledRead {
  std::uint32_t read;
  std::uint64_t number;
};

}  // namespace breccia::bench
