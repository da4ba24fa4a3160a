#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/section_mutex.h"
#include "batch/reads.h"
#include "hash/engine/key_map.h"
#include "wal/commit_queue.h"

namespace breccia::hash {

/// What some reads found: payloads, and the log that they point into.
struct Found {
  std::vector<std::uint64_t> payload;
  wal::SegmentTablePtr table;
};

/// Where the rows of a lookup lie that is as of one moment.
struct RowPlaces {
  wal::SegmentTablePtr table;
  /// The header that all puts of then share, if they do.
  std::optional<record::RecordHeader> put;
};

/// What a store holds at one moment: records below `end`, all of which lie in `table`, as far as
/// they count.
struct View {
  wal::SegmentTablePtr table;
  std::uint64_t end = 0;
};

/// One batch's writes on their way from their place in the log to the key map.
struct WriteTicket : wal::Ticket {
  Entries entries;  // payloads from the first of the frame's records on, until lay_at_frame()
  Common common;
  /// In the place of entries, for batches that a device has made; null: there are none.
  RowRecords* records = nullptr;
  /// Lookups of the same batch; null: there are none. What they find without its writes, for which
  /// there is room.
  const batch::Reads* reads = nullptr;
  Found found;

  /// Makes positions of the entries' offsets.
  /// Shape   called once, when the frame has its place.
  void lay_at_frame() {
    for (std::uint64_t& payload : entries.payload) payload += frame.records_position();
  }
};

/// Fills the frame of a ticket that has its place, and commits it.
/// Errors  those of CommitQueue::finish; MemoryLimit: the store stops, as the log has a hole.
[[nodiscard]] Status write_frame(wal::Log* log, wal::CommitQueue* commits,
                                 const wal::RecordSource& records, WriteTicket* ticket);

/// The key map, and how far it is visible. Lookups share it; a batch's writes come in while nobody
/// looks, so that they are seen together.
///
/// A map whose device fails is filled again on the host, from the log, by the first call that
/// learns of it. (Who is told of a loss by the device is inside of such a call, and has the lock.)
///
/// Threads any; publish() by one at a time.
class State {
 public:
  /// `left` hears why the device was left. The map has all of the log below `visible`.
  State(const wal::Log* log, std::unique_ptr<KeyMap> map, std::uint64_t visible,
        std::uint64_t keys_expected, std::function<void(const Status& why)> left);

  /// Keys to be looked up, and where their payloads go.
  struct Lookup {
    record::KeyColumnsRef keys;
    std::vector<std::uint64_t>* payload;
  };
  /// Looks up all keys at one moment. *table: what the payloads point into.
  /// Errors  MemoryLimit; Corruption, IOError: the map was lost, and the log cannot be read.
  [[nodiscard]] Status find(std::span<const Lookup> lookups, wal::SegmentTablePtr* table);
  /// Whether ids can be looked up where the map lies: on a device, and no other keys are there.
  [[nodiscard]] bool knows_ids() const;
  /// The header that all puts share that are visible now; none: they share none.
  [[nodiscard]] std::optional<record::RecordHeader> common_put() const;
  /// Looks up rows of ids where the map lies. *places: of what is found.
  /// Errors  NotSupported: not knows_ids() any more, ask by find(); MemoryLimit; InvalidArgument:
  ///         the stream; IOError: the device, which is left then.
  [[nodiscard]] Status find(RowLookup* lookup, RowPlaces* places);
  /// payload[n]: the newest of the keys of records, which lie in `table`.
  [[nodiscard]] Status newest(const Entries& records, const wal::SegmentTable& table,
                              std::uint64_t* payload);
  /// Makes a committed batch visible, and before that answers its lookups.
  [[nodiscard]] Status publish(WriteTicket* ticket);

  /// All that is visible now.
  [[nodiscard]] View view() const;
  [[nodiscard]] std::uint64_t visible() const { return visible_.load(std::memory_order_acquire); }
  [[nodiscard]] const Numbering& numbering() const { return numbering_; }
  /// work(map), while nobody changes it. Not called if there is none.
  void look(const std::function<void(const KeyMap& map)>& work) const;

 private:
  template <class Look>
  Status look_up(const Look& look);
  Status publish_in_turn(WriteTicket* ticket);
  Status take_in(WriteTicket* ticket, const wal::SegmentTable& table);
  Status lose_and_retry(WriteTicket* ticket, const Status& why);
  Status fill_on_host();
  void lose(const Status& why);

  const wal::Log* const log_;
  const std::uint64_t keys_expected_;
  const std::function<void(const Status& why)> left_;
  const Numbering numbering_;
  mutable base::SectionMutex mutex_;  // guards map_
  std::unique_ptr<KeyMap> map_;       // null: lost, and not filled again yet
  std::atomic<std::uint64_t> visible_;
};

/// Fills `map` with the records of a log that lie in [from, to).
[[nodiscard]] Status fill(const wal::SegmentTable& table, std::uint64_t from, std::uint64_t to,
                          KeyMap* map);

}  // namespace breccia::hash
