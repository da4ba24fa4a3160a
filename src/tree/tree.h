#pragma once

#include <breccia/options.h>
#include <rocksdb/db.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/precedence.h"
#include "base/result.h"
#include "exec/host/host_memory.h"
#include "tree/layout.h"
#include "tree/log_note.h"
#include "tree/staged_file.h"
#include "wal/format.h"

/// The LSM tree below: an ordinary RocksDB database that is only ever written by ingesting files.
///
/// Its column families are the store's; a hidden one besides holds the watermark: the log position
/// below which everything lies in the tree. Files and watermark go in with one call, so a flush
/// happens exactly once whatever crashes.

namespace breccia::tree {

class InstallGate;

/// A point in time of the tree. Readers hold it; it is released with its last reference.
using TreeSnapshot = std::shared_ptr<const rocksdb::Snapshot>;
/// A column family of the tree. The database stays open while one is held.
using TreeFamily = std::shared_ptr<rocksdb::ColumnFamilyHandle>;

/// A file to ingest, and the family that it is for.
struct FamilyFile {
  rocksdb::ColumnFamilyHandle* family;
  std::string path;
};

/// The tree of one store.
/// Threads any number, where a call does not say otherwise.
class Tree {
 public:
  /// A database that owns no log, new or a copy of a store, gets an identity and a watermark of 0.
  /// `flush_parts`: files of one family that a flush adds at most (level0_triggers.h).
  /// Errors  InvalidArgument: missing or existing against the options; IOError: held by another
  ///         process, or the medium; Corruption: also if it owns no log and one is there
  ///         (check_no_log), or if a restore did not end.
  static Result<std::unique_ptr<Tree>> open(const Options& options, const std::string& path,
                                            int flush_parts);

  /// Log position below which everything lies in the tree.
  [[nodiscard]] std::uint64_t applied() const { return watermark_.applied; }
  /// The log that positions refer to (wal::LogOptions::store_id).
  [[nodiscard]] std::uint64_t store_id() const { return watermark_.store_id; }

  // ---- what of the log says what the tree says ----

  /// By the note that was found at opening, if nobody has changed the tree since it was written.
  [[nodiscard]] const std::vector<LogPart>& log_parts() const { return log_parts_; }
  /// Notes `parts`() for the next opening, unless the tree is being changed past the log. What
  /// fails leaves no note that would be believed.
  void note_log(const std::function<std::vector<LogPart>()>& parts);
  /// While it lives, the tree may be changed past the log, and nothing is noted.
  class ChangePastLog {
   public:
    explicit ChangePastLog(Tree* tree) : tree_(tree) {}
    ChangePastLog(ChangePastLog&& other) noexcept : tree_(std::exchange(other.tree_, nullptr)) {}
    ChangePastLog& operator=(ChangePastLog&&) = delete;
    ~ChangePastLog() {
      if (tree_ != nullptr) tree_->end_change_past_log();
    }
    /// It goes on as long as the store is open.
    void keep() { tree_ = nullptr; }

   private:
    Tree* tree_;
  };
  /// To be called before a change of the tree that the log does not know; views follow before the
  /// end. The note is gone when it returns, for good.
  /// Errors  IOError: the tree must not be changed.
  Result<ChangePastLog> begin_change_past_log();

  /// All families but the hidden one; dropped ones are not among them.
  [[nodiscard]] std::vector<TreeFamily> families() const;
  /// Errors  InvalidArgument: there is one of that name; IOError.
  Result<TreeFamily> create_family(const std::string& name,
                                   const rocksdb::ColumnFamilyOptions& options);
  /// A new family with the data of exported files.
  /// Errors  as create_family; InvalidArgument, IOError, ...: about the files; there is no family.
  Result<TreeFamily> import_family(const std::string& name,
                                   const rocksdb::ColumnFamilyOptions& options,
                                   const rocksdb::ImportColumnFamilyOptions& how,
                                   const rocksdb::ExportImportFilesMetaData& files);
  /// Drops a family and lets `publish` tell readers before a flush can leave the family out.
  /// Errors  InvalidArgument, IOError: it is still there; `publish` was not called.
  Status drop_family(rocksdb::ColumnFamilyHandle* family, const std::function<void()>& publish);
  /// True if the family holds, or may hold, an entry: lookups must go there.
  [[nodiscard]] bool has_data(rocksdb::ColumnFamilyHandle* family) const;

