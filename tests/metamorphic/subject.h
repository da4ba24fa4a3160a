#pragma once

#include <breccia/batch.h>
#include <breccia/family.h>
#include <rocksdb/db.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "list.h"

namespace breccia::metamorphic {

/// What a list's operations gave, a line for each result, each line with its operation's number.
class History {
 public:
  void begin(std::size_t op) { op_ = op; }
  void add(const char* what, const Status& status);
  void add_value(Status::Code code, const Slice& value);
  void add_entry(const Slice& key, const Slice& value);
  void add_end(Status::Code code);
  /// Something that a store must not do.
  void add_fault(const std::string& what);
  [[nodiscard]] const std::string& text() const { return text_; }
  /// True from the first TryAgain on, with which the history ends: more was flushed since a
  /// transaction began than is kept, and RocksDB in memory keeps all.
  [[nodiscard]] bool is_cut() const { return is_cut_; }

 private:
  /// False: the history has ended.
  [[nodiscard]] bool goes_on(Status::Code code);
  void add_bytes(const Slice& bytes);

  std::size_t op_ = 0;
  std::string text_;
  bool is_cut_ = false;
};

/// A family as it is now; the handle is the reference's.
struct Family {
  FamilyId id = 0;
  rocksdb::ColumnFamilyHandle* handle = nullptr;
};
using FamilyTable = std::array<std::optional<Family>, kFamilies>;

/// Something that runs operation lists: a Store, a database of the facade, or RocksDB.
///
/// Transactions of a Store and of the facade differ. The facade's are RocksDB's: requests happen
/// within the transaction, and a variant lookup is for update. A Store's collect
/// requests for Close, but a variant lookup or range is answered at once, as of the opening, and
/// validated by Close.
class Subject {
 public:
  explicit Subject(const model::Universe& universe) : universe_(universe) {}
  virtual ~Subject() = default;
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;

  /// Runs a legal list; stops early where the store cannot be opened.
  [[nodiscard]] History run(const List& list);

 protected:
  /// What a snapshot slot refers to; the subject knows more of it.
  struct Taken {
    FamilyTable families;
  };
  struct Lookup {
    Status::Code code;
    std::string value;
  };
  using Entries = std::vector<std::pair<std::string, std::string>>;

  virtual Status write(const Op& op) = 0;
  virtual Status get(const Op& op, std::string* value) = 0;
  /// The parts' results, in order; of a batch, an error means that nothing was done.
  virtual Status run_parts(const Op& op, History* history) = 0;
  virtual void take_snapshot(std::uint32_t slot) = 0;
  virtual void release_snapshot(std::uint32_t slot) = 0;
  [[nodiscard]] virtual std::unique_ptr<rocksdb::Iterator> iterate(
      const rocksdb::ReadOptions& options, std::uint32_t family, std::uint32_t snapshot) = 0;
  virtual void begin(const Op& op) = 0;
  virtual Status run_within(const Op& op, History* history) = 0;
  /// The outcome goes into the history, before the results of what happens only then.
  virtual void commit(const Op& op, History* history) = 0;
  virtual void roll_back(std::uint32_t transaction) = 0;
  virtual Status run_indexed(const Op& op, History* history) = 0;
  virtual Status create_family(std::uint32_t family) = 0;
  virtual Status drop_family(const Op& op) = 0;
  virtual Status flush() = 0;
  virtual Status compact() = 0;
  virtual Status sync() = 0;
  /// Closes the store in the op's way and opens it with another option set. Not asked while there
  /// are iterators, snapshots or transactions.
  virtual Status reopen(const Op& op, History* history) = 0;

  [[nodiscard]] Slice key(std::uint32_t number) const { return universe_.keys[number]; }
  /// Every entry of a family, or those of a range op, from an iterator.
  static void add_entries(rocksdb::Iterator* iterator, bool backwards, History* history);
  static void add_range(rocksdb::Iterator* iterator, const Slice& begin, std::uint32_t limit,
                        History* history);
  /// Adds a request of family `family` to a batch.
  [[nodiscard]] Status add_request(const Op& part, FamilyId family, Batch* batch) const;
  /// What a batch's lookups and ranges found; `parts`: its requests.
  static void add_results(const std::vector<Op>& parts, const Batch& batch, History* history);

  FamilyTable families_;  // there now

 private:
  struct Cursor {
    std::string lower, upper;  // iterators keep pointers to their bounds
    Slice lower_slice, upper_slice;
    std::unique_ptr<rocksdb::Iterator> iterator;
  };

  void end_readers();
  void run_op(const Op& op, History* history);
  void run_transaction_op(const Op& op, History* history);
  void run_store_op(const Op& op, History* history);
  void run_iterator_op(const Op& op, History* history);
  void open_iterator(const Op& op);
  void move(const Op& op, rocksdb::Iterator* iterator, History* history);

  const model::Universe& universe_;
  std::array<std::unique_ptr<Cursor>, kIterators> cursors_;
  std::array<bool, kSnapshots> taken_{};
  std::array<bool, kTransactions> begun_{};
  bool stopped_ = false;
};

/// RocksDB in memory, which holds everything in its memtables. For a Store its transactions follow
/// the rule of breccia/transaction.h.
[[nodiscard]] std::unique_ptr<Subject> make_reference(const model::Universe& universe, Api api);
/// A store in a folder of its own; `set`: the options to begin with.
[[nodiscard]] std::unique_ptr<Subject> make_store(const model::Universe& universe,
                                                  std::uint32_t set, std::uint64_t seed);
/// The same behind the facade.
[[nodiscard]] std::unique_ptr<Subject> make_facade(const model::Universe& universe, Api api,
                                                   std::uint32_t set, std::uint64_t seed);

/// What check_list() met.
struct Met {
  std::uint64_t commits = 0;    // that happened
  std::uint64_t conflicts = 0;  // commits that did not
  std::uint64_t locked = 0;     // requests that another transaction's lock kept out
  std::uint64_t cuts = 0;       // histories that were compared up to TryAgain
};

/// Runs the list on RocksDB and, once for each of its sets, on a store. Returns the first
/// difference, or nothing. `met` may be null.
[[nodiscard]] std::string check_list(const List& list, Met* met);

}  // namespace breccia::metamorphic
