#include <breccia/disagg_options.h>
#include <breccia/hash_options.h>
#include <breccia/options.h>
#include <breccia/slab_options.h>
#include <breccia/store.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <vector>

#include "base/prefetch.h"
#include "batch/requests.h"
#include "bench/engines/engine.h"
#include "bench/engines/request_columns.h"
#include "tree/read_defaults.h"

namespace breccia::bench {

namespace {

struct Group {
  Group(Store* store, std::size_t value_size)
      : first(store->NewBatch()), second(store->NewBatch()), columns(value_size) {}

  Batch first;
  Batch second;            // writes of read-modify-writes
  RequestColumns columns;  // what both are filled from, where they are filled so
  KindCounts counts{};
  std::vector<SampledRead> sampled;
  std::vector<SampledRead> sampled_scans;
};

class BrecciaSession final : public Session {
 public:
  BrecciaSession(Store* store, const EngineConfig& config, const Sampling& sampling,
                 std::size_t key_size_max)
      : store_(store),
        options_{.durability = config.durability},
        sampling_(sampling),
        columns_(config.columns),
        registered_(config.registered),
        in_place_(config.in_place),
        value_size_(config.value_size),
        chunk_(key_size_max),
        reads_(store->NewBatch()) {}

  Status put(const Slice& key, const Slice& value) override {
    return store_->Put(options_, key, value);
  }

  Status erase(const Slice& key) override { return store_->Delete(options_, key); }

  Status merge(const Slice& key, const Slice& operand) override {
    return store_->Merge(options_, key, operand);
  }

  Status scan(const Slice& begin, std::uint32_t entries, ScanDigest* digest) override {
    single_.Clear();
    BRECCIA_TRY(single_.Range(begin, scan_end(), entries));
    BRECCIA_TRY(store_->Submit(options_, &single_));
    digest_range(single_, 0, digest);
    return batch::status_of(single_.range_code(0));
  }

  Status get(const Slice& key, Slice* value) override {
    Status status = store_->Get(key, &value_);
    *value = value_;
    return status;
  }

  Status build(const Stream& stream, std::uint64_t first, std::uint32_t count,
               std::size_t place) override {
    while (groups_.size() <= place) groups_.emplace_back(store_, value_size_);
    Group& group = groups_[place];
    group.first.Clear();
    group.first.SetValuesInPlace(in_place_);
    group.second.Clear();
    // RequestColumns stay as they are until both have run, and until build() comes here again.
    group.first.SetColumnsInPlace(columns_);
    group.second.SetColumnsInPlace(columns_);
    group.columns.clear();
    group.counts = {};
    group.sampled.clear();
    group.sampled_scans.clear();
    if (RequestColumns::takes(stream.arrays())) return take(*stream.arrays(), first, count, &group);
    if (stream.arrays() != nullptr && !columns_) {
      return take_mixed(*stream.arrays(), first, count, &group);
    }
    Status failure;
    for_each_request(stream, first, count, &chunk_,
                     [&](std::uint64_t number, const Request& request) {
                       if (sampling_.takes(number)) note_sample(&group, number, request.kind);
                       Status status = add(&group, request);
                       if (!status.ok()) failure = std::move(status);
                     });
    BRECCIA_TRY(failure);
    return columns_ ? group.columns.add_to(&group.first, &group.second) : Status();
  }

  Status run(std::size_t place, Audit* audit) override {
    Group& group = groups_[place];
    Status status = store_->Submit(options_, &group.first);
    if (!status.ok()) return status;
    add_reads(group.first, group.sampled, audit);
    read_scans(group, audit);
    if (group.second.writes() > 0) status = store_->Submit(options_, &group.second);
    return status;
  }

  Status transact(const Stream& stream, std::uint64_t first, std::uint32_t count, Lookups lookups,
                  Audit* audit, std::uint64_t* filling_ns) override {
    const auto begin = std::chrono::steady_clock::now();
    const auto transaction = store_->OpenTransaction();
    Batch& writes = transaction->batch();
    Batch& reads = lookups == Lookups::kInOrder ? writes : reads_;
    reads.Clear();
    sampled_.clear();
    Status failure;
    for_each_request(
        stream, first, count, &chunk_, [&](std::uint64_t number, const Request& request) {
          Status status = request.kind == Kind::kUpdate ? writes.Put(request.key, request.value)
                                                        : look_up(&reads, number, request);
          if (!status.ok()) failure = std::move(status);
        });
    BRECCIA_TRY(failure);
    *filling_ns += static_cast<std::uint64_t>((std::chrono::steady_clock::now() - begin).count());
    if (lookups == Lookups::kAtOpening) BRECCIA_TRY(transaction->Read(&reads));
    if (audit == nullptr) return Status();
    BRECCIA_TRY(transaction->Close(options_));
    add_reads(reads, sampled_, audit);
    return Status();
  }

