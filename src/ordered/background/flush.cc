#include "ordered/background/flush.h"

#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/merge_operator.h>

#include <algorithm>
#include <deque>
#include <memory>

#include "base/own_threads.h"
#include "base/parallel.h"
#include "base/precedence.h"
#include "base/prefetch.h"
#include "ordered/read/versions.h"
#include "record/keyed_hash.h"
#include "wal/format.h"

/// A flush of one view: all runs of a family are merged to one, whose entries are cut by key into
/// parts of about the same size; each part becomes a file (EntryReader turns versions into what the
/// tree should hold: one entry a key). Range deletions are a file below those, operands that do not
/// combine files above them (Stacks). All files are ingested with the watermark, at once.

namespace breccia::ordered {

namespace {

/// Of each entry of a file its key's hashes, in the row cache and in the family's filter; none
/// where the family has no such thing. Deletions are among those for the filter: their keys were
/// added when they were put, so leaving them out would save nothing.
struct FileHashes {
  FamilyId family;
  bool for_cache;
  const record::HashSeed* for_filter;  // null: none
  std::vector<std::uint64_t> in_cache = {};
  std::vector<std::uint64_t> in_filter = {};

  void add(const Slice& key) {
    if (for_cache) in_cache.push_back(cache::RowCache::hash(family, key));
    if (for_filter != nullptr) {
      in_filter.push_back(record::keyed_hash(key.data(), key.size(), *for_filter));
    }
  }
};
using FlushedHashes = std::vector<FileHashes>;

/// The single deletions of a merged run, and whether the tree has anything that they delete: only
/// then it has to hear of them. Looked up many at a time.
class SingleDeletions {
 public:
  SingleDeletions(const View& view, const FamilyView& family,
                  const std::vector<std::uint64_t>& payloads, std::uint64_t begin,
                  std::uint64_t end)
      : view_(view), family_(family), payloads_(payloads), looked_up_(begin), end_(end) {}

  /// True if the tree may have a value of the key that entry `i`, a single deletion, deletes.
  /// Shape   `i` grows from call to call.
  bool deletes_something(std::uint64_t i) {
    BRECCIA_ASSERT(i < end_ && record::op_of(payloads_[i]) == record::Op::kSingleDelete);
    if (!family_.tree_has_data) return false;
    if (i >= looked_up_) look_up(i);
    return std::binary_search(of_something_.begin(), of_something_.end(), i);
  }

 private:
  /// Looks up the keys of the next single deletions from entry `i` on.
  void look_up(std::uint64_t i) {
    constexpr std::size_t kAtOnce = 256;
    std::vector<std::uint64_t> entries;
    std::vector<Slice> keys;
    for (; i < end_ && entries.size() < kAtOnce; ++i) {
      if (record::op_of(payloads_[i]) != record::Op::kSingleDelete) continue;
      const std::byte* const record = view_.table->at(record::position_of(payloads_[i]));
      entries.push_back(i);
      keys.emplace_back(record::record_key(record), record::record_header(record).key_bytes());
    }
    looked_up_ = i;
    std::vector<Status> statuses(keys.size());
    view_.below.contains(family_.in_tree(), keys, statuses);
    of_something_.clear();
    // A key that cannot be read counts: a range deletion too many does no harm.
    for (std::size_t j = 0; j < keys.size(); ++j) {
      if (!statuses[j].IsNotFound()) of_something_.push_back(entries[j]);
    }
  }

