#pragma once

#include <breccia/batch.h>
#include <breccia/options.h>
#include <rocksdb/utilities/stackable_db.h>

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace breccia {

namespace facade {
class Core;
}

/// A rocksdb::DB whose log, memtables and batched reads are breccia's: a program changes
/// `rocksdb::DB::Open` to `breccia::Rocks::Open` and nothing else.
///
/// What is read, and every status code, is what RocksDB 7.8.3 gives; docs/rocksdb.md lists each
/// function and each difference. The files are an ordinary RocksDB database, complete after
/// Flush().
///
/// Owner   delete it, after its iterators and handles. Those that live longer stay usable, and keep
///         the database open.
/// Threads any number may call any member at once, but for Close() and the destructor: nobody may
///         be in another call then.
class Rocks final : public rocksdb::StackableDB {
 public:
  using DB = rocksdb::DB;
  using Handle = rocksdb::ColumnFamilyHandle;
  using Descriptor = rocksdb::ColumnFamilyDescriptor;

  /// As rocksdb::DB::Open. A write waits for room as long as it takes, like RocksDB's stalls.
  /// A folder that RocksDB wrote, its own log included, becomes a store; so does a copy of a store
  /// that Checkpoint or BackupEngine made.
  /// Errors  as RocksDB's; InvalidArgument also: a comparator other than the default one, a
  ///         reserved name; NotSupported: an option that cannot be kept (docs/rocksdb.md).
  static Status Open(const rocksdb::Options& options, const std::string& name, DB** db);
  static Status Open(const rocksdb::DBOptions& options, const std::string& name,
                     const std::vector<Descriptor>& column_families, std::vector<Handle*>* handles,
                     DB** db);
  /// The same with breccia's own options. `options.families` is not looked at; `options.rocksdb` is
  /// for the database and, where no families are given, for the default one. Writes wait as long as
  /// it takes here, too, unless Options::wait_us_max says otherwise.
  static Status Open(const Options& options, const std::string& name, DB** db);
  static Status Open(const Options& options, const std::string& name,
                     const std::vector<Descriptor>& column_families, std::vector<Handle*>* handles,
                     DB** db);

  /// What lies in SST files, opened by RocksDB itself: writes since the last Flush() are not seen.
  /// A secondary sees more when it catches up after one.
  static Status OpenForReadOnly(const rocksdb::Options& options, const std::string& name, DB** db,
                                bool error_if_wal_file_exists = false);
  static Status OpenForReadOnly(const rocksdb::DBOptions& options, const std::string& name,
                                const std::vector<Descriptor>& column_families,
                                std::vector<Handle*>* handles, DB** db,
                                bool error_if_wal_file_exists = false);
  static Status OpenAsSecondary(const rocksdb::Options& options, const std::string& name,
                                const std::string& secondary_path, DB** db);
  static Status OpenAsSecondary(const rocksdb::DBOptions& options, const std::string& name,
                                const std::string& secondary_path,
                                const std::vector<Descriptor>& column_families,
                                std::vector<Handle*>* handles, DB** db);
  /// Errors  NotSupported: it needs user-defined timestamps.
  static Status OpenAndTrimHistory(const rocksdb::DBOptions& options, const std::string& name,
                                   const std::vector<Descriptor>& column_families,
                                   std::vector<Handle*>* handles, DB** db, std::string trim_ts);
  /// Without the family that is breccia's own.
  static Status ListColumnFamilies(const rocksdb::DBOptions& options, const std::string& name,
                                   std::vector<std::string>* column_families);

  /// rocksdb::LoadLatestOptions, without the families that are breccia's own and with the triggers
  /// on level-0 files that the user gave. RocksDB's own function returns those of the tree, in
  /// which a flush counts as several files.
  static Status LoadLatestOptions(const rocksdb::ConfigOptions& config, const std::string& name,
                                  rocksdb::DBOptions* options, std::vector<Descriptor>* families);

  /// As rocksdb::DestroyDB, and removes breccia's log, too, unless it is another store's.
  static Status DestroyDB(const std::string& name, const rocksdb::Options& options,
                          const std::vector<Descriptor>& column_families = {});
  /// The same for a store whose log lies where `options.wal_dir` says.
  static Status DestroyDB(const std::string& name, const Options& options,
                          const std::vector<Descriptor>& column_families = {});

  /// Makes a store that nobody has open an ordinary RocksDB database: flushes it, and removes its
  /// log and the family that is breccia's own. Opening it with Open() makes it a store again.
  /// `options` and `column_families` are as for Open().
  /// Errors  those of Open() and Flush(): it is still a store. A crash leaves it one, or leaves the
  ///         log behind, which calling this again removes.
  static Status Detach(const Options& options, const std::string& name,
                       const std::vector<Descriptor>& column_families);

  ~Rocks() override;

  /// Afterwards every function answers with an error.
  /// Errors  Aborted: there are unreleased snapshots, or iterators that are not deleted; nothing
  ///         was done. Deleting the database is never refused: the iterators go on then, and keep
  ///         the folder until they are deleted. IOError and others: writes without a log could not
  ///         be kept, or what was to be flushed (Options::flush_at_close).
  Status Close() override;
  /// Errors  the fault that made the store read-only: only opening it again recovers.
  Status Resume() override;
  /// This database: nothing may be written below it.
  DB* GetBaseDB() override { return this; }
  /// The tree below. Whoever has it may change it unseen, so from this call on nothing of the tree
  /// is kept in the entry cache (Options::entry_cache_bytes), nor in filters
  /// (Options::tree_filter_bytes), until the database is opened again.
  DB* GetRootDB() override;

  // ---- column families ----

  Status CreateColumnFamily(const rocksdb::ColumnFamilyOptions& options, const std::string& name,
                            Handle** handle) override;
  Status CreateColumnFamilies(const rocksdb::ColumnFamilyOptions& options,
                              const std::vector<std::string>& names,
                              std::vector<Handle*>* handles) override;
  Status CreateColumnFamilies(const std::vector<Descriptor>& column_families,
                              std::vector<Handle*>* handles) override;
  Status CreateColumnFamilyWithImport(const rocksdb::ColumnFamilyOptions& options,
                                      const std::string& name,
                                      const rocksdb::ImportColumnFamilyOptions& import_options,
                                      const rocksdb::ExportImportFilesMetaData& metadata,
                                      Handle** handle) override;
  Status DropColumnFamily(Handle* handle) override;
  Status DropColumnFamilies(const std::vector<Handle*>& handles) override;
  Status DestroyColumnFamilyHandle(Handle* handle) override;
  [[nodiscard]] Handle* DefaultColumnFamily() const override;

  // ---- writing ----

  using StackableDB::Delete;
  using StackableDB::Merge;
  using StackableDB::Put;
  using StackableDB::SingleDelete;
  Status Put(const rocksdb::WriteOptions& options, Handle* handle, const Slice& key,
             const Slice& value) override;
  Status Put(const rocksdb::WriteOptions& options, Handle* handle, const Slice& key,
             const Slice& timestamp, const Slice& value) override;
  Status PutEntity(const rocksdb::WriteOptions& options, Handle* handle, const Slice& key,
                   const rocksdb::WideColumns& columns) override;
  Status Delete(const rocksdb::WriteOptions& options, Handle* handle, const Slice& key) override;
  Status Delete(const rocksdb::WriteOptions& options, Handle* handle, const Slice& key,
                const Slice& timestamp) override;
  Status SingleDelete(const rocksdb::WriteOptions& options, Handle* handle,
                      const Slice& key) override;
  Status SingleDelete(const rocksdb::WriteOptions& options, Handle* handle, const Slice& key,
                      const Slice& timestamp) override;
  Status DeleteRange(const rocksdb::WriteOptions& options, Handle* handle, const Slice& begin,
                     const Slice& end) override;
  Status DeleteRange(const rocksdb::WriteOptions& options, Handle* handle, const Slice& begin,
                     const Slice& end, const Slice& timestamp) override;
  Status Merge(const rocksdb::WriteOptions& options, Handle* handle, const Slice& key,
               const Slice& operand) override;
  Status Write(const rocksdb::WriteOptions& options, rocksdb::WriteBatch* updates) override;

  /// Writes, lookups and ranges in breccia's own form: as Store::Submit, with options and errors as
  /// Write() has them. Families go by ColumnFamilyHandle::GetID().
  /// Errors  of the batch as a whole: none of its writes happened, unless the log failed. Those of
  ///         single reads are in Batch::code.
  /// Owner   `batch` is the caller's; its results live as Batch says, also beyond the database.
  /// Threads several may submit batches at once, each its own.
  Status Submit(const rocksdb::WriteOptions& options, Batch* batch);
  /// An empty batch in memory that suits the database's backend.
  /// Errors  none; of a closed database, one in ordinary memory.
  /// Owner   the caller; it may outlive the database.
  [[nodiscard]] Batch NewBatch();
  /// Memory that the device reads where it lies: Store::RegisterMemory.
  /// Errors  likewise; ShutdownInProgress when the database is closed.
  Status RegisterMemory(void* memory, std::size_t bytes, MemoryRegistration* registration);

  // ---- reading ----

  using StackableDB::Get;
  using StackableDB::KeyMayExist;
  using StackableDB::MultiGet;
  using StackableDB::NewIterator;
  Status Get(const rocksdb::ReadOptions& options, Handle* handle, const Slice& key,
             rocksdb::PinnableSlice* value) override;
  Status Get(const rocksdb::ReadOptions& options, Handle* handle, const Slice& key,
             rocksdb::PinnableSlice* value, std::string* timestamp) override;
  Status GetEntity(const rocksdb::ReadOptions& options, Handle* handle, const Slice& key,
                   rocksdb::PinnableWideColumns* columns) override;
  Status GetMergeOperands(const rocksdb::ReadOptions& options, Handle* handle, const Slice& key,
                          rocksdb::PinnableSlice* operands,
                          rocksdb::GetMergeOperandsOptions* operands_options,
                          int* operand_count) override;
  /// All forms: one batch of lookups at one point in time.
  /// Errors  per key, as RocksDB's; a wrong handle, snapshot or option: every key has an error.
  /// Owner   a pinned value holds the memory of all that its batch found, also beyond the database:
  ///         copy one that is kept for long.
  std::vector<Status> MultiGet(const rocksdb::ReadOptions& options,
                               const std::vector<Handle*>& handles, const std::vector<Slice>& keys,
                               std::vector<std::string>* values) override;
  std::vector<Status> MultiGet(const rocksdb::ReadOptions& options,
                               const std::vector<Handle*>& handles, const std::vector<Slice>& keys,
                               std::vector<std::string>* values,
                               std::vector<std::string>* timestamps) override;
  void MultiGet(const rocksdb::ReadOptions& options, Handle* handle, std::size_t count,
                const Slice* keys, rocksdb::PinnableSlice* values, Status* statuses,
                bool sorted_input = false) override;
  void MultiGet(const rocksdb::ReadOptions& options, Handle* handle, std::size_t count,
                const Slice* keys, rocksdb::PinnableSlice* values, std::string* timestamps,
                Status* statuses, bool sorted_input = false) override;
  void MultiGet(const rocksdb::ReadOptions& options, std::size_t count, Handle** handles,
                const Slice* keys, rocksdb::PinnableSlice* values, Status* statuses,
                bool sorted_input = false) override;
  void MultiGet(const rocksdb::ReadOptions& options, std::size_t count, Handle** handles,
                const Slice* keys, rocksdb::PinnableSlice* values, std::string* timestamps,
                Status* statuses, bool sorted_input = false) override;
  bool KeyMayExist(const rocksdb::ReadOptions& options, Handle* handle, const Slice& key,
                   std::string* value, bool* value_found = nullptr) override;
  bool KeyMayExist(const rocksdb::ReadOptions& options, Handle* handle, const Slice& key,
                   std::string* value, std::string* timestamp,
                   bool* value_found = nullptr) override;
  rocksdb::Iterator* NewIterator(const rocksdb::ReadOptions& options, Handle* handle) override;
  Status NewIterators(const rocksdb::ReadOptions& options, const std::vector<Handle*>& handles,
                      std::vector<rocksdb::Iterator*>* iterators) override;
  const rocksdb::Snapshot* GetSnapshot() override;
  void ReleaseSnapshot(const rocksdb::Snapshot* snapshot) override;

  // ---- figures ----

  using StackableDB::GetApproximateMemTableStats;
  using StackableDB::GetApproximateSizes;
  using StackableDB::GetIntProperty;
  using StackableDB::GetMapProperty;
  using StackableDB::GetProperty;
  /// RocksDB's properties of the handle's family, with figures of memtables and snapshots that are
  /// breccia's, and breccia's own: those of Store::GetProperty.
  /// Errors  false: no such property or handle, or the database is closed.
  bool GetProperty(Handle* handle, const Slice& property, std::string* value) override;
  bool GetMapProperty(Handle* handle, const Slice& property,
                      std::map<std::string, std::string>* value) override;
  bool GetIntProperty(Handle* handle, const Slice& property, std::uint64_t* value) override;
  bool GetAggregatedIntProperty(const Slice& property, std::uint64_t* value) override;
  Status GetApproximateSizes(const rocksdb::SizeApproximationOptions& options, Handle* handle,
                             const rocksdb::Range* ranges, int count,
                             std::uint64_t* sizes) override;
  void GetApproximateMemTableStats(Handle* handle, const rocksdb::Range& range,
                                   std::uint64_t* count, std::uint64_t* size) override;
  /// The position in the log behind what is visible: it grows with every write, by its bytes.
  [[nodiscard]] rocksdb::SequenceNumber GetLatestSequenceNumber() const override;
  Status GetStatsHistory(std::uint64_t start_time, std::uint64_t end_time,
                         std::unique_ptr<rocksdb::StatsHistoryIterator>* iterator) override;

  // ---- options ----

  using StackableDB::GetOptions;
  using StackableDB::SetOptions;
  Status SetOptions(Handle* handle,
                    const std::unordered_map<std::string, std::string>& options) override;
  [[nodiscard]] rocksdb::Options GetOptions(Handle* handle) const override;
  [[nodiscard]] rocksdb::DBOptions GetDBOptions() const override;
  [[nodiscard]] const std::string& GetName() const override;
  [[nodiscard]] rocksdb::Env* GetEnv() const override;
  [[nodiscard]] rocksdb::FileSystem* GetFileSystem() const override;

  // ---- what is the tree's alone ----

  Status SetDBOptions(const std::unordered_map<std::string, std::string>& options) override;
  Status GetDbIdentity(std::string& identity) const override;
  Status GetDbSessionId(std::string& session_id) const override;
  Status GetCreationTimeOfOldestFile(std::uint64_t* creation_time) override;
  Status GetLiveFilesChecksumInfo(rocksdb::FileChecksumList* checksums) override;
  Status VerifyChecksum() override { return VerifyChecksum(rocksdb::ReadOptions()); }
  Status VerifyChecksum(const rocksdb::ReadOptions& options) override;
  Status DisableFileDeletions() override;
  Status EnableFileDeletions(bool force) override;
  Status ResetStats() override;
  void EnableManualCompaction() override;
  void DisableManualCompaction() override;

  // ---- log and files ----

  using DB::GetColumnFamilyMetaData;
  using StackableDB::Flush;
  using StackableDB::GetPropertiesOfAllTables;
  using StackableDB::IngestExternalFile;
  /// Flushes all column families together.
  Status Flush(const rocksdb::FlushOptions& options, Handle* handle) override;
  Status Flush(const rocksdb::FlushOptions& options, const std::vector<Handle*>& handles) override;
  Status FlushWAL(bool sync) override;
  Status SyncWAL() override;
  /// Holds all writes back until UnlockWAL().
  Status LockWAL() override;
  Status UnlockWAL() override;
  Status IngestExternalFile(Handle* handle, const std::vector<std::string>& files,
                            const rocksdb::IngestExternalFileOptions& options) override;
  Status IngestExternalFiles(const std::vector<rocksdb::IngestExternalFileArg>& args) override;
  /// The first flushes if `flush_memtable` says so, the second always: the files then hold
  /// everything that was written before. Breccia's log is not among them.
  Status GetLiveFiles(std::vector<std::string>& files, std::uint64_t* manifest_file_size,
                      bool flush_memtable = true) override;
  Status GetLiveFilesStorageInfo(const rocksdb::LiveFilesStorageInfoOptions& options,
                                 std::vector<rocksdb::LiveFileStorageInfo>* files) override;
  Status DeleteFile(std::string name) override;
  void GetLiveFilesMetaData(std::vector<rocksdb::LiveFileMetaData>* metadata) override;
  void GetColumnFamilyMetaData(Handle* handle, rocksdb::ColumnFamilyMetaData* metadata) override;
  void GetAllColumnFamilyMetaData(std::vector<rocksdb::ColumnFamilyMetaData>* metadata) override;
  Status GetPropertiesOfAllTables(Handle* handle,
                                  rocksdb::TablePropertiesCollection* properties) override;
  Status GetPropertiesOfTablesInRange(Handle* handle, const rocksdb::Range* ranges,
                                      std::size_t count,
                                      rocksdb::TablePropertiesCollection* properties) override;
  Status GetSortedWalFiles(rocksdb::VectorLogPtr& files) override;
  Status GetCurrentWalFile(std::unique_ptr<rocksdb::LogFile>* file) override;
  /// The batches of writes from `sequence_number` on, over breccia's log: each once, in commit
  /// order. A batch of n writes that ends at position p has the sequence numbers p - n + 1 to p.
  /// Where the log does not reach back so far (what is flushed stays for Options::log_keep_bytes,
  /// from WAL_size_limit_MB), the first batch that there is comes first, as its number tells.
  /// Errors  NotFound: nothing of that number was written yet; Corruption, IOError: the log cannot
  ///         be read. The iterator's status has those met later, NotFound: the log was released.
  /// Owner   the iterator is the caller's; it keeps the database open, and log of up to
  ///         ChangesOptions::hold_bytes_max behind itself.
  /// Threads the iterator: one at a time, beside any use of the database.
  Status GetUpdatesSince(rocksdb::SequenceNumber sequence_number,
                         std::unique_ptr<rocksdb::TransactionLogIterator>* iterator,
                         const rocksdb::TransactionLogIterator::ReadOptions& options) override;

  // ---- compaction ----

  using StackableDB::CompactFiles;
  using StackableDB::CompactRange;
  using StackableDB::Level0StopWriteTrigger;
  using StackableDB::MaxMemCompactionLevel;
  using StackableDB::NumberLevels;
  Status CompactRange(const rocksdb::CompactRangeOptions& options, Handle* handle,
                      const Slice* begin, const Slice* end) override;
  Status CompactFiles(const rocksdb::CompactionOptions& options, Handle* handle,
                      const std::vector<std::string>& input_file_names, int output_level,
                      int output_path_id = -1,
                      std::vector<std::string>* output_file_names = nullptr,
                      rocksdb::CompactionJobInfo* info = nullptr) override;
  Status SuggestCompactRange(Handle* handle, const Slice* begin, const Slice* end) override;
  Status PromoteL0(Handle* handle, int target_level) override;
  /// Holds flushes back, too.
  Status PauseBackgroundWork() override;
  Status ContinueBackgroundWork() override;
  Status EnableAutoCompaction(const std::vector<Handle*>& handles) override;
  int NumberLevels(Handle* handle) override;
  int MaxMemCompactionLevel(Handle* handle) override;
  int Level0StopWriteTrigger(Handle* handle) override;

  // ---- timestamps and traces ----

  Status IncreaseFullHistoryTsLow(Handle* handle, std::string timestamp) override;
  Status GetFullHistoryTsLow(Handle* handle, std::string* timestamp) override;
  Status StartTrace(const rocksdb::TraceOptions& options,
                    std::unique_ptr<rocksdb::TraceWriter>&& writer) override;
  Status EndTrace() override;
  Status NewDefaultReplayer(const std::vector<Handle*>& handles,
                            std::unique_ptr<rocksdb::TraceReader>&& reader,
                            std::unique_ptr<rocksdb::Replayer>* replayer) override;

  /// For breccia's own layers.
  [[nodiscard]] facade::Core& core() const { return *core_; }

 private:
  explicit Rocks(std::unique_ptr<facade::Core> core);

  std::unique_ptr<facade::Core> core_;
};

}  // namespace breccia
