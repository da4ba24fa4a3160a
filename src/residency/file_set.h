#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/counters.h"
#include "residency/file.h"
#include "tree/known_files.h"

namespace breccia::residency {

/// A live table of a family, and its keys if a backend has them.
/// Shape   first_key and last_key: user keys between which all lie that it says something of.
struct ListedFile {
  std::uint64_t number = 0;
  std::string path;
  std::string first_key;
  std::string last_key;
  ResidentFilePtr resident;  // null: only RocksDB knows what it has
};
/// Tables of a level whose keys ascend, as RocksDB has them below level 0.
using ListedLevel = std::vector<ListedFile>;

/// Takes tables that may overlap, newest first, into levels, newest first: each goes to the last
/// one if it overlaps none that is there.
[[nodiscard]] std::vector<ListedLevel> levels_of_overlapping(std::vector<ListedFile> newest_first);

/// Lookups of any number of sets: those that they answered, and those that are left to RocksDB; and
/// ranges that begin where they say.
/// Threads any.
class Usage {
 public:
  void note(std::uint64_t answered, std::uint64_t left) {
    counters_.add(kAnswered, answered);
    counters_.add(kLeft, left);
  }
  void note_ranges(std::uint64_t ranges) { counters_.add(kRanges, ranges); }
  [[nodiscard]] std::uint64_t answered() const { return counters_.sum(kAnswered); }
  [[nodiscard]] std::uint64_t left() const { return counters_.sum(kLeft); }
  [[nodiscard]] std::uint64_t ranges() const { return counters_.sum(kRanges); }

 private:
  enum Counter : std::size_t { kAnswered, kLeft, kRanges, kEnd };
  base::Counters<kEnd> counters_;
};

/// All live tables of a family at one time: for each key what the tree says of it, or that RocksDB
/// must be asked. Immutable.
/// Owner   what may be read stays mapped while somebody holds it.
/// Threads any.
class FileSet final : public tree::KnownFiles {
 public:
  /// Shape   levels newest first; all resident files are of `backend`.
  /// Errors  Corruption: keys of a level do not ascend; NotSupported: a table begins or ends with a
  ///         key that is longer than any of a store's; MemoryLimit; those of the device.
  static Result<std::shared_ptr<const FileSet>> make(std::shared_ptr<Backend> backend,
                                                     std::vector<ListedLevel> levels,
                                                     std::shared_ptr<Usage> usage);

  /// None, too, where a device has the keys.
  [[nodiscard]] std::optional<Status> get(const Slice& key, rocksdb::PinnableSlice* value,
                                          bool* was_packed) const override;
  [[nodiscard]] bool come_first() const override { return !host_reads(); }
  /// A device that fails knows nothing.
  void get_many(const record::KeyColumnsRef& keys, std::vector<std::vector<std::uint32_t>>* places,
                std::uint64_t workers, const Answer& answer) const override;

  /// As Backend::find.
  [[nodiscard]] Result<SearchPtr> find(const record::KeyColumnsRef& keys,
                                       const std::uint32_t* which, std::uint64_t count,
                                       const FoundRef& found) const {
    return backend_->find(*table_, keys, which, count, found);
  }
  /// True if find_one() may be called.
  [[nodiscard]] bool host_reads() const { return backend_->device().host_reads(); }
  /// As Backend::find_one.
  [[nodiscard]] std::uint64_t find_one(const record::KeyColumnsRef& key,
                                       std::uint32_t* part) const {
    return backend_->find_one(*table_, key, part);
  }

  /// What a block was unpacked to, the last one: neighbours are unpacked once.
  struct Unpacked {
    std::string room;
    Slice contents;
    const char* stored = nullptr;
    bool is_whole = false;  // the contents are all of the block

    /// False of a block that gained too little by compression: its contents lie in the file.
    [[nodiscard]] bool was_packed() const { return stored != nullptr && contents.data() != stored; }
  };
  /// The value at a place in a part, as find() tells them. It lies in the file, or in *unpacked.
  /// Shape   is_value(place)
  /// Errors  Corruption: a block is not any more what it was; MemoryLimit.
  [[nodiscard]] Status value(std::uint64_t place, std::uint32_t part, Unpacked* unpacked,
                             Slice* value) const;

