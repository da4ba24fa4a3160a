#pragma once

#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/slice_transform.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "ordered/engine.h"
#include "support/fake_gpu.h"
#include "support/folder.h"

namespace breccia::ordered {

/// A family's entries as they should be.
using Content = std::map<std::string, std::string>;
using Contents = std::map<FamilyId, Content>;

/// What everybody should see from one moment on: the engine's pin, a copy of the model, and a
/// snapshot of the reference.
struct Moment {
  Pin pin;
  Contents contents;
  std::shared_ptr<const rocksdb::Snapshot> snapshot;
};

/// An engine, a RocksDB in memory that is given the same writes, and a model of both.
///
/// Options, keys and writes follow from a seed: the host, the simulator or a fake device; batches
/// that become runs and batches that go into the memtable; all operations on two families; merge
/// operators on text, which combine operands among themselves or not, and on numbers.
class TwinStore {
 public:
  explicit TwinStore(std::uint64_t seed,
                     std::shared_ptr<const rocksdb::SliceTransform> prefix_extractor = nullptr);
  ~TwinStore();
  TwinStore(const TwinStore&) = delete;
  TwinStore& operator=(const TwinStore&) = delete;

  /// Opens the store, again if it is open, with options drawn anew. No pin may be held.
  void reopen();
  /// Submits a batch of up to `writes_max` writes, with reads and ranges between them, and compares
  /// what these find.
  void write(std::uint64_t writes_max);
  void flush() { ASSERT_TRUE(engine_->Flush().ok()); }

  [[nodiscard]] Moment now() const;
  /// An iterator of the reference at that moment.
  [[nodiscard]] std::unique_ptr<rocksdb::Iterator> reference_iterator(rocksdb::ReadOptions options,
                                                                      FamilyId family,
                                                                      const Moment& moment) const;
  [[nodiscard]] std::string random_key();
  [[nodiscard]] FamilyId random_family() { return random_.one_in(3) ? family_ : kDefaultFamily; }
  [[nodiscard]] Engine& engine() { return *engine_; }
  [[nodiscard]] base::Random& random() { return random_; }
  [[nodiscard]] std::string described() const { return described_; }

 private:
  /// A read or a range of a batch, and what it should find.
  struct Expected {
    std::vector<std::pair<Status::Code, std::string>> reads;
    std::vector<std::vector<std::pair<std::string, std::string>>> ranges;
  };
  [[nodiscard]] rocksdb::Options tree_options() const;
  void open_reference();
  void add_write(Batch* batch, bool points_only);
  void add_read(Batch* batch, Expected* expected);
  void delete_range(Batch* batch, FamilyId family);
  void merge(Batch* batch, FamilyId family, const std::string& key);
  [[nodiscard]] std::string new_value();
  static void compare(const Batch& batch, const Expected& expected);
  [[nodiscard]] rocksdb::ColumnFamilyHandle* reference_family(FamilyId family) const {
    return family == kDefaultFamily ? reference_->DefaultColumnFamily() : reference_family_;
  }

  base::Random random_;
  const std::uint64_t distinct_;  // keys
  const bool numbers_;            // values have 8 bytes, mostly
  const std::shared_ptr<rocksdb::MergeOperator> merge_operator_;
  const std::shared_ptr<const rocksdb::SliceTransform> prefix_extractor_;
  const testing::Folder folder_{testing::Place::kMemory};
  testing::FakeGpu fake_gpu_;
  std::unique_ptr<Engine> engine_;
  FamilyId family_ = 0;
  Contents contents_;
  std::string described_;
  std::uint64_t written_ = 0;

  std::unique_ptr<rocksdb::Env> env_;
  std::unique_ptr<rocksdb::DB> reference_;
  rocksdb::ColumnFamilyHandle* reference_family_ = nullptr;
};

}  // namespace breccia::ordered
