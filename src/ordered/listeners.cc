#include "ordered/listeners.h"

#include <rocksdb/env.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/parallel.h"
#include "tree/audience.h"
#include "tree/tree.h"
#include "tree/tree_events.h"
#include "wal/format.h"

namespace breccia::ordered {

namespace {

std::uint64_t deletions_in(const Order& order, const wal::SegmentTable& table) {
  constexpr std::uint64_t kEntriesPerPart = 64 << 10;
  const std::uint64_t n = order.count;
  std::atomic<std::uint64_t> deletions{0};
  base::parallel_for(
      std::uint64_t{0}, (n + kEntriesPerPart - 1) / kEntriesPerPart, [&](std::uint64_t part) {
        const std::uint64_t end = std::min(n, (part + 1) * kEntriesPerPart);
        std::uint64_t own = 0;
        for (std::uint64_t i = part * kEntriesPerPart; i < end; ++i) {
          own += record::is_deletion(record::op_of(order.payload_at(i, table))) ? 1 : 0;
        }
        deletions += own;
      });
  return deletions;
}

}  // namespace

Listeners::Listeners(Users users) : audience_(std::make_shared<tree::Audience>(std::move(users))) {}

Listeners::Users Listeners::for_tree() {
  return tree::make_tree_events(audience_, [this](const auto& info) { add_file(info); });
}

void Listeners::open(rocksdb::DB* shown) { audience_->open(shown); }

void Listeners::close() { audience_->close(); }

void Listeners::wait(std::uint64_t event) { audience_->wait(event); }

bool Listeners::has_users() const { return !audience_->users().empty(); }

void Listeners::note_files(rocksdb::DB* tree) {
  if (!has_users()) return;
  std::vector<rocksdb::LiveFileMetaData> files;
  tree->GetLiveFilesMetaData(&files);
  for (const rocksdb::LiveFileMetaData& file : files) {
    if (tree::is_reserved(file.column_family_name)) audience_->own_files().add(file.name);
  }
}

template <class Call>
void Listeners::post(Call call) {
  audience_->post([audience = audience_.get(), call = std::move(call)] {
    for (const auto& user : audience->users()) call(*user);
  });
}

// ---- flushes -----------------------------------------------------------------------------------

Listeners::Job Listeners::job_of(const View& view, const FamilyView& family,
                                 std::uint64_t applied) {
  Job job;
  job.memtable.cf_name = family.tree->GetName();
  job.memtable.earliest_seqno = job.memtable.first_seqno = applied;
  job.memtable.num_entries = job.memtable.num_deletes = 0;
  for (const MemRunPtr& run : family.runs) {
    job.memtable.earliest_seqno = std::min(job.memtable.earliest_seqno, run->begin);
    for (const Order& order : run->orders) {
      job.memtable.num_entries += order.count;
      job.memtable.num_deletes += deletions_in(order, *view.table);
    }
  }
  if (family.tombstones != nullptr) {
    family.tombstones->for_each(0, [&](const memtable::Tombstone& one) {
      if (one.position >= applied) return false;
      job.memtable.earliest_seqno = std::min(job.memtable.earliest_seqno, one.position);
      ++job.memtable.num_entries;
      ++job.memtable.num_deletes;
      return true;
    });
  }
  job.memtable.first_seqno = job.memtable.earliest_seqno;
  job.info = rocksdb::FlushJobInfo();
  job.info.cf_id = family.id;
  job.info.cf_name = job.memtable.cf_name;
  job.info.file_number = job.info.oldest_blob_file_number = 0;
  job.info.thread_id = view.below.db->GetEnv()->GetThreadID();
  job.info.triggered_writes_slowdown = job.info.triggered_writes_stop = false;
  job.info.smallest_seqno = job.memtable.earliest_seqno;
  job.info.largest_seqno = applied;
  job.info.blob_compression_type = rocksdb::kNoCompression;
  return job;
}

void Listeners::flush_begins(const View& view, std::uint64_t applied, bool manual) {
  flush_.clear();
  if (!has_users()) return;
  ++jobs_;
  for (const FamilyViewPtr& family : view.families) {
    if (family->dropped || tree::is_reserved(family->tree->GetName())) continue;
    Job job = job_of(view, *family, applied);
    if (job.memtable.num_entries == 0) continue;
    job.info.job_id = jobs_;
    job.info.flush_reason =
        manual ? rocksdb::FlushReason::kManualFlush : rocksdb::FlushReason::kWriteBufferFull;
    flush_.push_back(std::move(job));
  }
  if (flush_.empty()) return;
  post([this, jobs = flush_](rocksdb::EventListener& user) {
    for (const Job& job : jobs) user.OnMemTableSealed(job.memtable);
    for (const Job& job : jobs) user.OnFlushBegin(audience_->shown(), job.info);
  });
}

/// A family's flush may make several files: the first is named, properties are of all.
void Listeners::add_file(const rocksdb::ExternalFileIngestionInfo& info) {
  for (Job& job : flush_) {
    if (job.info.cf_name != info.cf_name) continue;
    if (job.has_file) {
      job.info.table_properties.Add(info.table_properties);
      continue;
    }
    job.has_file = true;
    job.info.file_path = info.internal_file_path;
    job.info.file_number = tree::table_number(info.internal_file_path);
    job.info.table_properties = info.table_properties;
  }
}

std::uint64_t Listeners::flush_completed() {
  if (flush_.empty()) return 0;
  post([this, jobs = std::move(flush_)](rocksdb::EventListener& user) {
    for (const Job& job : jobs) user.OnFlushCompleted(audience_->shown(), job.info);
  });
  flush_.clear();
  return audience_->posted();
}

// ---- the rest ----------------------------------------------------------------------------------

void Listeners::background_error(rocksdb::BackgroundErrorReason reason, const Status& status) {
  if (!has_users()) return;
  post([reason, status](rocksdb::EventListener& user) {
    Status changed = status;  // the store stays read-only, whatever a listener makes of it
    user.OnBackgroundError(reason, &changed);
    changed.PermitUncheckedError();
  });
}

void Listeners::stall(const View& view, bool stalled) {
  if (!has_users()) return;
  using Condition = rocksdb::WriteStallCondition;
  for (const FamilyViewPtr& family : view.families) {
    rocksdb::WriteStallInfo info;
    info.cf_name = family->tree->GetName();
    info.condition.cur = stalled ? Condition::kStopped : Condition::kNormal;
    info.condition.prev = stalled ? Condition::kNormal : Condition::kStopped;
    if (tree::is_reserved(info.cf_name)) continue;
    post([info](rocksdb::EventListener& user) { user.OnStallConditionsChanged(info); });
  }
}

void Listeners::handle_goes(rocksdb::ColumnFamilyHandle* handle) {
  if (!audience_->is_open()) return;
  audience_->tell([&] {
    for (const auto& user : audience_->users()) user->OnColumnFamilyHandleDeletionStarted(handle);
  });
}

}  // namespace breccia::ordered
