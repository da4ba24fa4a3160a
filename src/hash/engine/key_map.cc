#include "hash/engine/key_map.h"

#include <string>
#include <unordered_set>
#include <utility>

#include "record/key_columns.h"
#include "record/record.h"

namespace breccia::hash {

namespace {

const std::byte* record_at(const wal::SegmentTable::Places& log, std::uint64_t payload) {
  return log.at(record::position_of(payload));
}

/// Without jumps, as there seldom is one.
bool has_deletions(const Entries& entries) {
  std::uint64_t found = 0;
  for (const std::uint64_t payload : entries.payload) {
    found |= record::is_deletion(record::op_of(payload)) ? 1U : 0U;
  }
  return found != 0;
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
    payload[i] = shared_.find(key_of(record_at(table.places(), records.payload[i])));
  }
  return Status::OK();
}

Status KeyMap::take_in(const Entries& entries, const Common& common,
                       const wal::SegmentTable::Places& log) {
  common_.add(common);
  if (has_only_words()) {
    BRECCIA_TRY(index_->raise(entries, nullptr));
  } else {
    std::vector<std::uint64_t> before;
    BRECCIA_TRY(index_->raise(entries, &before));
    note_shared(entries, before, log);
  }
  return has_deletions(entries) ? forget_deletions(entries, log) : Status::OK();
}

/// Where a record met one of another key, their number is shared from here on. What the index says
/// of a number that was shared before may be of a record that is gone.
void KeyMap::note_shared(const Entries& entries, const std::vector<std::uint64_t>& before,
                         const wal::SegmentTable::Places& log) {
  const auto key_at = [&](std::uint64_t payload) { return key_of(record_at(log, payload)); };
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

Status KeyMap::forget_deletions(const Entries& entries, const wal::SegmentTable::Places& log) {
  Entries deletions;
  for (std::uint64_t i = 0; i < entries.count(); ++i) {
    const std::uint64_t payload = entries.payload[i];
    if (!record::is_deletion(record::op_of(payload))) continue;
    deletions.add(entries.number[i], payload);
    if (shared_.has(entries.number[i])) shared_.drop(key_of(record_at(log, payload)), payload);
  }
  return deletions.count() == 0 ? Status::OK() : index_->drop(deletions);
}

}  // namespace breccia::hash
