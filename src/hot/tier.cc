#include "hot/tier.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/secret.h"
#include "batch/answers.h"
#include "batch/requests.h"
#include "hot/exchange.h"
#include "record/key_columns.h"

namespace breccia::hot {

namespace {

/// Samples that wait for who learns from them; more are lost.
constexpr std::size_t kSamplesMax = 64 << 10;
/// Lookups of a batch that is divided: who asks for more at once does not wait for single ones.
constexpr std::uint64_t kDividedMax = 4096;
constexpr std::uint64_t kKeysMax = 16 << 20;
constexpr std::uint64_t kSamplesOfWindowMax = 64 << 20;
constexpr std::uint64_t kSeenOfBatch = 32 << 10;
/// The first window is so much shorter than the others.
constexpr std::uint64_t kFirstShare = 64;

Status check_moment(const WriteOptions& options) {
  if (options.moment == nullptr) return Status::OK();
  return Status::NotSupported("a tier of hot keys tells nobody of moments");
}

}  // namespace

/// Writes of requests that were told of. Copies do not come of them: what a batch leaves of a key
/// that it writes twice its columns do not say.
/// Owner   requests and the tier outlive it.
class Tier::Told {
 public:
  explicit Told(Tier* tier) : tier_(tier), way_(tier->roads_) {}
  ~Told() {
    if (tells_of_any_) tier_->copies_->end_write_of_any();
    for (const auto& [hash, write] : writes_) tier_->copies_->end_write(hash, write);
  }
  Told(const Told&) = delete;
  Told& operator=(const Told&) = delete;

  void tell(const batch::Requests& requests) {
    tier_->see(requests);
    for (const auto& writes : requests.writes()) {
      if (writes->family() != kDefaultFamily) continue;
      writes->range_deletes().empty() ? tell(writes->keys()) : tell_of_any();
    }
  }

 private:
  void tell(const record::KeyColumnsRef& keys) {
    if (way_.is_idle() || tells_of_any_) return;
    const std::vector<std::vector<ToldWrite>> told = told_of(way_, keys, tier_->seed_);
    std::uint64_t count = 0;
    for (const std::vector<ToldWrite>& list : told) count += list.size();
    // More than it takes to tell of any.
    if (count > tier_->copies_->buckets()) return tell_of_any();
    writes_.reserve(writes_.size() + count);  // throws before it is told
    std::string key;
    for (const std::vector<ToldWrite>& list : told) {
      for (const ToldWrite& one : list) {
        key.resize(keys.bytes_at(one.write));
        record::restore_key(keys, one.write, key.data());
        writes_.emplace_back(one.hash, tier_->copies_->begin_write(one.hash, key));
      }
    }
  }

  void tell_of_any() {
    if (tells_of_any_ || way_.is_idle()) return;
    tells_of_any_ = true;
    tier_->copies_->begin_write_of_any();
  }

  Tier* const tier_;
  const Roads::Way way_;
  bool tells_of_any_ = false;
  std::vector<std::pair<std::uint64_t, Copies::Write>> writes_;
};

/// Lookups of a batch, those of keys that have copies answered, and the others of a batch for the
/// store below.
/// Owner   requests and the tier outlive it; the requests keep the other batch.
class Tier::Divided {
 public:
  Divided(Tier* tier, batch::Requests* requests)
      : tier_(tier), way_(tier->roads_), requests_(*requests) {}

