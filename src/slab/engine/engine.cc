#include "slab/engine/engine.h"

#include <tbb/info.h>

#include <algorithm>
#include <utility>

#include "base/memory.h"
#include "base/secret.h"
#include "batch/checked_transaction.h"
#include "batch/multi_get.h"
#include "batch/single_keys.h"
#include "exec/choose.h"
#include "exec/registration.h"
#include "slab/engine/entry_holder.h"
#include "slab/engine/word_holder.h"

namespace breccia::slab {

namespace {

hash::Numbering draw_numbering(std::uint64_t mask) {
  return {
      record::HashSeed{.start = base::draw_secret_word(), .factor = base::draw_secret_word() | 1},
      mask};
}

std::uint64_t parts_of(std::uint64_t reads) {
  constexpr std::uint64_t kReadsPerPart = 256;
  const auto cores = static_cast<std::uint64_t>(tbb::info::default_concurrency());
  return std::clamp<std::uint64_t>(reads / kReadsPerPart, 1, cores);
}

Status prepare_answers(batch::Requests* requests) {
  if (requests->prepare_results(parts_of(requests->read_count()), /*with_bounds=*/false)) {
    return Status::OK();
  }
  return Status::MemoryLimit("no memory for the results");
}

Status not_durable(const char* call) {
  return Status::NotSupported(std::string(call) + ": a store of the slab engine is in memory alone",
                              "use the hash engine or the ordered one");
}

}  // namespace

Status Engine::open(const SlabOptions& options, std::uint64_t number_mask,
                    std::unique_ptr<Engine>* engine) {
  std::unique_ptr<Engine> made(new Engine());
  BRECCIA_TRY(made->start(options, draw_numbering(number_mask)));
  *engine = std::move(made);
  return Status::OK();
}

Engine::~Engine() { Close().PermitUncheckedError(); }

Status Engine::start(const SlabOptions& options, const hash::Numbering& numbering) {
  BRECCIA_TAKE(device_, exec::choose_device(options, &no_device_));
  if (options.in_place) {
    BRECCIA_TAKE(holder_, WordHolder::make(options, device_));
  } else {
    BRECCIA_TAKE(holder_, EntryHolder::make(options, device_, numbering));
  }
  together_ = std::make_unique<batch::Together>(batch::Together::Engine{
      .check =
          [](const batch::Requests& requests) {
            return batch::check_single_keys(requests, "slab");
          },
      .submit = [this](const WriteOptions& how,
                       batch::Requests* requests) { return submit(how, {}, requests); },
      .memory = [this]() -> std::shared_ptr<exec::HostMemory> {
        return {device_, &device_->host_memory()};
      },
      .note = [](std::uint64_t) {}});
  async_ = std::make_unique<batch::AsyncQueue>(
      batch::admission_options(options),
      [this](std::span<batch::AsyncBatch> group) { together_->run(group); });
  return Status::OK();
}

Status Engine::Close() {
  if (async_ != nullptr) async_->stop();
  if (holder_ != nullptr) holder_->close();
  return Status::OK();
}

// ---- batches -----------------------------------------------------------------------------------

Status Engine::check(const batch::Requests& requests) const {
  BRECCIA_TRY(holder_->check_open());
  BRECCIA_TRY(batch::check_single_keys(requests, "slab"));
  return holder_->check(requests);
}

Status Engine::look(std::span<const Seen> seen, batch::Requests* requests, Found* found) {
  BRECCIA_TRY(check(*requests));
  BRECCIA_TRY(prepare_answers(requests));
  BRECCIA_TRY(holder_->look(seen, requests, found));
  requests->deliver();
  gets_ += requests->read_count();
  return Status::OK();
}

Status Engine::submit(const WriteOptions& options, std::span<const Seen> seen,
                      batch::Requests* requests) {
  return base::or_memory_limit([&] {
    if (requests->write_count() == 0) return look(seen, requests, nullptr);
    BRECCIA_TRY(check(*requests));
    BRECCIA_TRY(prepare_answers(requests));
    BRECCIA_TRY(holder_->write(seen, requests, options.moment));
    requests->deliver();
    writes_ += requests->write_count();
    gets_ += requests->read_count();
    return Status::OK();
  });
}

// ---- the rest of Store -------------------------------------------------------------------------

Status Engine::write_one(const WriteOptions& options, record::Op op, const Slice& key,
                         const Slice& value) {
  return base::or_memory_limit([&] {
    batch::Requests& requests = batch::thread_requests();
    BRECCIA_TRY(requests.add_write(op, kDefaultFamily, key, value));
    return submit(options, {}, &requests);
  });
}

Status Engine::Put(const WriteOptions& options, const Slice& key, const Slice& value) {
  return write_one(options, record::Op::kPut, key, value);
}

Status Engine::Delete(const WriteOptions& options, const Slice& key) {
  return write_one(options, record::Op::kDelete, key, Slice());
}

Status Engine::Merge(const WriteOptions& /*options*/, const Slice& /*key*/,
                     const Slice& /*operand*/) {
  return Status::NotSupported("the slab engine has no merge operators");
}

void Engine::SubmitAsync(const WriteOptions& options, Batch* batch,
                         std::function<void(Status)> done) {
  const Status taken = base::or_memory_limit([&] {
    if (options.moment != nullptr) return Status::NotSupported("SubmitAsync tells of no moments");
    return async_->submit({options, &batch->requests(), done, Status()});
  });
  if (!taken.ok()) done(taken);
}

Status Engine::Get(const Slice& key, std::string* value) {
  return base::or_memory_limit([&] {
    std::vector<std::string> values;
    std::vector<Status> statuses = MultiGet({&key, 1}, &values);
    if (statuses.front().ok()) *value = std::move(values.front());
    return std::move(statuses.front());
  });
}

std::vector<Status> Engine::MultiGet(std::span<const Slice> keys,
                                     std::vector<std::string>* values) {
  return batch::multi_get(keys, values, [this](batch::Requests* requests) {
    BRECCIA_TRY(holder_->check_open());
    return submit({}, {}, requests);
  });
}

std::unique_ptr<Transaction> Engine::OpenTransaction() {
  return std::make_unique<batch::CheckedTransaction<Engine, Seen>>(this, NewBatch());
}

Batch Engine::NewBatch() {
  return Batch(std::make_unique<batch::Requests>(
      std::shared_ptr<exec::HostMemory>(device_, &device_->host_memory())));
}

Status Engine::RegisterMemory(void* memory, std::size_t bytes, MemoryRegistration* registration) {
  return base::or_memory_limit([&] {
    BRECCIA_TRY(holder_->check_open());
    return exec::register_memory(device_, memory, bytes, registration);
  });
}

Status Engine::CreateFamily(const std::string& /*name*/, FamilyId* /*family*/) {
  return Status::NotSupported("a store of the slab engine has the default family only");
}

Status Engine::DropFamily(FamilyId /*family*/) {
  return Status::NotSupported("a store of the slab engine has the default family only");
}

std::vector<std::pair<std::string, FamilyId>> Engine::Families() const {
  return {{"default", kDefaultFamily}};
}

Status Engine::Changes(std::uint64_t /*from*/, const ChangesOptions& /*options*/,
                       std::unique_ptr<ChangeStream>* /*stream*/) {
  return not_durable("Changes");
}

Status Engine::SyncLog() { return not_durable("SyncLog"); }

Status Engine::Flush() { return not_durable("Flush"); }

bool Engine::GetProperty(const std::string& name, std::string* value) {
  const Status found = base::or_memory_limit([&] {
    Holder::Figures figures = holder_->figures();
    figures.insert(figures.end(),
                   {{"breccia.backend.none", no_device_},
                    {"breccia.engine", "slab"},
                    {"breccia.gets", std::to_string(gets_.load())},
                    {"breccia.writes", std::to_string(writes_.load())},
                    {"breccia.admission.batches", std::to_string(async_->figures().batches)}});
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

}  // namespace breccia::slab