  [[nodiscard]] TreeSnapshot snapshot() const;
  /// Writes one SST file of the entries that `next` yields, in strictly ascending key order.
  /// `next` returns false at the end. An empty file is not kept: *path is then empty.
  /// Shape   `number` differs among the files of one ingest.
  using NextEntry = std::function<bool(FileEntry* entry)>;
  Status write_file(rocksdb::ColumnFamilyHandle* family, int number, const NextEntry& next,
                    std::string* path) const;
  /// Writes one SST file of range deletions.
  /// Shape   pairs of begin and end, at least one.
  Status write_range_deletions(rocksdb::ColumnFamilyHandle* family, int number,
                               const std::vector<std::pair<Slice, Slice>>& ranges,
                               std::string* path) const;

  /// Adds the files and sets the watermark, both or neither, also across a crash, and lets
  /// `publish` tell readers. Of files of one family that overlap, the later hides the earlier.
  /// `prepare` is called just before, when nothing keeps files out any more.
  /// Errors  IOError, NoSpace, ...: the tree is as before; `publish` was not called.
  Status ingest(const std::vector<FamilyFile>& files, std::uint64_t applied,
                const std::function<void()>& prepare, const std::function<void()>& publish);
  /// RocksDB's call, kept apart from the ends of compactions: see InstallGate.
  Status ingest_files(const std::vector<rocksdb::IngestExternalFileArg>& files);
  /// While it lives, readers know of all ingests.
  [[nodiscard]] std::unique_lock<std::mutex> keep_unchanged() {
    return std::unique_lock(change_mutex_);
  }

  /// What keeps ingests away from other changes of the tree.
  [[nodiscard]] InstallGate& gate() const { return *gate_; }

  /// True while the tree asks for fewer files: writers above should wait.
  [[nodiscard]] bool overloaded() const;

  [[nodiscard]] rocksdb::DB* db() const { return db_.get(); }
  /// That of writes to the tree's disk; null: it has none.
  [[nodiscard]] base::Precedence* disk() const { return disk_; }

 private:
  Tree();
  [[nodiscard]] bool is_idle() const;
  [[nodiscard]] std::string staging_path(const std::string& name) const;
  [[nodiscard]] std::string data_path(const std::string& family, int number) const;
  [[nodiscard]] rocksdb::Options file_options(rocksdb::ColumnFamilyHandle* family) const;
  Status open_families(const Options& options, const std::string& path);
  Status begin_store();
  void end_change_past_log();
  void take_note(const LogNote& note, const std::string& manifest);
  [[nodiscard]] bool has_family(rocksdb::ColumnFamilyHandle* family) const;
  /// What gives a handle back.
  struct Ownership;

  [[nodiscard]] static TreeFamily own(rocksdb::ColumnFamilyHandle* handle,
                                      std::shared_ptr<Ownership> ownership);
  /// Takes the family that RocksDB has `made`, or not.
  std::shared_ptr<Ownership> make_room_for_family();
  Result<TreeFamily> add_family(const Status& made, rocksdb::ColumnFamilyHandle* handle,
                                std::shared_ptr<Ownership> ownership);
  Status clear_staging();
  Status write_watermark_file(const Watermark& watermark, std::string* path) const;

  const std::shared_ptr<InstallGate> gate_;
  std::shared_ptr<rocksdb::DB> db_;
  std::mutex change_mutex_;   // one ingest or drop at a time; taken before others
  mutable std::mutex mutex_;  // guards families_ and families_coming_
  std::vector<TreeFamily> families_;
  std::size_t families_coming_ = 0;  // that the list has room for
  TreeFamily hidden_;
  rocksdb::Options options_;
  std::string path_;
  base::Precedence* disk_ = nullptr;
  int flush_parts_ = 1;
  Watermark watermark_;
  std::vector<LogPart> log_parts_;
  std::mutex note_mutex_;               // guards the note's file and changes_past_log_
  std::uint64_t changes_past_log_ = 0;  // under way
  /// In the names of staged files: a name is never used again, since a file that was ingested may
  /// still bear it.
  std::uint64_t ingests_ = 0;
  mutable exec::host::HostPool work_;  // for files that are written
};

}  // namespace breccia::tree
