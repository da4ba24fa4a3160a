#include "bench/engines/rocksdb_session.h"

#include <rocksdb/comparator.h>
#include <rocksdb/snapshot.h>

#include <algorithm>
#include <cstring>
#include <span>

namespace breccia::bench {

using Addition = RocksdbGroup::Addition;
using Read = RocksdbGroup::Read;

namespace {

// Times that a transaction which meets a conflict is run again.
constexpr int kAttemptsMax = 10;
// Keys whose locks are held together.
constexpr std::size_t kAdditionsMax = 256;

/// Where digests go that nobody compares, so that no compiler leaves their reading out.
thread_local volatile std::uint8_t unsampled = 0;

Status scan_with(rocksdb::Iterator* iterator, const Slice& begin, std::uint32_t entries,
                 ScanDigest* digest) {
  iterator->Seek(begin);
  for (std::uint32_t i = 0; i < entries && iterator->Valid(); ++i, iterator->Next()) {
    digest->add(iterator->key(), iterator->value());
  }
  return iterator->status();
}

std::uint64_t number_of(const Slice& value) {
  std::uint64_t number = 0;
  BRECCIA_ASSERT(value.size() == sizeof number);
  std::memcpy(&number, value.data(), sizeof number);
  return number;
}

Slice bytes_of(const std::uint64_t& number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

}  // namespace

RocksdbSession::RocksdbSession(const RocksdbUse& use, const Sampling& sampling,
                               std::size_t key_size_max)
    : use_(use),
      sampling_(sampling),
      chunk_(key_size_max),
      indexed_(rocksdb::BytewiseComparator(), /*reserved_bytes=*/0, /*overwrite_key=*/true),
      keys_(std::max<std::size_t>(use.tuning.multi_get, kAdditionsMax)),
      values_(keys_.size()),
      codes_(keys_.size()) {
  read_options_.async_io = use.tuning.async_io;
}

Status RocksdbSession::put(const Slice& key, const Slice& value) {
  return use_.db->Put(use_.write_options, key, value);
}

Status RocksdbSession::erase(const Slice& key) { return use_.db->Delete(use_.write_options, key); }

Status RocksdbSession::merge(const Slice& key, const Slice& operand) {
  if (!use_.tuning.merge_by_reading) return use_.db->Merge(use_.write_options, key, operand);
  Addition one{key, number_of(operand)};
  return add_some({&one, 1});
}

Status RocksdbSession::scan(const Slice& begin, std::uint32_t entries, ScanDigest* digest) {
  const std::unique_ptr<rocksdb::Iterator> iterator(use_.db->NewIterator(read_options_));
  return scan_with(iterator.get(), begin, entries, digest);
}

Status RocksdbSession::get(const Slice& key, Slice* value) {
  value_.Reset();
  Status status = use_.db->Get(read_options_, use_.db->DefaultColumnFamily(), key, &value_);
  *value = value_;
  return status;
}

Status RocksdbSession::build(const Stream& stream, std::uint64_t first, std::uint32_t count,
                             std::size_t place) {
  while (groups_.size() <= place) groups_.emplace_back();
  RocksdbGroup& group = groups_[place];
  group.clear();
  Status failure;
  for_each_request(stream, first, count, &chunk_,
                   [&](std::uint64_t number, const Request& request) {
                     Status status = add(&group, number, request);
                     if (!status.ok()) failure = std::move(status);
                   });
  return failure;
}

Status RocksdbSession::run(std::size_t place, Audit* audit) {
  RocksdbGroup& group = groups_[place];
  BRECCIA_TRY(write(&group.first));
  BRECCIA_TRY(group.ingest_into(use_.db));
  BRECCIA_TRY(add_numbers(&group.additions));
  read(&group, audit);
  BRECCIA_TRY(read_scans(group, audit));
  return write(&group.second);
}

Status RocksdbSession::transact(const Stream& stream, std::uint64_t first, std::uint32_t count,
                                Lookups lookups, Audit* audit, std::uint64_t* /*filling_ns*/) {
  if (use_.tuning.transacting == Transacting::kSnapshot) {
    return transact_at_snapshot(stream, first, count, lookups, audit);
  }
  Status status;
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    status = try_transaction(stream, first, count, lookups, audit);
    if (!status.IsBusy() && !status.IsTryAgain()) break;
  }
  return status;
}

const KindCounts& RocksdbSession::counts(std::size_t place) const { return groups_[place].counts; }

Status RocksdbSession::add(RocksdbGroup* group, std::uint64_t number, const Request& request) {
  const auto& [kind, key, value, scan_entries] = request;
  const std::uint32_t writes_max = use_.tuning.write_batch;
  ++group->counts[static_cast<std::size_t>(kind)];
  switch (kind) {
    case Kind::kUpdate:
    case Kind::kInsert:
      if (use_.tuning.loading == Loading::kFiles) {
        group->entries.push_back({group->keep(key), value});
        return Status();
      }
      return group->first.next(writes_max).Put(key, value);
    case Kind::kDelete:
      return group->first.next(writes_max).Delete(key);
    case Kind::kMerge:
      if (!use_.tuning.merge_by_reading) return group->first.next(writes_max).Merge(key, value);
      group->additions.push_back({group->keep(key), number_of(value)});
      return Status();
    case Kind::kScan:
      if (sampling_.takes(number)) {
        group->sampled_scans.push_back({static_cast<std::uint32_t>(group->scans.size()), number});
      }
      group->scans.push_back({group->keep(key), scan_entries});
      return Status();
    case Kind::kGet:
    case Kind::kReadModifyWrite:
      break;
  }
  group->reads.push_back({group->keep(key), number, sampling_.takes(number)});
  if (kind == Kind::kGet) return Status();
  return group->second.next(writes_max).Put(key, value);
}

Status RocksdbSession::write(RocksdbWrites* writes) {
  for (std::size_t i = 0; i < writes->used; ++i) {
    BRECCIA_TRY(use_.db->Write(use_.write_options, &writes->batches[i]));
  }
  return Status();
}

Status RocksdbSession::add_numbers(std::vector<Addition>* additions) {
  for (std::size_t from = 0; from < additions->size(); from += kAdditionsMax) {
    const std::size_t count = std::min(kAdditionsMax, additions->size() - from);
    BRECCIA_TRY(add_some(std::span(*additions).subspan(from, count)));
  }
  return Status();
}

/// Reads, adds and writes numbers as one, seen by all who do it this way.
Status RocksdbSession::add_some(std::span<Addition> additions) {
  BRECCIA_ASSERT(additions.size() <= kAdditionsMax);
  std::sort(additions.begin(), additions.end(),
            [](const Addition& a, const Addition& b) { return a.key.compare(b.key) < 0; });
  std::vector<std::size_t> locks;
  std::size_t keys = 0;  // distinct ones; additions[0, keys) get their sums
  for (const Addition& addition : additions) {
    if (keys > 0 && additions[keys - 1].key == addition.key) {
      additions[keys - 1].operand += addition.operand;
      continue;
    }
    additions[keys++] = addition;
    locks.push_back(KeyLocks::of(addition.key));
  }
  // In one order for all threads, or else they would wait for each other.
  std::sort(locks.begin(), locks.end());
  locks.erase(std::unique(locks.begin(), locks.end()), locks.end());
  std::vector<std::unique_lock<std::mutex>> held;
  for (const std::size_t lock : locks) held.emplace_back(use_.locks->at(lock));

  for (std::size_t i = 0; i < keys; ++i) {
    keys_[i] = additions[i].key;
    values_[i].Reset();
  }
  use_.db->MultiGet(read_options_, use_.db->DefaultColumnFamily(), keys, keys_.data(),
                    values_.data(), codes_.data(), /*sorted_input=*/true);
  sums_.Clear();
  for (std::size_t i = 0; i < keys; ++i) {
    if (!codes_[i].ok() && !codes_[i].IsNotFound()) return codes_[i];
    const std::uint64_t sum =
        additions[i].operand + (codes_[i].ok() ? number_of(values_[i]) : std::uint64_t{0});
    BRECCIA_TRY(sums_.Put(keys_[i], bytes_of(sum)));
  }
  return use_.db->Write(use_.write_options, &sums_);
}

void RocksdbSession::read(RocksdbGroup* group, Audit* audit) {
  if (use_.tuning.sorted) {
    std::sort(group->reads.begin(), group->reads.end(),
              [](const Read& a, const Read& b) { return a.key.compare(b.key) < 0; });
  }
  const std::size_t keys_max = use_.tuning.multi_get;
  for (std::size_t from = 0; from < group->reads.size(); from += keys_max) {
    const std::size_t count = std::min(keys_max, group->reads.size() - from);
    const Read* const reads = &group->reads[from];
    for (std::size_t i = 0; i < count; ++i) {
      keys_[i] = reads[i].key;
      values_[i].Reset();
    }
    use_.db->MultiGet(read_options_, use_.db->DefaultColumnFamily(), count, keys_.data(),
                      values_.data(), codes_.data(), use_.tuning.sorted);
    for (std::size_t i = 0; i < count; ++i) {
      if (reads[i].sampled) audit->lookup(reads[i].number, codes_[i].code(), values_[i]);
    }
  }
}

/// One iterator for all scans of the group: they are of one point in time.
Status RocksdbSession::read_scans(const RocksdbGroup& group, Audit* audit) {
  if (group.scans.empty()) return Status();
  const std::unique_ptr<rocksdb::Iterator> iterator(use_.db->NewIterator(read_options_));
  auto sample = group.sampled_scans.begin();
  for (std::size_t i = 0; i < group.scans.size(); ++i) {
    const bool sampled = sample != group.sampled_scans.end() && sample->read == i;
    ScanDigest digest(sampled);
    BRECCIA_TRY(scan_with(iterator.get(), group.scans[i].begin, group.scans[i].entries, &digest));
    if (!sampled) {
      unsampled = unsampled + static_cast<std::uint8_t>(digest.bytes()[0]);
      continue;
    }
    audit->scan(sample->number, Status::kOk, digest);
    ++sample;
  }
  return Status();
}

Status RocksdbSession::try_transaction(const Stream& stream, std::uint64_t first,
                                       std::uint32_t count, Lookups lookups, Audit* audit) {
  BRECCIA_ASSERT(use_.transactions != nullptr);
  transaction_.reset(use_.transactions->BeginTransaction(use_.write_options, {},
                                                         /*old_txn=*/transaction_.release()));
  Audit reads = audit == nullptr ? Audit(&stream, 0) : audit->fresh();
  Status failure;
  const auto add = [&](bool gets, bool writes) {
    for_each_request(stream, first, count, &chunk_, [&](std::uint64_t number, const Request& one) {
      if (!(one.kind == Kind::kGet ? gets : writes)) return;
      Status status = request(number, one, &reads);
      if (!status.ok()) failure = std::move(status);
    });
  };
  // Lookups see the transaction's own writes: they come first where they are not to.
  const bool in_order = lookups == Lookups::kInOrder;
  add(/*gets=*/true, /*writes=*/in_order);
  if (!in_order) add(/*gets=*/false, /*writes=*/true);
  BRECCIA_TRY(failure);
  if (audit == nullptr) return transaction_->Rollback();
  BRECCIA_TRY(transaction_->Commit());
  audit->merge(reads);
  return Status();
}

/// Lookups are validated at the commit, as only then they are serializable like Breccia's.
Status RocksdbSession::request(std::uint64_t number, const Request& request, Audit* reads) {
  const auto& [kind, key, value, scan_entries] = request;
  if (kind == Kind::kUpdate) return transaction_->Put(key, value);
  BRECCIA_ASSERT(kind == Kind::kGet);
  value_.Reset();
  Status status =
      transaction_->GetForUpdate(read_options_, use_.db->DefaultColumnFamily(), key, &value_);
  if (sampling_.takes(number)) reads->lookup(number, status.code(), value_);
  return status.IsNotFound() ? Status() : status;
}

/// Reads at a snapshot and writes one WriteBatch: atomic, but nobody looks whether what was read
/// has changed. Lookups that must see the writes before them go key by key through an index of the
/// batch, as in RocksDB's own transactions; the others are MultiGets.
Status RocksdbSession::transact_at_snapshot(const Stream& stream, std::uint64_t first,
                                            std::uint32_t count, Lookups lookups, Audit* audit) {
  rocksdb::ManagedSnapshot snapshot(use_.db);
  read_options_.snapshot = snapshot.snapshot();
  at_snapshot_.clear();
  indexed_.Clear();
  Status failure;
  for_each_request(stream, first, count, &chunk_,
                   [&](std::uint64_t number, const Request& request) {
                     Status status;
                     if (lookups == Lookups::kAtOpening && request.kind == Kind::kGet) {
                       status = add(&at_snapshot_, number, request);
                     } else if (lookups == Lookups::kAtOpening) {
                       status = at_snapshot_.first.next(0).Put(request.key, request.value);
                     } else if (request.kind == Kind::kGet) {
                       status = look_up_in_order(number, request.key, audit);
                     } else {
                       status = indexed_.Put(request.key, request.value);
                     }
                     if (!status.ok()) failure = std::move(status);
                   });
  if (failure.ok() && audit != nullptr) read(&at_snapshot_, audit);
  read_options_.snapshot = nullptr;
  BRECCIA_TRY(failure);
  if (audit == nullptr) return Status();
  if (lookups == Lookups::kAtOpening) return write(&at_snapshot_.first);
  return use_.db->Write(use_.write_options, indexed_.GetWriteBatch());
}

Status RocksdbSession::look_up_in_order(std::uint64_t number, const Slice& key, Audit* audit) {
  value_.Reset();
  Status status = indexed_.GetFromBatchAndDB(use_.db, read_options_, use_.db->DefaultColumnFamily(),
                                             key, &value_);
  if (audit != nullptr && sampling_.takes(number)) audit->lookup(number, status.code(), value_);
  return status.IsNotFound() ? Status() : status;
}

}  // namespace breccia::bench
