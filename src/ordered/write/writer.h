#pragma once

#include <breccia/store_options.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "batch/requests.h"
#include "ordered/background/merger.h"
#include "ordered/background/room.h"
#include "ordered/parts.h"
#include "ordered/read/lookups.h"
#include "ordered/read/read_set.h"
#include "ordered/write/publisher.h"
#include "ordered/write/run_builder.h"
#include "ordered/write/ticket.h"
#include "ordered/write/update.h"
#include "wal/commit_queue.h"

namespace breccia::ordered {

/// The road of all writes: room, a place in the log, records copied and runs built, sealed, then
/// the commit queue, which makes them durable and visible in order.
///
/// Threads any.
class Writer {
 public:
  Writer(const StoreParts& parts, Room* room, Merger* merger, wal::CommitQueue* commits,
         const RunBuilder* builder, Publisher* publisher, const Updater* updater,
         const Lookups* lookups);

  /// Writes the requests' writes, all or none, and answers its reads, which see the writes before
  /// them; if nothing of `validated` was written since. The writes come right behind that check.
  /// Errors  InvalidArgument: a family is not there; NotSupported: merges without an operator;
  ///         those of Room::claim, of Validator::validate and of the log; MemoryLimit: nothing was
  ///         done.
  Status submit(const WriteOptions& options, const ReadSet& validated, batch::Requests* requests) {
    return requests->write_count() > 0 ? write(options, validated, requests)
                                       : lookups_->submit(validated, requests);
  }
  /// One write. Errors  as submit().
  Status write_one(const WriteOptions& options, record::Op op, FamilyId family, const Slice& key,
                   const Slice& value);

 private:
  using UpdatedBatch = std::vector<std::unique_ptr<UpdatedWrites>>;
  using UpdatesAhead = std::vector<std::unique_ptr<UpdateWork>>;

  Status write(const WriteOptions& options, const ReadSet& validated, batch::Requests* requests);
  Status write_and_read(const WriteOptions& options, const ReadSet& validated,
                        batch::Requests* requests);
  Status submit_writes(const WriteOptions& options, const ReadSet& validated,
                       batch::Requests* requests, WriteTicket* ticket);
  Status enter(const WriteOptions& options, const ReadSet& validated, batch::Requests* requests,
               bool as_runs, UpdatedBatch* updated, WriteTicket* ticket);
  void prepare_updates(batch::Requests* requests, UpdatesAhead* ahead) const;
  void update_in_turn(UpdatesAhead* ahead, UpdatedBatch* updated);
  Status fill_by_crew(batch::Requests* requests, WriteTicket* ticket);
  [[nodiscard]] bool takes_crew(std::uint64_t writes) const;
  [[nodiscard]] bool become_one_run_each(const batch::Requests& requests) const;
  Status fill_frame(batch::Requests* requests, bool as_runs, const UpdatedBatch& updated,
                    WriteTicket* ticket);
  void find_place(WriteTicket* ticket) const;
  Status build_runs(batch::Requests* requests, WriteTicket* ticket);
  Status build_run(const batch::Writes& writes, std::uint32_t* descriptors, WriteTicket* ticket);

  const StoreParts parts_;
  Room* room_;
  Merger* merger_;
  wal::CommitQueue* commits_;
  const RunBuilder* builder_;
  Publisher* publisher_;
  const Updater* updater_;
  const Lookups* lookups_;
};

}  // namespace breccia::ordered