  /// Whether a batch is nothing but lookups of the default family, whose values go to the batch: an
  /// array of the caller's is to have the store's answer alone.
  static bool suits(const batch::Requests& requests) {
    if (requests.write_count() > 0 || requests.range_count() > 0 || requests.reads().size() != 1) {
      return false;
    }
    const batch::Reads& reads = *requests.reads().front();
    if (reads.family() != kDefaultFamily || reads.rows() != nullptr) return false;
    if (reads.count() == 0 || reads.count() > kDividedMax) return false;
    const batch::Stretch first = reads.stretch_at(0);
    return first.into.found == nullptr && first.end == reads.count();
  }
  [[nodiscard]] bool is_idle() const { return way_.is_idle(); }
  /// Samples the lookups.
  void see() const { tier_->see(requests_.reads().front()->keys()); }
  /// Answers what copies have. Returns how many.
  /// Errors  MemoryLimit.
  Result<std::uint64_t> answer() {
    if (!requests_.prepare_results(/*parts=*/1, /*with_bounds=*/false)) {
      return Status::MemoryLimit("no memory for the results");
    }
    others_ = requests_.none_chosen();
    batch::Reads* const reads = requests_.reads().front().get();
    batch::Answers answers(reads, &requests_.arena(0));
    const record::KeyColumnsRef keys = reads->keys();
    see();
    for (std::uint64_t i = 0; i < keys.count; ++i) {
      const std::uint64_t hash = record::keyed_hash(keys, i, tier_->seed_);
      others_.reads.front()[i] = !way_.looks(hash) || !find(keys, i, hash, &answers);
    }
    return seen_.size();
  }
  /// Asks the store below for the others. False: what copies had is not of that moment.
  Result<bool> ask_below(const WriteOptions& options) {
    if (seen_.size() < requests_.read_count()) {
      below_ = std::make_shared<Batch>(tier_->below()->NewBatch());
      below_->SetValuesInPlace(requests_.values_in_place());
      if (!below_->requests().append(requests_, others_)) {
        return Status::MemoryLimit("no memory for what copies do not have");
      }
      BRECCIA_TRY(tier_->below()->Submit(options, below_.get()));
    }
    for (const auto& [hash, version] : seen_) {
      if (tier_->copies_->version(hash) != version) return false;
    }
    if (below_ != nullptr) below_->requests().hand_over(&requests_, others_);
    requests_.deliver();
    requests_.hold(below_);
    bring();
    return true;
  }
  /// Hot keys that had no copy.
  [[nodiscard]] std::uint64_t lacked() const { return hot_without_; }
  /// Brings copies of what was found of hot keys that had none, when all lookups have answers.
  void bring() {
    const batch::Reads& reads = *requests_.reads().front();
    for (const Lacked& one : lacked_) {
      const batch::ReadResult result = reads.result(one.read);
      const bool is_found = result.code == Status::Code::kOk;
      if (is_found ? !tier_->keeps(result.bytes) : result.code != Status::Code::kNotFound) continue;
      restore_key(reads.keys(), one.read);
      tier_->copies_->bring(
          one.hash, key_, one.lease,
          is_found ? std::optional(Slice(result.data, result.bytes)) : std::nullopt);
    }
  }

 private:
  struct Lacked {
    std::uint64_t read;
    std::uint64_t hash;
    Copies::Lease lease;
  };

  bool find(const record::KeyColumnsRef& keys, std::uint64_t i, std::uint64_t hash,
            batch::Answers* answers) {
    restore_key(keys, i);
    const std::uint64_t version = tier_->copies_->version(hash);
    const Copy copy = tier_->copies_->find_settled(hash, key_, &value_);
    if (copy == Copy::kNone) {
      const auto lease = tier_->copies_->lease(hash);
      if (lease.has_value()) lacked_.push_back({i, hash, *lease});
      ++hot_without_;
      return false;
    }
    copy == Copy::kValue ? answers->add_value(i, value_) : answers->add(i, Status::Code::kNotFound);
    seen_.emplace_back(hash, version);
    return true;
  }

  void restore_key(const record::KeyColumnsRef& keys, std::uint64_t i) {
    key_.resize(keys.bytes_at(i));
    record::restore_key(keys, i, key_.data());
  }

  Tier* const tier_;
  const Roads::Way way_;
  batch::Requests& requests_;
  batch::Selection others_;
  std::shared_ptr<Batch> below_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> seen_;  // hash, version
  std::vector<Lacked> lacked_;
  std::uint64_t hot_without_ = 0;
  std::string key_, value_;
};

/// A transaction of the store below, whose writes are told of when it closes.
class Tier::Behind final : public Transaction {
 public:
  Behind(Tier* tier, std::unique_ptr<Transaction> below) : tier_(tier), below_(std::move(below)) {}

  [[nodiscard]] Batch& batch() override { return below_->batch(); }
  Status Read(Batch* reads) override { return below_->Read(reads); }
  Status Close(const WriteOptions& options) override {
    if (std::exchange(is_over_, true)) return Status::InvalidArgument("it was closed before");
    return base::or_memory_limit([&] {
      BRECCIA_TRY(check_moment(options));
      Told told(tier_);
      told.tell(below_->batch().requests());
      return below_->Close(options);
    });
  }

