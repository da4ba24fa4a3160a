#include "ordered/engine.h"

#include <rocksdb/db.h>

#include "base/memory.h"
#include "batch/requests.h"
#include "exec/registration.h"
#include "ordered/check.h"
#include "ordered/write/store_transaction.h"

namespace breccia::ordered {

// ---- requests ----------------------------------------------------------------------------------

std::unique_ptr<Transaction> Engine::OpenTransaction() {
  History::Hold held = hold(Position());  // before the pin, so that no flush comes between
  return std::make_unique<StoreTransaction>(writer_.get(), lookups_.get(), std::move(held), pin(),
                                            NewBatch());
}

void Engine::SubmitAsync(const WriteOptions& options, Batch* batch,
                         std::function<void(Status)> done) {
  const Status taken = base::or_memory_limit([&] {
    return async_->submit({options, &batch->requests(), done, Status()});
  });
  if (!taken.ok()) done(taken);
}

Batch Engine::NewBatch() {
  return Batch(std::make_unique<batch::Requests>(batch_memory(*backends_)));
}

Status Engine::RegisterMemory(void* memory, std::size_t bytes, MemoryRegistration* registration) {
  BRECCIA_TRY(closed_.check());
  return base::or_memory_limit([&] {
    return exec::register_memory(backends_->current()->tenant().device_ptr(), memory, bytes,
                                 registration);
  });
}

Status Engine::Get(const Slice& key, std::string* value) {
  return base::or_memory_limit([&] {
    BRECCIA_TRY(closed_.check());
    rocksdb::PinnableSlice pinned;
    BRECCIA_TRY(lookups_->get(pin(), kDefaultFamily, key, &pinned, /*from_tree=*/nullptr));
    value->assign(pinned.data(), pinned.size());
    return Status::OK();
  });
}

std::vector<Status> Engine::MultiGet(std::span<const Slice> keys,
                                     std::vector<std::string>* values) {
  std::vector<Status> statuses(keys.size(), Status::NotFound());
  const Status status =
      base::or_memory_limit([&] { return lookups_->multi_get(keys, values, &statuses); });
  if (!status.ok()) {
    for (Status& one : statuses) one = base::copy_of(status);
  }
  return statuses;
}

// ---- column families ---------------------------------------------------------------------------

Status Engine::CreateFamily(const std::string& name, FamilyId* family) {
  return base::or_memory_limit([&] {
    BRECCIA_TAKE(const tree::TreeFamily created,
                 tree_changes_->create_family(name, options_.rocksdb));
    *family = created->GetID();
    return Status::OK();
  });
}

Status Engine::DropFamily(FamilyId family) {
  BRECCIA_TRY(base::or_memory_limit([&] { return tree_changes_->drop_family(family, [] {}); }));
  tree_changes_->forget_family(family);
  return Status::OK();
}

std::vector<std::pair<std::string, FamilyId>> Engine::Families() const {
  std::vector<std::pair<std::string, FamilyId>> families;
  for (const tree::TreeFamily& family : below_->families()) {
    if (tree::is_reserved(family->GetName())) continue;
    families.emplace_back(family->GetName(), family->GetID());
  }
  return families;
}

// ---- the rest ----------------------------------------------------------------------------------

Status Engine::Changes(std::uint64_t from, const ChangesOptions& options,
                       std::unique_ptr<ChangeStream>* stream) {
  return base::or_memory_limit([&] {
    BRECCIA_TRY(closed_.check());
    BRECCIA_TAKE(*stream, wal::open_changes(change_source(), from, options));
    return Status::OK();
  });
}

Status Engine::SyncLog() {
  return base::or_memory_limit([&] {
    BRECCIA_TRY(closed_.check());
    return commits_->keep(/*sync=*/true);
  });
}

Status Engine::flush(bool waits_for_tree) {
  return base::or_memory_limit([&] {
    BRECCIA_TRY(closed_.check());
    BRECCIA_TRY(fault_.get());
    return flusher_->flush(waits_for_tree);
  });
}

Figures Engine::figures() const {
  return Figures({options_, *statistics_, state_, *backends_, *log_, fault_, *async_, cache_.get(),
                  device_tags_.get(), *filters_, *files_, compactions_.get()});
}

bool Engine::GetProperty(const std::string& name, std::string* value) {
  const Status found = base::or_memory_limit([&] {
    auto figure = figures().text(name);
    if (!figure.has_value()) {
      // RocksDB clears the value of a name that it does not know.
      figure.emplace();
      if (!below_->db()->GetProperty(name, &*figure)) return Status::NotFound();
    }
    *value = std::move(*figure);
    return Status::OK();
  });
  return found.ok();
}

Status Engine::check() {
  return base::or_memory_limit([&] {
    const std::uint64_t begin = log_->begin();  // first: it never passes a view's runs
    const std::optional<Pin> pin = publisher_->pin_at_rest();
    if (!pin.has_value() || !fault_.get().ok()) return Status::OK();
    BRECCIA_TRY(check_tree(*pin->view, below_->families()));
    BRECCIA_TRY(check_filters(*pin->view));
    const Status files = check_files(*pin->view);
    // Somebody may be taking files out, which is no affair of a snapshot's.
    if (!files.ok() && !filters_->is_shut() && are_unchanged(*pin->view, *state_.view())) {
      return base::copy_of(files);
    }
    return check_view(*pin->view, {begin, log_->end(), pin->visible});
  });
}

}  // namespace breccia::ordered
