#include <breccia/write_batch_with_index.h>
#include <rocksdb/db.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/memory.h"
#include "ordered/read/versions.h"

namespace breccia {

namespace {

/// What a batch does to one key.
struct Update {
  enum class Base { kNone, kPut, kDelete };

  Base base = Base::kNone;
  Slice value;
  std::vector<Slice> operands;  // on top of the base, oldest first
};

/// Errors  Corruption: the index holds something else.
Status collect(rocksdb::WBWIIterator* at, const Slice& key, Update* update) {
  for (at->Seek(key); at->Valid() && at->Entry().key == key; at->Next()) {
    const rocksdb::WriteEntry entry = at->Entry();  // updates of a key come in order
    switch (entry.type) {
      case rocksdb::kPutRecord:
        *update = {Update::Base::kPut, entry.value, {}};
        break;
      case rocksdb::kDeleteRecord:
      case rocksdb::kSingleDeleteRecord:
        *update = {Update::Base::kDelete, {}, {}};
        break;
      case rocksdb::kMergeRecord:
        update->operands.push_back(entry.value);
        break;
      default:
        return Status::Corruption("Unexpected entry in WriteBatchWithIndex:",
                                  std::to_string(entry.type));
    }
  }
  return at->status();
}

/// One GetFromBatchAndDB or MultiGetFromBatchAndDB on its way.
class ReadThrough {
 public:
  ReadThrough(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* handle, const Slice* keys,
              rocksdb::PinnableSlice* values, Status* statuses)
      : db_(db), handle_(handle), keys_(keys), values_(values), statuses_(statuses) {}

  /// Answers lookup `i` from the batch, or leaves it to the database.
  void read_batch(std::size_t i, rocksdb::WBWIIterator* batch) {
    Update update;
    values_[i].Reset();
    statuses_[i] = collect(batch, keys_[i], &update);
    if (!statuses_[i].ok()) return;
    if (update.base == Update::Base::kNone) {
      open_.emplace_back(i, std::move(update.operands));
    } else {
      const Slice* const base = update.base == Update::Base::kPut ? &update.value : nullptr;
      answer(i, base, update.operands);
    }
  }

  void read_db(const rocksdb::ReadOptions& options, bool sorted_input) {
    std::vector<Slice> keys;
    for (const auto& [i, operands] : open_) keys.push_back(keys_[i]);
    std::vector<rocksdb::PinnableSlice> found(keys.size());
    std::vector<Status> statuses(keys.size());
    db_->MultiGet(options, handle_, keys.size(), keys.data(), found.data(), statuses.data(),
                  sorted_input);
    for (std::size_t read = 0; read < open_.size(); ++read) {
      const auto& [i, operands] = open_[read];
      if (statuses[read].ok() && operands.empty()) {
        values_[i] = std::move(found[read]);
      } else {
        answer_over(i, statuses[read], found[read], operands);
      }
    }
  }

  /// read_db() for one lookup.
  void read_db_once(const rocksdb::ReadOptions& options) {
    if (open_.empty()) return;
    const auto& [i, operands] = open_.front();
    if (operands.empty()) {
      statuses_[i] = db_->Get(options, handle_, keys_[i], &values_[i]);
      return;
    }
    rocksdb::PinnableSlice found;
    const Status status = db_->Get(options, handle_, keys_[i], &found);
    answer_over(i, status, found, operands);
  }

 private:
  /// `found` and `status`: what the database said.
  void answer_over(std::size_t i, const Status& status, const Slice& found,
                   const std::vector<Slice>& operands) {
    if (status.ok() || status.IsNotFound()) {
      answer(i, status.ok() ? &found : nullptr, operands);
    } else {
      statuses_[i] = status;
    }
  }

  /// `base` null: there is none.
  void answer(std::size_t i, const Slice* base, const std::vector<Slice>& operands) {
    if (!operands.empty()) {
      statuses_[i] = merge(i, base, operands);
    } else if (base != nullptr) {
      values_[i].PinSelf(*base);
    } else {
      statuses_[i] = Status::NotFound();
    }
  }

  Status merge(std::size_t i, const Slice* base, const std::vector<Slice>& operands) {
    if (family_.merge_operator == nullptr) {
      family_.merge_operator = db_->GetOptions(handle_).merge_operator;
    }
    values_[i].GetSelf()->clear();
    BRECCIA_TRY(ordered::full_merge(family_, keys_[i], base, operands, values_[i].GetSelf()));
    values_[i].PinSelf();
    return Status::OK();
  }

  rocksdb::DB* const db_;
  rocksdb::ColumnFamilyHandle* const handle_;
  const Slice* const keys_;
  rocksdb::PinnableSlice* const values_;
  Status* const statuses_;
  ordered::FamilyView family_;  // of which merging looks at the operator only
  /// Lookups that the database must answer, and what the batch does to the answer.
  std::vector<std::pair<std::size_t, std::vector<Slice>>> open_;
};

}  // namespace

Status WriteBatchWithIndex::GetFromBatchAndDB(rocksdb::DB* db, const rocksdb::ReadOptions& options,
                                              rocksdb::ColumnFamilyHandle* handle, const Slice& key,
                                              rocksdb::PinnableSlice* value) {
  if (handle == nullptr) handle = db->DefaultColumnFamily();
  return base::or_memory_limit([&] {
    Status status;
    ReadThrough reads(db, handle, &key, value, &status);
    const std::unique_ptr<rocksdb::WBWIIterator> at(NewIterator(handle));
    reads.read_batch(0, at.get());
    reads.read_db_once(options);
    return status;
  });
}

Status WriteBatchWithIndex::GetFromBatchAndDB(rocksdb::DB* db, const rocksdb::ReadOptions& options,
                                              rocksdb::ColumnFamilyHandle* handle, const Slice& key,
                                              std::string* value) {
  rocksdb::PinnableSlice pinned(value);
  BRECCIA_TRY(GetFromBatchAndDB(db, options, handle, key, &pinned));
  return base::or_memory_limit([&] {
    if (pinned.IsPinned()) value->assign(pinned.data(), pinned.size());
    return Status::OK();
  });
}

void WriteBatchWithIndex::MultiGetFromBatchAndDB(rocksdb::DB* db,
                                                 const rocksdb::ReadOptions& options,
                                                 rocksdb::ColumnFamilyHandle* handle,
                                                 std::size_t count, const Slice* keys,
                                                 rocksdb::PinnableSlice* values, Status* statuses,
                                                 bool sorted_input) {
  if (handle == nullptr) handle = db->DefaultColumnFamily();
  const Status status = base::or_memory_limit([&] {
    ReadThrough reads(db, handle, keys, values, statuses);
    const std::unique_ptr<rocksdb::WBWIIterator> at(NewIterator(handle));
    for (std::size_t i = 0; i < count; ++i) reads.read_batch(i, at.get());
    reads.read_db(options, sorted_input);
    return Status::OK();
  });
  for (std::size_t i = 0; !status.ok() && i < count; ++i) statuses[i] = Status::MemoryLimit();
}

}  // namespace breccia