 private:
  Tier* const tier_;
  const std::unique_ptr<Transaction> below_;
  bool is_over_ = false;
};

Result<std::unique_ptr<Store>> Tier::make(const HotOptions& options, std::unique_ptr<Store> below) {
  BRECCIA_ASSERT(below != nullptr);
  BRECCIA_TRY(check(options));
  std::unique_ptr<Tier> tier;
  BRECCIA_TRY(base::or_memory_limit([&] {
    BRECCIA_TAKE(auto copies, Copies::make(options.keys_max));
    tier.reset(new Tier(options, std::move(below), std::move(copies)));
    return Status::OK();
  }));
  BRECCIA_TRY(base::or_error([&] {
    tier->thread_ = std::thread([raw = tier.get()] { raw->learn(); });
    return Status::OK();
  }));
  return std::unique_ptr<Store>(std::move(tier));
}

Status Tier::check(const HotOptions& options) {
  const bool has_sense = options.keys_max > 0 && options.keys_max <= kKeysMax &&
                         options.sample_one_in > 0 && options.samples_of_window > 0 &&
                         options.samples_of_window <= kSamplesOfWindowMax;
  if (has_sense) return Status::OK();
  return Status::InvalidArgument(
      "hot_tier: keys_max of 1 to 16 Mi, sample_one_in of 1 and more, "
      "samples_of_window of 1 to 64 Mi");
}

Tier::Tier(const HotOptions& options, std::unique_ptr<Store> below, std::unique_ptr<Copies> copies)
    : StackableStore(std::move(below)),
      options_(options),
      seed_{base::draw_secret_word(), base::draw_secret_word() | 1},
      copies_(std::move(copies)),
      trainer_({.keys_max = options.keys_max,
                .samples_of_window = options.samples_of_window,
                .samples_of_first = options.samples_of_window / kFirstShare,
                .gain_min = options.gain_min}),
      roads_([this](const Model& next) { copies_->evict(next); }),
      sampler_(options.sample_one_in, [this](const Sampler::Samples& samples) { take(samples); }) {}

/// What was submitted to run later runs while there is still what it tells.
Tier::~Tier() { Close().PermitUncheckedError(); }

Status Tier::Close() {
  is_closed_ = true;
  stop();
  return below()->Close();
}

void Tier::stop() {
  stops_ = true;
  bell_.ring();
  if (thread_.joinable()) thread_.join();
}

/// Of many that come at once some thousands, from all over.
template <class HashOf>
void Tier::see(std::uint64_t count, const HashOf& hash_of) {
  const std::uint64_t step = count / kSeenOfBatch + 1;
  sampler_.see((count + step - 1) / step, [&](std::uint64_t i) { return hash_of(i * step); });
}

void Tier::see(const record::KeyColumnsRef& keys) {
  see(keys.count, [&](std::uint64_t i) { return record::keyed_hash(keys, i, seed_); });
}

void Tier::see(const batch::Requests& requests) {
  for (const auto& writes : requests.writes()) {
    if (writes->family() == kDefaultFamily) see(writes->keys());
  }
  for (const auto& reads : requests.reads()) {
    if (reads->family() != kDefaultFamily) continue;
    const auto* const rows = reinterpret_cast<const char*>(reads->rows());
    if (rows == nullptr) {
      see(reads->keys());
      continue;
    }
    // Their columns are not to be written for this.
    const std::uint64_t bytes = reads->columns().uniform_bytes;
    see(reads->count(),
        [&](std::uint64_t i) { return record::keyed_hash(rows + i * bytes, bytes, seed_); });
  }
}

Status Tier::Get(const Slice& key, std::string* value) {
  return base::or_memory_limit([&] { return get(key, value); });
}

Status Tier::get(const Slice& key, std::string* value) {
  const std::uint64_t hash = hash_of(key);
  sampler_.see(hash);
  counts_.add(kLookups, 1);
  const Roads::Way way(roads_);
  if (!way.is_idle()) copies_->fetch(hash);  // beside the model's line
  if (!way.looks(hash) || is_closed_ || !Copies::may_look()) return below()->Get(key, value);
  const Copy copy = copies_->find(hash, key, value);
  counts_.add(copy == Copy::kNone ? kMisses : kHits, 1);
  if (copy == Copy::kValue) return Status::OK();
  if (copy == Copy::kDeleted) return Status::NotFound();
  const auto lease = copies_->lease(hash);
  std::string found_value;  // the key may lie in *value
  Status found = below()->Get(key, &found_value);
  if (lease.has_value()) bring(hash, key, *lease, found, found_value);
  if (found.ok()) value->swap(found_value);
  return found;
}

void Tier::bring(std::uint64_t hash, const Slice& key, const Copies::Lease& lease,
                 const Status& found, const std::string& value) {
  if (found.IsNotFound()) return copies_->bring(hash, key, lease, std::nullopt);
  if (found.ok() && keeps(value.size())) copies_->bring(hash, key, lease, Slice(value));
}

/// A write of one key that was told of. It ends with this, whatever the store below throws.
/// Owner   the copies outlive it.
class Tier::Writing {
 public:
  Writing(Copies* copies, std::uint64_t hash, const Slice& key)
      : copies_(copies), hash_(hash), key_(key), write_(copies->begin_write(hash, key)) {}
  ~Writing() {
    if (!is_over_) copies_->end_write(hash_, write_);
  }
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;