  [[nodiscard]] const KindCounts& counts(std::size_t place) const override {
    return groups_[place].counts;
  }

 private:
  static void add_reads(const Batch& batch, const std::vector<SampledRead>& sampled, Audit* audit) {
    // They lie far apart: those of some samples are fetched at once.
    constexpr std::size_t kAtOnce = 16;
    std::array<Status::Code, kAtOnce> codes;
    std::array<Slice, kAtOnce> values;
    for (std::size_t from = 0; from < sampled.size(); from += kAtOnce) {
      const std::size_t count = std::min(kAtOnce, sampled.size() - from);
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t read = sampled[from + i].read;
        codes[i] = batch.code(read);
        values[i] = codes[i] == Status::kOk ? batch.value(read) : Slice();
        base::prefetch(values[i].data());
      }
      for (std::size_t i = 0; i < count; ++i) {
        audit->lookup(sampled[from + i].number, codes[i], values[i]);
      }
    }
  }

  static void digest_range(const Batch& batch, std::size_t range, ScanDigest* digest) {
    const std::size_t size = batch.range_size(range);
    if (const std::uint64_t* const pairs = batch.range_pairs(range)) {
      for (std::size_t i = 0; i < size; ++i) {
        const auto* const pair = reinterpret_cast<const char*>(pairs + 2 * i);
        digest->add(Slice(pair, sizeof *pairs), Slice(pair + sizeof *pairs, sizeof *pairs));
      }
      return;
    }
    for (std::size_t i = 0; i < size; ++i) {
      const auto [key, value] = batch.range_entry(range, i);
      digest->add(key, value);
    }
  }

  /// Reads every entry of every scan, as a client would.
  static void read_scans(const Group& group, Audit* audit) {
    auto sample = group.sampled_scans.begin();
    for (std::size_t i = 0; i < group.first.ranges(); ++i) {
      const bool sampled = sample != group.sampled_scans.end() && sample->read == i;
      ScanDigest digest(sampled);
      digest_range(group.first, i, &digest);
      if (!sampled) {
        unsampled_ = unsampled_ + static_cast<std::uint8_t>(digest.bytes()[0]);
        continue;
      }
      audit->scan(sample->number, group.first.range_code(i), digest);
      ++sample;
    }
  }

  /// Adds a lookup of a transaction.
  Status look_up(Batch* reads, std::uint64_t number, const Request& request) {
    BRECCIA_ASSERT(request.kind == Kind::kGet);
    if (sampling_.takes(number)) {
      sampled_.push_back({static_cast<std::uint32_t>(reads->reads()), number});
    }
    return reads->Get(request.key);
  }

  /// Remembers the place of a lookup or scan that will be looked at: so many came before it.
  static void note_sample(Group* group, std::uint64_t number, Kind kind) {
    const auto before = [&](Kind one) { return group->counts[static_cast<std::size_t>(one)]; };
    const bool looks_up = kind == Kind::kGet || kind == Kind::kReadModifyWrite;
    if (looks_up) {
      group->sampled.push_back({before(Kind::kGet) + before(Kind::kReadModifyWrite), number});
    } else if (kind == Kind::kScan) {
      group->sampled_scans.push_back({before(Kind::kScan), number});
    }
  }

  /// Registers the keys of a stream, before its first batch is built.
  Status register_keys(const RequestArrays& arrays) {
    if (!registered_ || keys_ == arrays.keys) return Status();
    keys_ = arrays.keys;
    return store_->RegisterMemory(const_cast<char*>(keys_), arrays.key_bytes, &registration_);
  }

  /// Fills a group with requests that lie in arrays.
  Status take(const RequestArrays& arrays, std::uint64_t first, std::uint32_t count, Group* group) {
    BRECCIA_TRY(register_keys(arrays));
    group->counts[static_cast<std::size_t>(arrays.kind)] = count;
    if (arrays.kind == Kind::kGet) {
      sampling_.for_each(first, first + count, [&](std::uint64_t number) {
        group->sampled.push_back({static_cast<std::uint32_t>(number - first), number});
      });
    }
    if (columns_) {
      group->columns.take(arrays, first, count);
      return group->columns.add_to(&group->first, &group->second);
    }
    Batch& batch = group->first;
    for (std::uint64_t i = first; i < first + count; ++i) {
      const Slice key(arrays.keys + i * arrays.key_stride, arrays.key_stride);
      const Slice value(arrays.values + i * arrays.value_size, arrays.value_size);
      BRECCIA_TRY(add_one(arrays.kind, key, value, &batch));
    }
    return Status();
  }

