#include "disagg/store/engine.h"

#include <algorithm>

#include "base/clock.h"
#include "base/memory.h"
#include "batch/multi_get.h"
#include "batch/single_keys.h"
#include "disagg/cluster_config.h"
#include "disagg/store/batch_run.h"
#include "exec/memory.h"

namespace breccia::disagg {

namespace {

using fabric::TimeUs;

/// Blocks that the clients have rest so long at most before they are given back at the end.
constexpr TimeUs kCloseUs = 2'000'000;

Status no_such(const char* call, const char* why) {
  return Status::NotSupported(std::string(call) + ": the disagg engine " + why);
}
Status no_log(const char* call) {
  return no_such(call, "has no log; what is acknowledged is in the memory of servers");
}

template <class Parts, class Count>
bool has_other_family(const Parts& parts, const Count& count_of) {
  return std::any_of(parts.begin(), parts.end(), [&](const auto& part) {
    return part->family() != kDefaultFamily && count_of(*part) > 0;
  });
}

/// Whether a batch has nothing but what the engine does.
Status check(const batch::Requests& requests) {
  const auto records = [](const auto& part) { return part.record_count(); };
  const auto count = [](const auto& part) { return part.count(); };
  if (has_other_family(requests.writes(), records) || has_other_family(requests.reads(), count) ||
      has_other_family(requests.ranges(), count)) {
    return Status::InvalidArgument("no such column family",
                                   "a store of the disagg engine has the default one only");
  }
  for (const auto& writes : requests.writes()) {
    if (writes->merges() > 0) return no_such("Merge", "has no merge operators");
    if (!writes->range_deletes().empty()) return no_such("DeleteRange", "deletes no ranges");
  }
  return Status::OK();
}

/// The engine has none.
class NoTransaction final : public Transaction {
 public:
  explicit NoTransaction(Batch batch) : batch_(std::move(batch)) {}

  [[nodiscard]] Batch& batch() override { return batch_; }
  Status Read(Batch* /*reads*/) override { return refusal(); }
  Status Close(const WriteOptions& /*options*/) override { return refusal(); }

 private:
  static Status refusal() { return no_such("Transaction", "writes each key by itself"); }