  /// What the key has is to be its copy.
  void keep(const std::optional<Slice>& value) {
    is_over_ = true;
    copies_->end_write(hash_, key_, write_, value);
  }

 private:
  Copies* const copies_;
  const std::uint64_t hash_;
  const Slice key_;
  const Copies::Write write_;
  bool is_over_ = false;
};

/// A write of one key, behind which it has this value, or none.
template <class WriteBelow>
Status Tier::write(const WriteOptions& options, const Slice& key, const std::optional<Slice>& value,
                   const WriteBelow& write_below) {
  BRECCIA_TRY(check_moment(options));
  const std::uint64_t hash = hash_of(key);
  sampler_.see(hash);
  const Roads::Way way(roads_);
  if (!way.tells(hash)) return write_below();
  if (below()->TellsMoments() && (!value.has_value() || keeps(value->size()))) {
    std::optional<Status> written = write_at_moment(options, way, key, value);
    if (written.has_value()) return std::move(*written);
  }
  Writing writing(copies_.get(), hash, key);
  Status written = write_below();
  if (written.ok() && way.looks(hash) && (!value.has_value() || keeps(value->size()))) {
    writing.keep(value);
  }
  return written;
}

/// None: there is no memory to tell so.
std::optional<Status> Tier::write_at_moment(const WriteOptions& options, const Roads::Way& way,
                                            const Slice& key, const std::optional<Slice>& value) {
  const std::uint64_t hash = hash_of(key);
  Exchange exchange(copies_.get());
  if (!exchange.open(1) || !exchange.add(0, hash, key, value, way.looks(hash))) {
    return std::nullopt;
  }
  return base::or_memory_limit([&] {
    Batch one;
    BRECCIA_TRY(value.has_value() ? one.Put(key, *value) : one.Delete(key));
    WriteOptions told = options;
    told.moment = &exchange;
    return below()->Submit(told, &one);
  });
}

Status Tier::Put(const WriteOptions& options, const Slice& key, const Slice& value) {
  return write(options, key, value, [&] { return below()->Put(options, key, value); });
}
Status Tier::Delete(const WriteOptions& options, const Slice& key) {
  return write(options, key, std::nullopt, [&] { return below()->Delete(options, key); });
}
/// What comes of it nobody knows here.
Status Tier::Merge(const WriteOptions& options, const Slice& key, const Slice& operand) {
  const std::uint64_t hash = hash_of(key);
  sampler_.see(hash);
  const Roads::Way way(roads_);
  if (!way.tells(hash)) return below()->Merge(options, key, operand);
  const Writing writing(copies_.get(), hash, key);
  return below()->Merge(options, key, operand);
}

Status Tier::Submit(const WriteOptions& options, Batch* batch) {
  return base::or_memory_limit([&] {
    BRECCIA_TRY(check_moment(options));
    if (Divided::suits(batch->requests())) return look_up(options, batch);
    return below()->TellsMoments() ? submit_at_moment(options, batch) : submit_told(options, batch);
  });
}

Status Tier::submit_told(const WriteOptions& options, Batch* batch) {
  Told told(this);
  told.tell(batch->requests());
  return below()->Submit(options, batch);
}

/// Copies stay while their keys are written, if what they are to be is known.
Status Tier::submit_at_moment(const WriteOptions& options, Batch* batch) {
  const batch::Requests& requests = batch->requests();
  const Roads::Way way(roads_);
  Exchange exchange(copies_.get());
  for (const auto& writes : requests.writes()) {
    if (way.is_idle() || writes->family() != kDefaultFamily) continue;
    if (!add_writes(way, *writes, seed_, options_.value_bytes_max, &exchange)) {
      return submit_told(options, batch);
    }
  }
  see(requests);
  WriteOptions told = options;
  told.moment = &exchange;
  return below()->Submit(told, batch);
}

/// Lookups alone, as of one moment: that of the store below, if copies were of it, too. A batch of
/// which copies have less than half is not worth being divided.
Status Tier::look_up(const WriteOptions& options, Batch* batch) {
  counts_.add(kLookups, batch->reads());
  Divided divided(this, &batch->requests());
  if (divided.is_idle() || is_closed_ || !Copies::may_look()) {
    divided.see();
    return below()->Submit(options, batch);
  }
  BRECCIA_TAKE(const std::uint64_t answered, divided.answer());
  if (2 * answered >= batch->reads()) {
    BRECCIA_TAKE(const bool is_done, divided.ask_below(options));
    if (is_done) {
      counts_.add(kHits, answered);
      counts_.add(kMisses, divided.lacked());
      return Status::OK();
    }
  }
  counts_.add(kMisses, answered + divided.lacked());
  BRECCIA_TRY(below()->Submit(options, batch));
  divided.bring();
  return Status::OK();
}

void Tier::SubmitAsync(const WriteOptions& options, Batch* batch,
                       std::function<void(Status)> done) {
  std::function<void(Status)> behind;
  const Status status = base::or_memory_limit([&] {
    BRECCIA_TRY(check_moment(options));
    const auto told = std::make_shared<Told>(this);
    told->tell(batch->requests());
    behind = [told, done](Status submitted) { done(std::move(submitted)); };
    return Status::OK();
  });
  if (!status.ok()) return done(status);
  below()->SubmitAsync(options, batch, std::move(behind));
}

std::unique_ptr<Transaction> Tier::OpenTransaction() {
  return std::make_unique<Behind>(this, below()->OpenTransaction());
}

/// Called by whoever makes requests.
void Tier::take(const Sampler::Samples& samples) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || samples_.size() + samples.size() > kSamplesMax) return;
  base::as_memory_allows([&] { samples_.insert(samples_.end(), samples.begin(), samples.end()); });
  bell_.ring();
}