  const View& view_;
  const FamilyView& family_;
  const std::vector<std::uint64_t>& payloads_;
  std::uint64_t looked_up_;  // entries below it
  const std::uint64_t end_;
  std::vector<std::uint64_t> of_something_;  // of those looked up last, ascending
};

/// The versions of one key, oldest first.
using Versions = std::vector<tree::FileEntry>;

/// The keys of a part that cannot be one entry, since their operands do not combine: of each, in
/// key order, the versions above its oldest. That one is among the part's entries.
struct Stacks {
  std::vector<Versions> keys;
  std::deque<std::string> values;  // those of the versions that lie in no log record
};

/// True if operands do not combine with what is below them: the merge operator failed, or there is
/// none. Damage of the tree counts, too: what goes in above it as it is reads as before.
bool is_merge_failure(const Status& status) {
  return status.IsCorruption() || status.IsInvalidArgument();
}

/// Reads the entries of a merged run, in run order, as the tree should hold them: one entry per
/// key, but for those in Stacks.
class EntryReader {
 public:
  EntryReader(const View& view, const FamilyView& family,
              const std::vector<std::uint64_t>& payloads, std::uint64_t begin, std::uint64_t end,
              FileHashes* hashes, Stacks* stacks)
      : view_(view),
        family_(family),
        payloads_(payloads),
        at_(begin),
        end_(end),
        hashes_(hashes),
        stacks_(stacks),
        single_deletions_(view, family, payloads, begin, end) {}

  /// The next entry; false at the end, or where status() says why not.
  bool next(tree::FileEntry* entry) {
    while (at_ < end_ && status_.ok()) {
      if (!read_key(entry)) continue;
      hashes_->add(entry->key);
      return status_.ok();
    }
    return false;
  }
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  [[nodiscard]] const std::byte* record(std::uint64_t i) const {
    return view_.table->at(record::position_of(payloads_[i]));
  }
  [[nodiscard]] Slice key_of(std::uint64_t i) const {
    return {record::record_key(record(i)), record::record_header(record(i)).key_bytes()};
  }

  /// Reads one key with all its versions; false if nothing of it goes into the tree.
  bool read_key(tree::FileEntry* entry) {
    constexpr std::uint64_t kAhead = 8;
    if (at_ + kAhead < payloads_.size()) base::prefetch(record(at_ + kAhead));
    const std::uint64_t first = at_;
    const Slice key = key_of(first);
    const std::uint64_t newest = payloads_[first];
    const std::uint64_t covered = family_.covering(key, ~std::uint64_t{0});
    *entry = {record::op_of(newest), key, value_at(*view_.table, newest)};
    if (record::position_of(newest) < covered) {
      skip(key);
      return false;  // the range deletion is what the tree needs of it
    }
    if (entry->op == record::Op::kMerge) {
      combine(key, covered, entry);
    } else {
      skip(key);
    }
    entry->hides_older = entry->hides_older || has_single_deletion(first, covered);
    return entry->op != record::Op::kSingleDelete || entry->hides_older;
  }

  /// True if the newest version of the key, or the one below, is a single deletion of something in
  /// the tree. `first`: its newest version; at_: behind its last.
  bool has_single_deletion(std::uint64_t first, std::uint64_t covered) {
    for (std::uint64_t i = first; i < std::min(first + 2, at_); ++i) {
      if (record::op_of(payloads_[i]) != record::Op::kSingleDelete) continue;
      return record::position_of(payloads_[i]) > covered && single_deletions_.deletes_something(i);
    }
    return false;
  }

  void skip(const Slice& key) {
    do {
      ++at_;
    } while (at_ < end_ && key_of(at_) == key);
  }

  /// Turns the operands at at_ and what lies below them into one put, or one operand; where that
  /// cannot be done, into a stack.
  void combine(const Slice& key, std::uint64_t covered, tree::FileEntry* entry) {
    std::vector<Slice> operands;
    std::uint64_t i = at_;
    const auto is_live = [&](std::uint64_t at) {
      return at < end_ && record::position_of(payloads_[at]) > covered && key_of(at) == key;
    };
    for (; is_live(i) && record::op_of(payloads_[i]) == record::Op::kMerge; ++i) {
      operands.push_back(value_at(*view_.table, payloads_[i]));
    }
    std::reverse(operands.begin(), operands.end());
    const bool base_here = is_live(i);
    const bool has_base = base_here && record::op_of(payloads_[i]) == record::Op::kPut;
    const Slice base = has_base ? value_at(*view_.table, payloads_[i]) : Slice();
    const bool below_counts = !base_here && covered == 0;
    skip(key);
    if (below_counts && partial_merge(key, operands, entry)) return;
    combined_.clear();
    // Without an operator the tree is not read: RocksDB ends the process where it would need one.
    status_ = below_counts && family_.merge_operator != nullptr
                  ? merge_above_tree(key, operands)
                  : full_merge(family_, key, has_base ? &base : nullptr, operands, &combined_);
    if (status_.ok()) status_ = check_size();
    if (is_merge_failure(status_)) {
      if (family_.merge_operator == nullptr && !(below_counts && is_new(key))) return;
      stack(base_here ? i : end_, covered, operands, entry);
      return;
    }
    entry->op = record::Op::kPut;
    entry->value = combined_;
  }

