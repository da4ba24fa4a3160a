#pragma once

#include <rocksdb/db.h>
#include <rocksdb/listener.h>
#include <rocksdb/metadata.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "compaction/decision.h"
#include "compaction/eligible.h"
#include "compaction/job.h"
#include "compaction/merge_job.h"
#include "sst/table_choice.h"

/// What has to be known of a compaction: the job's text says a part of it, the event that RocksDB
/// tells its listeners of before it another one, and the database the rest.

namespace breccia::compaction {

/// Numbers of files.
using FileNumbers = std::unordered_set<std::uint64_t>;
/// Files of one family in RocksDB's order: by level; those of level 0 newest first, others by key.
using LiveFiles = std::vector<rocksdb::LiveFileMetaData>;

/// The inputs, newest run first. Those of a level beyond 0 are one.
[[nodiscard]] std::vector<InputRun> runs_of(const LiveFiles& files, const FileNumbers& inputs,
                                            const FileNumbers& ingested);

/// What of a family's other files says which entries live. Snapshots are left to the caller.
///
/// Older versions may be in whatever overlaps the inputs on a level below the newest input's, and
/// behind that in level 0 if the outputs go there: RocksDB leaves no older file in level 0 when
/// others go deeper. All this stays true while the job runs, as RocksDB locks the inputs and the
/// range of the outputs.
[[nodiscard]] MergeRules rules_of(const LiveFiles& files, const FileNumbers& inputs,
                                  int output_level, bool is_level_style);

/// Bytes at which an output ends.
[[nodiscard]] std::uint64_t file_bytes_of(const LiveFiles& files, int output_level,
                                          const Fields& family_options);

/// Tables of families other than the default one, of which only a database's file of options says
/// how they are written.
/// Threads any.
class TableChoices {
 public:
  /// Facts::is_known is false if nobody knows.
  /// Cost    reads the file when it is a new one.
  [[nodiscard]] sst::TableChoice find(const std::string& database, const std::string& family);
  void forget(const std::string& database);

 private:
  struct Known {
    std::string file;
    std::map<std::string, sst::TableChoice> families;
  };
  std::mutex mutex_;
  std::map<std::string, Known> databases_;
};

/// The event that RocksDB tells of before it hands out a job.
struct Begun {
  rocksdb::DB* database = nullptr;
  rocksdb::CompactionJobInfo info;
};

/// What users say of their databases, as nobody else does.
struct Declared {
  bool has_file_manager = false;
  bool has_only_committed = false;  // transactions write what is committed, nothing before
};

struct Context {
  Facts facts;
  /// Lacks the folder, the first file's number, and the session and times of the origin.
  MergeJob job;
  JobSize size;
  std::uint64_t inputs_at_output_level = 0;
};

/// Asks the database.
/// Shape   where facts say no, the rest may be missing.
/// Threads that of the compaction, in StartV2, where RocksDB holds no lock.
[[nodiscard]] Context gather(const Begun& begun, const ServiceJob& job, const Declared& declared,
                             TableChoices* choices);

}  // namespace breccia::compaction
