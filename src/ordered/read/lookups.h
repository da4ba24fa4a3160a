#pragma once

#include <rocksdb/iterator.h>
#include <rocksdb/options.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "batch/requests.h"
#include "ordered/background/merger.h"
#include "ordered/parts.h"
#include "ordered/read/range.h"
#include "ordered/read/read_set.h"
#include "ordered/read/reader.h"
#include "ordered/write/publisher.h"
#include "ordered/write/run_builder.h"

namespace breccia::ordered {

/// The road of all reads, and where each of them runs: one key on the calling thread, few likewise,
/// many on the backend, for which memtables become runs and the host's small runs go to the device.
/// What was searched tells the merger what is worth a merge.
///
/// Threads any.
class Lookups {
 public:
  Lookups(const StoreParts& parts, const RunBuilder* builder, Publisher* publisher, Merger* merger,
          const Reader* reader, const RangeReader* ranges, const Validator* validator)
      : parts_(parts),
        builder_(builder),
        publisher_(publisher),
        merger_(merger),
        reader_(reader),
        ranges_(ranges),
        validator_(validator) {}

  /// The reads of a batch without writes as of now, if nothing of `validated` was written since.
  /// Errors  InvalidArgument: a family is not there; MemoryLimit; those of Validator::validate.
  Status submit(const ReadSet& validated, batch::Requests* requests) const;
  /// The reads of `requests` as of `pin`.
  /// Errors  InvalidArgument: a family is not in the pin; MemoryLimit.
  Status read(const Pin& pin, batch::Requests* requests) const;
  /// The reads of a batch that was prepared, whose writes lie at `base` and are seen by `pin`.
  void read_behind_writes(const Pin& pin, std::uint64_t base, batch::Requests* requests) const {
    search(pin, /*own_writes=*/true, base, requests);
  }

  /// `from_tree`: whether the answer needed the tree; may be null.
  /// Errors  InvalidArgument: no such family in the pin; those of read_version.
  Status get(const Pin& pin, FamilyId family, const Slice& key, rocksdb::PinnableSlice* value,
             bool* from_tree) const;
  /// `keys` of the default family as of now. Statuses are those of single keys.
  /// Errors  MemoryLimit.
  Status multi_get(std::span<const Slice> keys, std::vector<std::string>* values,
                   std::vector<Status>* statuses) const;
  /// An iterator over `family` as of `pin`, which it holds. `options`: bounds, fill_cache and what
  /// else concerns the tree; its snapshot is not looked at. `repin` as for make_iterator.
  /// Errors  InvalidArgument, in its status.
  [[nodiscard]] std::unique_ptr<rocksdb::Iterator> iterate(const rocksdb::ReadOptions& options,
                                                           FamilyId family, const Pin& pin,
                                                           std::function<Pin()> repin) const;

  /// Whether anything of `reads` was written since, as of `pin`.
  /// Errors  those of Validator::validate.
  [[nodiscard]] Status validate(const Pin& pin, const ReadSet& reads) const {
    return validator_->validate(pin, reads, parts_.backend_min.reads);
  }
  /// Makes runs of the memtables that many of `reads` are validated in.
  void seal_for_search(const ReadSet& reads) const;
  /// Makes runs of the memtables that so many ranges of a batch with writes would each look into.
  void seal_for_ranges(const batch::Requests& requests) const;

 private:
  Status prepare_and_search(const ReadSet& validated, batch::Requests* requests) const;
  void search(const Pin& pin, bool own_writes, std::uint64_t base, batch::Requests* requests) const;
  void note_host_search(const FamilyView& family) const;
  void note_host_searches(const FamilyView& family) const;
  void seal_for_search(const batch::Requests& requests) const;
  void seal_for_search(FamilyId family, std::uint64_t requests, std::uint64_t entries_min) const;
  void lift_for_search(FamilyId family, std::uint64_t requests, std::uint64_t requests_min) const;

  const StoreParts parts_;
  const RunBuilder* builder_;
  Publisher* publisher_;
  Merger* merger_;
  const Reader* reader_;
  const RangeReader* ranges_;
  const Validator* validator_;
};

}  // namespace breccia::ordered