  [[nodiscard]] Status check_size() const {
    return combined_.size() <= limits::kMergedBytesMax
               ? Status::OK()
               : Status::InvalidArgument("merge operands become more than a block holds");
  }

  /// Combines `operands` with what the tree has of their key, into combined_.
  Status merge_above_tree(const Slice& key, const std::vector<Slice>& operands) {
    rocksdb::PinnableSlice below;
    // Read through a view without what is being flushed: the tree alone.
    const Status status =
        read_version(view_, family_, key, runs::kNotFound, 0, &below, /*from_tree=*/nullptr);
    if (!status.ok() && !status.IsNotFound()) return status;
    const Slice base = below;
    return full_merge(family_, key, status.ok() ? &base : nullptr, operands, &combined_);
  }

  /// True if the tree holds nothing of the key. Only above nothing may operands go there without a
  /// merge operator: RocksDB says so to readers of operands alone, and ends the process for others.
  [[nodiscard]] bool is_new(const Slice& key) const {
    if (!family_.tree_has_data) return true;
    // An iterator: unlike lookups, it says that it would need the operator.
    std::string behind = key.ToString();
    behind.push_back('\0');
    const Slice bound = behind;
    rocksdb::ReadOptions options;
    options.total_order_seek = true;
    options.iterate_upper_bound = &bound;
    const auto at = view_.below.iterate(options, family_.in_tree());
    at->Seek(key);
    return !at->Valid() && at->status().ok();
  }

  /// Keeps a key as it is, because its operands do not combine: whoever reads it is told so, as
  /// before, and the flush of all others goes on. status_ says why, and is OK from then on.
  /// `base`: the version below the operands, end_ if memory holds none; `entry`: takes the oldest.
  void stack(std::uint64_t base, std::uint64_t covered, const std::vector<Slice>& operands,
             tree::FileEntry* entry) {
    Versions versions;
    if (base < end_) {
      const std::uint64_t payload = payloads_[base];
      versions.push_back({record::op_of(payload), entry->key, value_at(*view_.table, payload),
                          has_single_deletion(base, covered)});
      // A single deletion of nothing is no version.
      if (versions[0].op == record::Op::kSingleDelete && !versions[0].hides_older) versions.clear();
    }
    for (const Slice& operand : operands) {
      versions.push_back({record::Op::kMerge, entry->key, operand});
    }
    while (versions.size() > kMergeStackMax && join_neighbours(&versions)) {
    }
    if (versions.size() > kMergeStackMax) {
      status_ = Status::Corruption("a flush cannot keep so many operands that do not combine",
                                   status_.ToString());
      return;
    }
    status_ = Status::OK();
    *entry = versions.front();
    versions.erase(versions.begin());
    if (!versions.empty()) stacks_->keys.push_back(std::move(versions));
  }

  /// Combines operands in pairs where the merge operator can; false if it could nowhere.
  bool join_neighbours(Versions* versions) {
    if (family_.merge_operator == nullptr) return false;
    Versions joined;
    bool is_pair =
        true;  // the last of `joined`: not to be combined again, costs would be quadratic
    for (const tree::FileEntry& version : *versions) {
      is_pair = !is_pair && join(&joined.back(), version);
      if (!is_pair) joined.push_back(version);
    }
    const bool any = joined.size() < versions->size();
    *versions = std::move(joined);
    return any;
  }

  /// Combines `newer` into `older`, if both are operands and the merge operator can do that.
  bool join(tree::FileEntry* older, const tree::FileEntry& newer) {
    if (older->op != record::Op::kMerge) return false;
    const std::deque<Slice> pair{older->value, newer.value};
    std::string value;
    if (!family_.merge_operator->PartialMergeMulti(older->key, pair, &value, nullptr)) return false;
    older->value = stacks_->values.emplace_back(std::move(value));
    return true;
  }