  Batch batch_;
};

}  // namespace

Engine::Engine(const DisaggOptions& options, ClusterConfig config)
    : options_(options),
      clients_(std::move(config), options.clients_max),
      async_(std::make_unique<batch::AsyncQueue>(batch::admission_options(options),
                                                 [this](std::span<batch::AsyncBatch> group) {
                                                   // Each by itself: where one fails, what the
                                                   // others have written stays.
                                                   for (batch::AsyncBatch& one : group)
                                                     one.status = submit(one.options, one.requests);
                                                 })) {}

Status Engine::open(const DisaggOptions& options, std::unique_ptr<Engine>* engine) {
  if (options.clients_max == 0) return Status::InvalidArgument("clients_max: a store has one");
  BRECCIA_TAKE(ClusterConfig config, ClusterConfig::read(options.config));
  std::unique_ptr<Engine> made(new Engine(options, std::move(config)));
  // Whoever opens a store hears it now if there is no cluster.
  BRECCIA_TRY(made->clients_.take(made->until({})).status());
  *engine = std::move(made);
  return Status::OK();
}

Engine::~Engine() { Close().PermitUncheckedError(); }

Status Engine::Close() {
  async_->stop();
  if (is_closed_.exchange(true)) return Status::OK();
  return clients_.close(base::now_us() + kCloseUs);
}

Status Engine::check_open() const {
  if (!is_closed_.load(std::memory_order_relaxed)) return Status::OK();
  return Status::ShutdownInProgress("the store is closed", "open it again");
}

TimeUs Engine::until(const WriteOptions& options) const {
  constexpr TimeUs kYearUs = 365ULL * 24 * 3600 * 1'000'000;
  return base::now_us() +
         std::min(options.wait_us_max.value_or(options_.operation_us_max), kYearUs);
}

Status Engine::submit(const WriteOptions& options, batch::Requests* requests) {
  return base::or_memory_limit([&] {
    BRECCIA_TRY(check_open());
    if (options.moment != nullptr && requests->write_count() > 0) {
      return no_such("WriteOptions::moment", "tells of no moments");
    }
    BRECCIA_TRY(check(*requests));
    const TimeUs late = until(options);
    BRECCIA_TAKE(const Clients::Taken client, clients_.take(late));
    BRECCIA_TRY(run_batch(client.get(), requests, late));
    writes_ += requests->write_count();
    gets_ += requests->read_count();
    ranges_ += requests->range_count();
    return Status::OK();
  });
}

// ---- single keys -------------------------------------------------------------------------------

Status Engine::write(const WriteOptions& options, Change change) {
  return base::or_memory_limit([&] {
    BRECCIA_TRY(check_open());
    if (options.moment != nullptr) return no_such("WriteOptions::moment", "tells of no moments");
    const TimeUs late = until(options);
    BRECCIA_TAKE(const Clients::Taken client, clients_.take(late));
    BRECCIA_TRY(client->write({&change, 1}, late));
    ++writes_;
    return Status::OK();
  });
}

Status Engine::Put(const WriteOptions& options, const Slice& key, const Slice& value) {
  return write(options, {.key = key, .value = value});
}

Status Engine::Delete(const WriteOptions& options, const Slice& key) {
  return write(options, {.key = key, .value = {}});
}

Status Engine::Get(const Slice& key, std::string* value) {
  return base::or_memory_limit([&] {
    BRECCIA_TRY(check_open());
    if (key.empty() || key.size() > kKeyBytesMax) return Status::NotFound();
    const TimeUs late = until({});
    BRECCIA_TAKE(const Clients::Taken client, clients_.take(late));
    std::string found;
    BRECCIA_TRY(client->get(key, &found, late));
    *value = std::move(found);
    ++gets_;
    return Status::OK();
  });
}

std::vector<Status> Engine::MultiGet(std::span<const Slice> keys,
                                     std::vector<std::string>* values) {
  return batch::multi_get(keys, values,
                          [this](batch::Requests* requests) { return submit({}, requests); });
}

// ---- the rest of Store -------------------------------------------------------------------------

Status Engine::Merge(const WriteOptions& /*options*/, const Slice& /*key*/,
                     const Slice& /*operand*/) {
  return no_such("Merge", "has no merge operators");
}

void Engine::SubmitAsync(const WriteOptions& options, Batch* batch,
                         std::function<void(Status)> done) {
  const Status taken = base::or_memory_limit([&] {
    if (options.moment != nullptr) return Status::NotSupported("SubmitAsync tells of no moments");
    return async_->submit({options, &batch->requests(), done, Status()});
  });
  if (!taken.ok()) done(taken);
}

std::unique_ptr<Transaction> Engine::OpenTransaction() {
  return std::make_unique<NoTransaction>(NewBatch());
}

Batch Engine::NewBatch() {
  return Batch(std::make_unique<batch::Requests>(exec::shared_plain_host_memory()));
}

/// There is no device that would read it.
Status Engine::RegisterMemory(void* /*memory*/, std::size_t /*bytes*/,
                              MemoryRegistration* registration) {
  BRECCIA_TRY(check_open());
  registration->reset();
  return Status::OK();
}

Status Engine::CreateFamily(const std::string& /*name*/, FamilyId* /*family*/) {
  return no_such("CreateFamily", "has the default family only");
}

Status Engine::DropFamily(FamilyId /*family*/) {
  return no_such("DropFamily", "has the default family only");
}

std::vector<std::pair<std::string, FamilyId>> Engine::Families() const {
  return {{"default", kDefaultFamily}};
}

Status Engine::Changes(std::uint64_t /*from*/, const ChangesOptions& /*options*/,
                       std::unique_ptr<ChangeStream>* /*stream*/) {
  return no_log("Changes");
}

Status Engine::SyncLog() { return no_log("SyncLog"); }

Status Engine::Flush() { return no_log("Flush"); }

bool Engine::GetProperty(const std::string& name, std::string* value) {
  const Status found = base::or_memory_limit([&] {
    const ClientCounts counts = clients_.counts();
    const std::vector<std::pair<const char*, std::string>> figures = {
        {"breccia.engine", "disagg"},
        {"breccia.disagg.network", clients_.describe()},
        {"breccia.gets", std::to_string(gets_.load())},
        {"breccia.writes", std::to_string(writes_.load())},
        {"breccia.ranges", std::to_string(ranges_.load())},
        {"breccia.disagg.reads", std::to_string(counts.reads)},
        {"breccia.disagg.torn", std::to_string(counts.torn)},
        {"breccia.disagg.anew", std::to_string(counts.anew)},
        {"breccia.disagg.cached", std::to_string(counts.cached)},
        {"breccia.disagg.stale", std::to_string(counts.stale)},
        {"breccia.disagg.ordered", std::to_string(counts.ordered)},
        {"breccia.disagg.again", std::to_string(counts.again)},
        {"breccia.disagg.lost", std::to_string(counts.lost)},
        {"breccia.admission.batches", std::to_string(async_->figures().batches)}};
    std::string all;
    for (const auto& [known, figure] : figures) {
      if (name == known) {
        *value = figure;
        return Status::OK();
      }
      all += std::string(known) + ": " + figure + "\n";
    }
    if (name != "breccia.stats") return Status::NotFound();
    *value = std::move(all);
    return Status::OK();
  });
  return found.ok();
}

}  // namespace breccia::disagg
