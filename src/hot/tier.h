#pragma once

#include <breccia/hot_options.h>
#include <breccia/stackable_store.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/bell.h"
#include "base/counters.h"
#include "base/result.h"
#include "hot/copies.h"
#include "hot/roads.h"
#include "hot/sampler.h"
#include "hot/trainer.h"
#include "record/key_columns.h"
#include "record/keyed_hash.h"

namespace breccia::hot {

/// Hot keys in front of a store.
/// Source  [kvcg] sections 4, 6, 7 (docs/impl/hot.md).
class Tier final : public StackableStore {
 public:
  /// Errors  InvalidArgument: options of no sense; MemoryLimit.
  static Result<std::unique_ptr<Store>> make(const HotOptions& options,
                                             std::unique_ptr<Store> below);
  /// Errors  InvalidArgument: options of no sense.
  static Status check(const HotOptions& options);
  ~Tier() override;

  Status Close() override;
  Status Submit(const WriteOptions& options, Batch* batch) override;
  void SubmitAsync(const WriteOptions& options, Batch* batch,
                   std::function<void(Status)> done) override;
  [[nodiscard]] std::unique_ptr<Transaction> OpenTransaction() override;
  Status Put(const WriteOptions& options, const Slice& key, const Slice& value) override;
  Status Delete(const WriteOptions& options, const Slice& key) override;
  Status Merge(const WriteOptions& options, const Slice& key, const Slice& operand) override;
  Status Get(const Slice& key, std::string* value) override;
  bool GetProperty(const std::string& name, std::string* value) override;

 private:
  class Told;
  class Behind;
  class Divided;
  class Writing;
  Tier(const HotOptions& options, std::unique_ptr<Store> below, std::unique_ptr<Copies> copies);

  [[nodiscard]] std::uint64_t hash_of(const Slice& key) const {
    return record::keyed_hash(key.data(), key.size(), seed_);
  }
  [[nodiscard]] bool keeps(std::size_t value_bytes) const {
    return value_bytes <= options_.value_bytes_max;
  }
  template <class HashOf>
  void see(std::uint64_t count, const HashOf& hash_of);
  void see(const record::KeyColumnsRef& keys);
  void see(const batch::Requests& requests);
  void bring(std::uint64_t hash, const Slice& key, const Copies::Lease& lease, const Status& found,
             const std::string& value);
  template <class WriteBelow>
  Status write(const WriteOptions& options, const Slice& key, const std::optional<Slice>& value,
               const WriteBelow& write_below);
  std::optional<Status> write_at_moment(const WriteOptions& options, const Roads::Way& way,
                                        const Slice& key, const std::optional<Slice>& value);
  Status submit_told(const WriteOptions& options, Batch* batch);
  Status submit_at_moment(const WriteOptions& options, Batch* batch);
  Status get(const Slice& key, std::string* value);
  Status look_up(const WriteOptions& options, Batch* batch);
  void take(const Sampler::Samples& samples);
  void learn();
  void change(const ModelPtr& next);
  void stop();

  const HotOptions options_;
  const record::HashSeed seed_;
  const std::unique_ptr<Copies> copies_;
  Trainer trainer_;  // of the thread
  Roads roads_;
  Sampler sampler_;
  enum Count { kLookups, kHits, kMisses, kCounts };
  base::Counters<kCounts> counts_;
  std::atomic<std::uint64_t> change_us_{0};      // that the last one took
  std::atomic<std::uint64_t> change_us_max_{0};  // and the longest
  std::atomic<bool> is_closed_{false};

  std::mutex mutex_;  // of the samples
  std::vector<std::uint64_t> samples_;
  base::Bell bell_;
  std::atomic<bool> stops_{false};
  std::thread thread_;
};

}  // namespace breccia::hot