  /// One operand in the place of several, if the merge operator can do that.
  bool partial_merge(const Slice& key, const std::vector<Slice>& operands, tree::FileEntry* entry) {
    if (operands.size() == 1) return true;  // as it is
    if (family_.merge_operator == nullptr) return false;
    const std::deque<Slice> list(operands.begin(), operands.end());
    combined_.clear();
    if (!family_.merge_operator->PartialMergeMulti(key, list, &combined_, nullptr)) return false;
    if (!check_size().ok()) return false;
    entry->value = combined_;
    return true;
  }

  const View& view_;
  const FamilyView& family_;
  const std::vector<std::uint64_t>& payloads_;
  std::uint64_t at_;
  const std::uint64_t end_;
  FileHashes* const hashes_;
  Stacks* const stacks_;
  SingleDeletions single_deletions_;
  std::string combined_;
  Status status_;
};

/// The files of one family, numbered from *number.
class FamilyFlush {
 public:
  FamilyFlush(const View& view, const FamilyView& family, std::uint64_t applied,
              const tree::Tree& below, const TreeFilters& filters)
      : view_(view), family_(family), applied_(applied), below_(below), filters_(filters) {}

  Status write(int parts, int* number, const MergeRuns& merged,
               std::vector<tree::FamilyFile>* files, FlushedHashes* hashes) {
    BRECCIA_TRY(write_tombstones(number, files));
    if (family_.runs.empty()) return Status::OK();
    BRECCIA_TAKE(const auto one, merged(family_.runs));
    const std::vector<std::uint64_t> payloads = payloads_of(*one, *view_.table);
    const std::vector<std::uint64_t> cuts = cut(payloads, parts);
    const std::size_t count = cuts.size() - 1;
    std::vector<std::string> paths(count);
    std::vector<Status> statuses(count);
    std::vector<Stacks> stacks(count);
    const std::size_t lists = hashes->size();
    hashes->resize(lists + count, {family_.id, view_.below.caches(family_.in_tree()),
                                   filters_.wants(family_) ? &filters_.seed() : nullptr});
    // Writers wait for this if memory is full.
    const base::Precedence::First first(below_.disk());
    base::in_own_threads(count, [&](std::size_t part) {
      statuses[part] = base::or_error([&] {
        EntryReader reader(view_, family_, payloads, cuts[part], cuts[part + 1],
                           &(*hashes)[lists + part], &stacks[part]);
        const auto next = [&](tree::FileEntry* entry) { return reader.next(entry); };
        const Status written = below_.write_file(
            family_.tree.get(), *number + static_cast<int>(part), next, &paths[part]);
        return reader.status().ok() ? written : base::copy_of(reader.status());
      });
    });
    *number += static_cast<int>(count);
    for (const Status& status : statuses) BRECCIA_TRY(status);
    for (const std::string& path : paths) {
      if (!path.empty()) files->push_back({family_.tree.get(), path});
    }
    return write_stacks(stacks, number, files);
  }

 private:
  /// A file holds a key once. So each version above the oldest of keys that do not combine goes
  /// into a file of its own: the second of all of them, above that the third, and so on.
  Status write_stacks(const std::vector<Stacks>& parts, int* number,
                      std::vector<tree::FamilyFile>* files) {
    std::vector<const Versions*> keys;  // with a version for the file
    for (const Stacks& part : parts) {
      for (const Versions& versions : part.keys) keys.push_back(&versions);
    }
    for (std::size_t i = 0; !keys.empty(); ++i) {
      std::size_t key = 0;
      const auto next = [&](tree::FileEntry* entry) {
        if (key == keys.size()) return false;
        *entry = (*keys[key++])[i];
        return true;
      };
      tree::FamilyFile file{family_.tree.get(), {}};
      BRECCIA_TRY(below_.write_file(family_.tree.get(), (*number)++, next, &file.path));
      files->push_back(std::move(file));
      std::erase_if(keys, [&](const Versions* versions) { return versions->size() == i + 1; });
    }
    return Status::OK();
  }