  /// Tables, and those of them whose keys are here, with so many keys in so many bytes of the
  /// backend's memory.
  struct Figures {
    std::uint64_t files = 0;
    std::uint64_t resident_files = 0;
    std::uint64_t keys = 0;
    std::uint64_t bytes = 0;
  };
  [[nodiscard]] Figures figures() const;
  /// Whether all files are resident.
  [[nodiscard]] bool is_whole() const;

  /// Where each level's entries begin that are not below a key.
  class Starts {
   public:
    /// Those of key `i`, level by level.
    [[nodiscard]] std::uint64_t place(std::uint64_t i, std::size_t level) const {
      return place_[level * keys_ + i];
    }
    [[nodiscard]] std::uint32_t part(std::uint64_t i, std::size_t level) const {
      return part_[level * keys_ + i];
    }

   private:
    friend class FileSet;
    Starts(exec::HostMemory& memory, std::uint64_t keys)
        : keys_(keys), place_(memory), part_(memory) {}
    std::uint64_t keys_;
    exec::HostVector<std::uint64_t> place_;
    exec::HostVector<std::uint32_t> part_;
  };
  /// For Scan. Waits for the device.
  /// Errors  as Backend::seek.
  [[nodiscard]] Result<std::unique_ptr<const Starts>> seek(const record::KeyColumnsRef& keys) const;

  /// Where entries of a part lie, and between which keys.
  struct Part {
    const MappedFile* file = nullptr;                  // null: RocksDB is asked
    const std::vector<sst::Handle>* blocks = nullptr;  // of the part
    bool is_packed = false;                            // they may be compressed
    std::uint64_t entry_bytes = 0;                     // of them, for each key
    Slice first_key;
  };
  [[nodiscard]] const Part& part(std::size_t i) const { return parts_[i]; }
  /// What a part's block has; it lies in the file, or in *unpacked.
  /// Errors  as value().
  [[nodiscard]] static Status open_block(const Part& part, std::size_t block, Unpacked* unpacked,
                                         Slice* contents);
  /// Those of files, and one above each of them that has range deletions, of stubs where they are.
  [[nodiscard]] std::size_t levels() const { return level_end_.size(); }
  /// How many parts the levels up to this one have.
  [[nodiscard]] std::size_t parts_end(std::size_t level) const { return level_end_[level]; }

 private:
  /// The first `wanted` bytes of a block that may be compressed.
  [[nodiscard]] static Status unpack(const Part& part, const sst::Handle& block,
                                     std::uint64_t wanted, Unpacked* unpacked);
  FileSet(std::shared_ptr<Backend> backend, std::vector<ListedLevel> levels,
          std::shared_ptr<Usage> usage)
      : backend_(std::move(backend)), levels_(std::move(levels)), usage_(std::move(usage)) {}
  class Finder;
  /// get_many() of so few keys that a device's answer is waited for.
  void get_few(const record::KeyColumnsRef& keys, std::vector<std::vector<std::uint32_t>>* places,
               std::size_t count, std::uint64_t workers, const Answer& answer) const;
  /// Of a part whose blocks are not compressed.
  [[nodiscard]] Slice plain_value(std::uint64_t place, std::uint32_t part) const;
  [[nodiscard]] const sst::Handle* packed_block_of(std::uint64_t place, std::uint32_t part) const {
    const Part& in = parts_[part];
    return in.is_packed ? &(*in.blocks)[packed_block(place)] : nullptr;
  }
  void list_parts(const ListedFile& file);
  void list_stub(const Slice& first_key);

  const std::shared_ptr<Backend> backend_;
  const std::vector<ListedLevel> levels_;
  const std::shared_ptr<Usage> usage_;
  LevelTablePtr table_;
  /// Whether files were not cached when lookups saw that last.
  mutable std::atomic<bool> is_cold_{false};
  std::vector<Level> deleted_;  // levels of stubs
  std::vector<Part> parts_;     // one level behind the other
  /// Of each part where its file's bytes are, if values lie there as they are: what lookups want to
  /// have in their cache.
  struct Plain {
    const char* data = nullptr;
    std::uint64_t bytes = 0;
  };
  std::vector<Plain> plain_;
  std::vector<std::size_t> level_end_;
};
using FileSetPtr = std::shared_ptr<const FileSet>;

}  // namespace breccia::residency