void Tier::learn() {
  std::vector<std::uint64_t> samples;
  while (true) {
    bell_.wait();
    if (stops_) return;
    samples.clear();
    {
      const std::lock_guard lock(mutex_);
      samples_.swap(samples);
    }
    const ModelPtr now = roads_.model();
    base::as_memory_allows([&] {
      trainer_.add(samples, now.get());
      if (!trainer_.is_due()) return;
      const Proposal proposal = trainer_.end_window();
      if (!trainer_.pays(proposal)) return;
      change(proposal.model);
    });
  }
}

void Tier::change(const ModelPtr& next) {
  const base::Stopwatch clock;
  roads_.change(next);
  const std::uint64_t us = clock.micros();
  change_us_ = us;
  change_us_max_ = std::max(change_us_max_.load(), us);
  roads_.settle();
}

bool Tier::GetProperty(const std::string& name, std::string* value) {
  const std::pair<const char*, std::uint64_t> figures[] = {
      {"breccia.hot.lookups", counts_.sum(kLookups)},
      {"breccia.hot.hits", counts_.sum(kHits)},
      {"breccia.hot.misses", counts_.sum(kMisses)},
      {"breccia.hot.keys", copies_->size()},
      {"breccia.hot.bytes", copies_->bytes()},
      {"breccia.hot.changes", roads_.changes()},
      {"breccia.hot.change-micros", change_us_.load()},
      {"breccia.hot.change-micros-max", change_us_max_.load()},
  };
  for (const auto& [known, figure] : figures) {
    if (name != known) continue;
    *value = std::to_string(figure);
    return true;
  }
  if (!below()->GetProperty(name, value)) return false;
  if (name != "breccia.stats") return true;
  for (const auto& [known, figure] : figures) {
    *value += std::string(known) + ": " + std::to_string(figure) + "\n";
  }
  return true;
}

}  // namespace breccia::hot