  /// Range deletions go into a file of their own below the others: what the others hold is newer.
  Status write_tombstones(int* number, std::vector<tree::FamilyFile>* files) {
    if (family_.tombstones == nullptr || !family_.tree_has_data) return Status::OK();
    // All get one sequence number, so which of them covers a key does not matter. RocksDB would cut
    // them where any begins or ends, in quadratic time and memory if they lie in each other.
    const auto ranges = family_.tombstones->covered_ranges(applied_);
    if (ranges.empty()) return Status::OK();
    tree::FamilyFile file{family_.tree.get(), {}};
    BRECCIA_TRY(below_.write_range_deletions(family_.tree.get(), (*number)++, ranges, &file.path));
    files->push_back(std::move(file));
    return Status::OK();
  }

  /// Places that share the entries about evenly and leave the versions of a key together.
  [[nodiscard]] std::vector<std::uint64_t> cut(const std::vector<std::uint64_t>& payloads,
                                               int parts_max) const {
    constexpr std::uint64_t kEntriesPerPartMin = 64 << 10;
    const std::uint64_t n = payloads.size();
    const auto parts =
        std::clamp<std::uint64_t>(n / kEntriesPerPartMin, 1, static_cast<std::uint64_t>(parts_max));
    const auto key_of = [&](std::uint64_t i) {
      const std::byte* const record = view_.table->at(record::position_of(payloads[i]));
      return Slice(record::record_key(record), record::record_header(record).key_bytes());
    };
    std::vector<std::uint64_t> cuts{0};
    for (std::uint64_t part = 1; part < parts; ++part) {
      std::uint64_t at = std::max(n * part / parts, cuts.back());
      while (at > 0 && at < n && key_of(at) == key_of(at - 1)) ++at;
      cuts.push_back(at);
    }
    cuts.push_back(n);
    return cuts;
  }

  const View& view_;
  const FamilyView& family_;
  const std::uint64_t applied_;
  const tree::Tree& below_;
  const TreeFilters& filters_;
};

/// Takes what a flush replaces out of the cache. Range deletions cover keys that nobody lists, so
/// they empty it.
void purge(cache::RowCache* cache, const FlushedHashes& hashes, bool has_range_deletions,
           cache::RowCache::Change* change) {
  if (cache == nullptr) return;
  change->begin();
  if (has_range_deletions) {
    cache->clear();
    return;
  }
  base::parallel_for(std::size_t{0}, hashes.size(),
                     [&](std::size_t part) { cache->erase(hashes[part].in_cache); });
}

/// Tells the filters of the keys that are about to be in the tree.
void add_keys(const FlushedHashes& hashes, TreeFilters* filters) {
  base::parallel_for(std::size_t{0}, hashes.size(), [&](std::size_t part) {
    filters->add(hashes[part].family, hashes[part].in_filter);
  });
}

}  // namespace

Result<Flushed> flush_view(const View& view, std::uint64_t applied, const FlushInto& into,
                           const MergeRuns& merged, cache::RowCache::Change* change,
                           const std::function<void()>& publish) {
  std::vector<tree::FamilyFile> files;
  FlushedHashes hashes;
  bool has_range_deletions = false;
  int number = 0;
  for (const FamilyViewPtr& family : view.families) {
    if (family->dropped) continue;
    const FamilyView alone = family->without_clean();  // they do not speak for the tree here
    BRECCIA_TRY(FamilyFlush(view, alone, applied, *into.below, *into.filters)
                    .write(into.parts, &number, merged, &files, &hashes));
    has_range_deletions = has_range_deletions || family->tombstones != nullptr;
  }
  Flushed flushed{files.size(), 0};
  for (const tree::FamilyFile& file : files) {
    std::uint64_t bytes = 0;
    BRECCIA_TRY(view.below.db->GetEnv()->GetFileSize(file.path, &bytes));
    flushed.bytes += bytes;
  }
  const auto prepare = [&] {
    purge(view.below.cache.get(), hashes, has_range_deletions, change);
    add_keys(hashes, into.filters);
  };
  BRECCIA_TRY(into.below->ingest(files, applied, prepare, publish));
  return flushed;
}

}  // namespace breccia::ordered
