#include "hash/engine/state.h"

#include <mutex>
#include <shared_mutex>
#include <utility>

#include "base/memory.h"
#include "hash/engine/intake.h"
#include "wal/read/walk.h"

namespace breccia::hash {

namespace {

bool is_on_host(const KeyMap& map) { return map.index().backend().device().is_host(); }

bool has_ids_on_device(const KeyMap* map) {
  return map != nullptr && !is_on_host(*map) && map->has_only_words();
}

/// Whether a lookup says so, and not that the device is of no use: it changes nothing, so one that
/// finds no memory may be tried again.
bool is_answer(const KeyMap& map, const Status& status) {
  return status.ok() || status.IsMemoryLimit() || status.IsInvalidArgument() || is_on_host(map);
}

}  // namespace

Status fill(const wal::SegmentTable& table, std::uint64_t from, std::uint64_t to, KeyMap* map) {
  MapIntake intake(map);
  BRECCIA_TRY(wal::take_in_frames(table, from, to, &intake));
  return intake.status();
}

Status write_frame(wal::Log* log, wal::CommitQueue* commits, const wal::RecordSource& records,
                   WriteTicket* ticket) {
  ticket->lay_at_frame();
  const Status filled = base::with_patience([&] {
    log->fill(&ticket->frame, records);
    log->seal(&ticket->frame);
    return Status::OK();
  });
  if (filled.ok()) return commits->finish(ticket);
  commits->abandon(ticket, filled);
  return base::copy_of(filled);
}

State::State(const wal::Log* log, std::unique_ptr<KeyMap> map, std::uint64_t visible,
             std::uint64_t keys_expected, std::function<void(const Status& why)> left)
    : log_(log),
      keys_expected_(keys_expected),
      left_(std::move(left)),
      numbering_(map->numbering()),
      map_(std::move(map)),
      visible_(visible) {}

Status State::find(std::span<const Lookup> lookups, wal::SegmentTablePtr* table) {
  for (const Lookup& lookup : lookups) lookup.payload->resize(lookup.keys.count);
  return look_up([&](const KeyMap& map) {
    *table = log_->table();
    for (const Lookup& lookup : lookups) {
      BRECCIA_TRY(map.find(lookup.keys, lookup.payload->data()));
    }
    return Status::OK();
  });
}

bool State::knows_ids() const {
  const std::shared_lock lock(mutex_);
  return has_ids_on_device(map_.get());
}

std::optional<record::RecordHeader> State::common_put() const {
  const std::shared_lock lock(mutex_);
  return map_ == nullptr ? std::nullopt : map_->common_put();
}

Status State::find(RowLookup* lookup, RowPlaces* places) {
  Status status;
  {
    const std::shared_lock lock(mutex_);
    if (!has_ids_on_device(map_.get())) return Status::NotSupported("ids are not on a device");
    *places = {log_->table(), map_->common_put()};
    status = base::with_patience([&] { return map_->find(lookup); });
    if (is_answer(*map_, status)) return status;
  }
  // Once more, as look_up() does. Not on the host: the columns are the device's.
  const std::unique_lock lock(mutex_);
  if (!has_ids_on_device(map_.get())) return status;
  *places = {log_->table(), map_->common_put()};  // of what was written meanwhile, too
  status = base::or_memory_limit([&] { return map_->find(lookup); });
  if (!is_answer(*map_, status)) lose(status);
  return status;
}

Status State::newest(const Entries& records, const wal::SegmentTable& table,
                     std::uint64_t* payload) {
  return look_up([&](const KeyMap& map) { return map.newest(records, table, payload); });
}

/// Nothing becomes visible meanwhile. A segment that the table has not any more was given back when
/// copies of what counts in it had become visible, and that was before.
View State::view() const {
  const std::shared_lock lock(mutex_);
  return {log_->table(), visible()};
}

/// look(map), and once more on the host, if the device failed.
template <class Look>
Status State::look_up(const Look& look) {
  {
    const std::shared_lock lock(mutex_);
    if (map_ != nullptr) {
      // The device's memory may be another tenant's for a moment.
      const Status status = base::with_patience([&] { return look(*map_); });
      if (is_answer(*map_, status)) return status;
    }
  }
  const std::unique_lock lock(mutex_);
  if (map_ != nullptr) {
    const Status status = base::or_memory_limit([&] { return look(*map_); });
    if (is_answer(*map_, status)) return status;
    lose(status);
  }
  BRECCIA_TRY(fill_on_host());
  return base::or_memory_limit([&] { return look(*map_); });
}

Status State::publish(WriteTicket* ticket) {
  const std::unique_lock lock(mutex_);
  return base::with_patience([&] { return publish_in_turn(ticket); });
}

Status State::publish_in_turn(WriteTicket* ticket) {
  if (map_ == nullptr) BRECCIA_TRY(fill_on_host());
  const wal::SegmentTablePtr table = log_->table();
  if (ticket->reads != nullptr) {
    BRECCIA_ASSERT(ticket->found.payload.size() == ticket->reads->count());
    ticket->found.table = table;
    const Status found = base::or_memory_limit(
        [&] { return map_->find(ticket->reads->keys(), ticket->found.payload.data()); });
    if (!found.ok() && is_answer(*map_, found)) return found;
    if (!found.ok()) return lose_and_retry(ticket, found);
  }
  const Status status = base::or_memory_limit([&] { return take_in(ticket, *table); });
  if (!status.ok()) return lose_and_retry(ticket, status);
  BRECCIA_ASSERT(visible() < ticket->frame.end());
  visible_.store(ticket->frame.end(), std::memory_order_release);
  return Status::OK();
}

Status State::take_in(WriteTicket* ticket, const wal::SegmentTable& table) {
  if (ticket->records == nullptr) {
    return map_->take_in(ticket->entries, ticket->common, table.places());
  }
  if (has_ids_on_device(map_.get())) {
    return map_->take_in(ticket->records, ticket->frame.records_position());
  }
  // Another map than the one that the device has made them for: the log has them, too.
  return fill(table, ticket->frame.position, ticket->frame.end(), map_.get());
}

/// A map that has a part of a batch is of no use. On the host it is filled again by the next try.
Status State::lose_and_retry(WriteTicket* ticket, const Status& why) {
  const bool was_on_host = is_on_host(*map_);
  lose(why);
  return was_on_host ? base::copy_of(why) : publish_in_turn(ticket);
}

/// Fills the map again, with all that is visible.
Status State::fill_on_host() {
  return base::or_memory_limit([&] {
    BRECCIA_TAKE(auto map, KeyMap::make(make_host_backend(), keys_expected_, numbering_));
    BRECCIA_TRY(fill(*log_->table(), log_->begin(), visible(), map.get()));
    map_ = std::move(map);
    return Status::OK();
  });
}

/// What is in the map now is not known.
void State::lose(const Status& why) {
  const bool was_on_host = is_on_host(*map_);
  map_.reset();
  if (!was_on_host) base::as_memory_allows([&] { left_(why); });
}

void State::look(const std::function<void(const KeyMap& map)>& work) const {
  const std::shared_lock lock(mutex_);
  if (map_ != nullptr) work(*map_);
}

}  // namespace breccia::hash