  /// The same with requests of several kinds.
  Status take_mixed(const RequestArrays& arrays, std::uint64_t first, std::uint32_t count,
                    Group* group) {
    // Asking of each request whether it is looked at would take as long as adding it.
    numbers_.clear();
    sampling_.for_each(first, first + count,
                       [&](std::uint64_t number) { numbers_.push_back(number); });
    auto sampled = numbers_.begin();
    for (std::uint64_t number = first; number < first + count; ++number) {
      const Request request = arrays.at(number);
      if (sampled != numbers_.end() && *sampled == number) {
        note_sample(group, number, request.kind);
        ++sampled;
      }
      BRECCIA_TRY(add(group, request));
    }
    return Status();
  }

  static Status add_one(Kind kind, const Slice& key, const Slice& value, Batch* batch) {
    switch (kind) {
      case Kind::kGet:
        return batch->Get(key);
      case Kind::kDelete:
        return batch->Delete(key);
      case Kind::kMerge:
        return batch->Merge(key, value);
      default:
        BRECCIA_ASSERT(kind == Kind::kUpdate || kind == Kind::kInsert);
        return batch->Put(key, value);
    }
  }

  Status add(Group* group, const Request& request) const {
    const auto& [kind, key, value, scan_entries] = request;
    ++group->counts[static_cast<std::size_t>(kind)];
    if (columns_) {
      group->columns.add(request);
      return Status();
    }
    if (kind == Kind::kScan) return group->first.Range(key, scan_end(), scan_entries);
    if (kind != Kind::kReadModifyWrite) return add_one(kind, key, value, &group->first);
    BRECCIA_TRY(group->first.Get(key));
    return group->second.Put(key, value);
  }

  Store* const store_;
  const WriteOptions options_;
  const Sampling sampling_;
  const bool columns_;
  const bool registered_;
  const bool in_place_;
  const std::size_t value_size_;
  Chunk chunk_;
  std::vector<Group> groups_;
  Batch single_;
  Batch reads_;                         // of the transaction, where they are as of its opening
  std::vector<SampledRead> sampled_;    // of the transaction
  std::vector<std::uint64_t> numbers_;  // of requests that are looked at
  const char* keys_ = nullptr;          // that are registered
  MemoryRegistration registration_;
  std::string value_;
  /// Where digests go that nobody compares, so that no compiler leaves their reading out.
  inline static thread_local volatile std::uint8_t unsampled_ = 0;
};

bool is_in_place(const EngineConfig& config) { return config.engine == "slab_in_place"; }
bool is_slab(const EngineConfig& config) { return config.engine == "slab" || is_in_place(config); }
bool is_disagg(const EngineConfig& config) { return config.engine == "disagg"; }

class BrecciaEngine final : public Engine {
 public:
  BrecciaEngine(std::unique_ptr<Store> store, const EngineConfig& config)
      : store_(std::move(store)), config_(config) {}

  std::unique_ptr<Session> session(const Sampling& sampling, std::size_t key_size_max) override {
    return std::make_unique<BrecciaSession>(store_.get(), config_, sampling, key_size_max);
  }
  Status flush() override { return keeps() ? store_->Flush() : Status::OK(); }
  bool keeps() override { return !is_slab(config_) && !is_disagg(config_); }
  Status check_new() override {
    if (!is_disagg(config_)) return Status::OK();
    Batch first = store_->NewBatch();
    BRECCIA_TRY(find_keys(1, &first));
    if (first.range_size(0) == 0) return Status::OK();
    return Status::InvalidArgument("the cluster has keys that no benchmark may delete");
  }
  Status clean() override {
    while (is_disagg(config_)) {
      Batch found = store_->NewBatch(), deletions = store_->NewBatch();
      BRECCIA_TRY(find_keys(kCleanedAtOnce, &found));
      if (found.range_size(0) == 0) break;
      for (std::size_t i = 0; i < found.range_size(0); ++i) {
        BRECCIA_TRY(deletions.Delete(found.range_entry(0, i).first));
      }
      BRECCIA_TRY(store_->Submit({}, &deletions));
    }
    return Status::OK();
  }
  bool loads() override {
    if (config_.residency_bytes == 0) return false;
    const std::uint64_t listed = number("breccia.residency.files-listed");  // 0: not looked yet
    return listed == 0 || number("breccia.residency.files") < listed;
  }
  bool compacts() override {
    return number("rocksdb.num-running-compactions") > 0 ||
           number("rocksdb.compaction-pending") > 0;
  }
  InEffect in_effect() override {
    return {.memtable_bytes = number("breccia.memtable-bytes"),
            .log_segment_bytes = number("breccia.log-segment-bytes"),
            .cache_bytes = config_.cache_bytes,
            .bloom_bits = config_.bloom_bits,
            .clean_bytes = config_.clean_bytes.value_or(number("breccia.memtable-bytes")),
            .entry_cache_bytes = number("breccia.entry-cache.bytes-max"),
            .residency_bytes = config_.residency_bytes,
            .residency_load_bytes_per_s =
                static_cast<double>(number("breccia.residency.load-bytes")) * 1e6 /
                std::max(1.0, static_cast<double>(number("breccia.residency.load-micros"))),
            .columns = config_.columns,
            .registered = config_.registered,
            .in_place = config_.in_place};
  }
  std::string backend() override {
    std::string name;
    const char* const property = is_disagg(config_) ? "breccia.disagg.network" : "breccia.backend";
    return store_->GetProperty(property, &name) ? name : "unknown";
  }

