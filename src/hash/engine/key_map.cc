#include "hash/engine/key_map.h"

#include <atomic>
#include <string>
#include <unordered_set>
#include <utility>

#include "base/parallel.h"
#include "record/key_columns.h"
#include "record/record.h"

namespace breccia::hash {

namespace {

const std::byte* record_at(const wal::SegmentTable& table, std::uint64_t payload) {
  return table.at(record::position_of(payload));
}

/// The entries of a frame. Returns whether all its keys have 8 bytes.
bool add_entries(const wal::RecoveredFrame& frame, const Numbering& numbering,
                 std::uint64_t* number, std::uint64_t* payload) {
  bool only_words = true;
  record::for_each_operation(frame.records, frame.record_count, [&](const record::Operation& one) {
    *number++ = numbering.of(one.key);
    *payload++ = payload_of(frame, one);
    only_words = only_words && one.key.size() == sizeof(std::uint64_t);
  });
  return only_words;
}

}  // namespace

Result<std::unique_ptr<KeyMap>> KeyMap::make(std::shared_ptr<Backend> backend, std::uint64_t keys,
                                             const Numbering& numbering) {
  BRECCIA_TAKE(auto index, Index::make(std::move(backend), keys));
  return std::unique_ptr<KeyMap>(new KeyMap(std::move(index), numbering));
}

Status KeyMap::find(const record::KeyColumnsRef& keys, std::uint64_t* payload) const {
  std::vector<std::uint64_t> number(keys.count);
  numbering_.of_all(keys, number.data());
  BRECCIA_TRY(index_->find(number.data(), payload, keys.count));
  if (shared_.none()) return Status::OK();
  std::string key;
  for (std::uint64_t i = 0; i < keys.count; ++i) {
    if (!shared_.has(number[i])) continue;
    key.resize(keys.bytes_at(i));
    record::restore_key(keys, i, key.data());
    payload[i] = shared_.find(key);
  }
  return Status::OK();
}

Status KeyMap::newest(const Entries& records, const wal::SegmentTable& table,
                      std::uint64_t* payload) const {
  BRECCIA_TRY(index_->find(records.number.data(), payload, records.count()));
  for (std::uint64_t i = 0; !shared_.none() && i < records.count(); ++i) {
    if (!shared_.has(records.number[i])) continue;
    payload[i] = shared_.find(key_of(record_at(table, records.payload[i])));
  }
  return Status::OK();
}

Status KeyMap::take_in(const Entries& entries, bool only_words, const wal::SegmentTable& table) {
  has_other_keys_ = has_other_keys_ || !only_words || !numbering_.tells_words_apart();
  std::vector<std::uint64_t> before;
  BRECCIA_TRY(index_->raise(entries, &before));
  if (has_other_keys_) note_shared(entries, before, table);
  return forget_deletions(entries, table);
}

/// Where a record met one of another key, their number is shared from here on. What the index says
/// of a number that was shared before may be of a record that is gone.
void KeyMap::note_shared(const Entries& entries, const std::vector<std::uint64_t>& before,
                         const wal::SegmentTable& table) {
  const auto key_at = [&](std::uint64_t payload) {
    return key_of(table.at(record::position_of(payload)));
  };
  std::unordered_set<std::uint64_t> now_shared;
  for (std::uint64_t i = 0; i < entries.count(); ++i) {
    if (before[i] == 0 || shared_.has(entries.number[i])) continue;
    if (key_at(before[i]) != key_at(entries.payload[i])) now_shared.insert(entries.number[i]);
  }
  for (const std::uint64_t number : now_shared) shared_.share(number);
  for (std::uint64_t i = 0; !shared_.none() && i < entries.count(); ++i) {
    if (!shared_.has(entries.number[i])) continue;
    shared_.raise(key_at(entries.payload[i]), entries.payload[i]);
    if (before[i] == 0 || !now_shared.contains(entries.number[i])) continue;
    shared_.raise(key_at(before[i]), before[i]);
  }
}

Status KeyMap::forget_deletions(const Entries& entries, const wal::SegmentTable& table) {
  Entries deletions;
  for (std::uint64_t i = 0; i < entries.count(); ++i) {
    const std::uint64_t payload = entries.payload[i];
    if (!record::is_deletion(record::op_of(payload))) continue;
    deletions.add(entries.number[i], payload);
    if (shared_.has(entries.number[i])) shared_.drop(key_of(record_at(table, payload)), payload);
  }
  return deletions.count() == 0 ? Status::OK() : index_->drop(deletions);
}

Status KeyMap::take_in(std::span<const wal::RecoveredFrame> frames,
                       const wal::SegmentTable& table) {
  std::vector<std::uint64_t> begin;  // of each frame's entries
  std::uint64_t records = 0;
  for (const wal::RecoveredFrame& frame : frames) {
    if (!frame.only_default_points) {
      return Status::Corruption("the log holds what no store of the hash engine writes",
                                "it may be that of a store of another engine");
    }
    begin.push_back(records);
    records += frame.record_count;
  }
  Entries entries;
  entries.number.resize(records);
  entries.payload.resize(records);
  std::atomic<bool> only_words = true;
  base::parallel_for(std::size_t{0}, frames.size(), [&](std::size_t i) {
    if (!add_entries(frames[i], numbering_, entries.number.data() + begin[i],
                     entries.payload.data() + begin[i])) {
      only_words = false;
    }
  });
  return take_in(entries, only_words, table);
}

}  // namespace breccia::hash