 private:
  static constexpr std::uint32_t kCleanedAtOnce = 4096;

  Status find_keys(std::uint32_t limit, Batch* found) {
    BRECCIA_TRY(found->Range("", scan_end(), limit));
    BRECCIA_TRY(store_->Submit({}, found));
    return batch::status_of(found->range_code(0));
  }
  /// 0 of a name that the engine does not have.
  std::uint64_t number(const std::string& name) {
    std::string text;
    if (!store_->GetProperty(name, &text)) return 0;
    return std::strtoull(text.c_str(), nullptr, 10);
  }

  const std::unique_ptr<Store> store_;
  const EngineConfig config_;
};

std::optional<HotOptions> hot_tier(const EngineConfig& config) {
  if (config.hot_keys == 0) return std::nullopt;
  HotOptions options;
  options.keys_max = config.hot_keys;
  return options;
}

}  // namespace

Result<std::unique_ptr<Engine>> open_breccia(const EngineConfig& config, const Place& place) {
  Options options;
  options.create_if_missing = true;
  options.backend = config.backend;
  options.device = config.device;
  options.wal_dir = place.wal_dir;
  options.hot_tier = hot_tier(config);
  options.memtable_bytes = config.memtable_bytes;
  if (config.log_segment_bytes != 0) options.log_segment_bytes = config.log_segment_bytes;
  options.log_preallocate_bytes = config.log_preallocate_bytes;
  options.clean_bytes = config.clean_bytes;
  options.entry_cache_bytes = config.entry_cache_bytes.value_or(tree::default_entry_cache_bytes());
  options.residency_bytes = config.residency_bytes;
  options.rocksdb = rocksdb_options(config);
  options.read_defaults = false;  // sizes are as the flags say, filters as chosen there or here
  std::unique_ptr<Store> store;
  BRECCIA_TRY(Store::Open(options, place.db, &store));
  std::unique_ptr<Engine> engine = std::make_unique<BrecciaEngine>(std::move(store), config);
  return engine;
}

Result<std::unique_ptr<Engine>> open_hash(const EngineConfig& config, const Place& place) {
  HashOptions options;
  options.create_if_missing = true;
  options.backend = config.backend;
  options.device = config.device;
  options.wal_dir = place.wal_dir;
  options.hot_tier = hot_tier(config);
  if (config.log_segment_bytes != 0) options.log_segment_bytes = config.log_segment_bytes;
  options.log_preallocate_bytes = config.log_preallocate_bytes;
  options.keys_expected = config.keys;
  std::unique_ptr<Store> store;
  BRECCIA_TRY(Store::Open(options, place.db, &store));
  std::unique_ptr<Engine> engine = std::make_unique<BrecciaEngine>(std::move(store), config);
  return engine;
}

Result<std::unique_ptr<Engine>> open_slab(const EngineConfig& config) {
  if (is_in_place(config) && (config.key_size != 8 || config.value_size != 8)) {
    return Status::InvalidArgument("slab_in_place needs --key_size 8 and --value_size 8");
  }
  SlabOptions options;
  options.backend = config.backend;
  options.device = config.device;
  options.hot_tier = hot_tier(config);
  options.keys_expected = config.keys;
  options.in_place = is_in_place(config);
  std::unique_ptr<Store> store;
  BRECCIA_TRY(Store::Open(options, &store));
  std::unique_ptr<Engine> engine = std::make_unique<BrecciaEngine>(std::move(store), config);
  return engine;
}

Result<std::unique_ptr<Engine>> open_disagg(const EngineConfig& config) {
  DisaggOptions options;
  options.config = config.cluster;
  options.hot_tier = hot_tier(config);
  options.clients_max = config.threads + 1;  // one may write beside them
  std::unique_ptr<Store> store;
  BRECCIA_TRY(Store::Open(options, &store));
  std::unique_ptr<Engine> engine = std::make_unique<BrecciaEngine>(std::move(store), config);
  return engine;
}

}  // namespace breccia::bench
