#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "disagg/memory/pool_image.h"
#include "pmem/region.h"
#include "record/keyed_hash.h"

namespace breccia::disagg {

/// Who does what may take as long as a disk does, one thing at a time.
/// Threads one owner.
class MediumWorker {
 public:
  MediumWorker() = default;
  virtual ~MediumWorker() = default;
  MediumWorker(const MediumWorker&) = delete;
  MediumWorker& operator=(const MediumWorker&) = delete;

  /// Shape   nothing is under way.
  virtual void begin(std::function<Status()> work) = 0;
  /// What came of it, once; none: it is under way still, which is not so if this waits.
  [[nodiscard]] virtual std::optional<Status> outcome(bool waits) = 0;
};

/// One who has done it when it is asked: where nothing takes long.
[[nodiscard]] std::unique_ptr<MediumWorker> make_prompt_worker();

/// Where a medium's bytes lie.
class MediumPlace {
 public:
  MediumPlace() = default;
  virtual ~MediumPlace() = default;
  MediumPlace(const MediumPlace&) = delete;
  MediumPlace& operator=(const MediumPlace&) = delete;

  /// A region as long as `memory`, whose bytes may be that memory.
  /// Shape   `memory` is zero.
  /// Errors  those of pmem's regions.
  [[nodiscard]] virtual Result<std::unique_ptr<pmem::Region>> open(std::span<std::byte> memory) = 0;
  /// The next open() finds zeros.
  [[nodiscard]] virtual Status remove() = 0;
  /// Who persists there: whoever owns the medium waits for persistent memory, and for no disk.
  [[nodiscard]] virtual std::unique_ptr<MediumWorker> make_worker() = 0;
};

/// A file: persistent memory where its file system has that, or an ordinary one.
[[nodiscard]] std::unique_ptr<MediumPlace> medium_in_file(const std::string& path);

/// What a memory server has of values, kept where it outlives the server and a power cut: blocks
/// as they are when it is told of them, the class of each chunk, and whose it is.
///
/// Of a line that nobody has told of the medium has zero, or what it was at any moment since: so a
/// block there is believed if it is whole, has a write's number, and no mark (pool_on()). What it
/// is told goes to the medium all together, while more is told: tend() begins that, and kept() says
/// how far it has come.
/// Owner   place and memory outlive it.
/// Threads one owner; others may write into the memory.
class Medium {
 public:
  /// What lies behind the values.
  static std::uint64_t bytes_behind(std::uint64_t values);

  /// What it has lies in `memory` then.
  /// Shape   `memory` is zero: so many bytes of values, whole chunks, and bytes_behind() them.
  /// Errors  InvalidArgument: it is no medium, or one of another size; those of
  ///         MediumPlace::open().
  static Result<std::unique_ptr<Medium>> open(MediumPlace* place, std::span<std::byte> memory,
                                              std::uint64_t values);
  ~Medium() = default;
  Medium(const Medium&) = delete;
  Medium& operator=(const Medium&) = delete;

  /// What it is known by; nobody else's.
  [[nodiscard]] std::string id() const;
  /// There was one before: what it has may be all that there is.
  [[nodiscard]] bool was_there() const { return was_there_; }
  /// Of which cluster it is; a factor of 0: of none yet.
  [[nodiscard]] record::HashSeed cluster() const;
  /// Durable on return.
  [[nodiscard]] Status be_of(const record::HashSeed& cluster);

  /// Which blocks values lie in; the others are wiped. And the last write that is known.
  /// Cost    reads all chunks that were in use.
  [[nodiscard]] PoolImage values(std::uint64_t* last);
  /// A chunk in which blocks of a class are to lie.
  struct Use {
    std::uint64_t chunk;
    std::uint32_t size_class;
  };
  /// In those of them that have another class by now no block is in use: headers of before are
  /// wiped, as bytes of a value are no block. Durable on return.
  /// Cost    two syncs at most, none if all are what they are to be.
  [[nodiscard]] Status use_chunks(std::span<const Use> uses);

  /// Bytes have changed that are to be kept.
  void note(std::uint64_t offset, std::uint64_t bytes) {
    noted_.push_back({offset, bytes});
    waiting_bytes_ += bytes;
  }
  /// That write is known here.
  void note_write(std::uint64_t sequence);
  /// How much was noted so far, and how much of that is kept.
  [[nodiscard]] std::uint64_t noted() const { return handed_ + noted_.size(); }
  [[nodiscard]] std::uint64_t kept() const { return kept_; }
  /// So much that whoever makes more by himself is to wait.
  [[nodiscard]] bool is_behind() const { return waiting_bytes_ > kAtOnceBytes; }
  /// Looks whether what is under way is kept; if nothing is, and `begins`, begins to keep what was
  /// noted.
  /// Errors  IOError, NoSpace: nothing is kept any more.
  [[nodiscard]] Status tend(bool begins = true);
  [[nodiscard]] bool is_under_way() const { return under_way_ != 0; }
  /// Waits until all that was noted is kept.
  /// Errors  tend()'s.
  [[nodiscard]] Status keep_all();

 private:
  struct Head;

  Medium(std::unique_ptr<pmem::Region> region, std::unique_ptr<MediumWorker> worker,
         std::span<std::byte> memory, std::uint64_t values);
  [[nodiscard]] Head* head() const;
  [[nodiscard]] std::byte* class_of(std::uint64_t chunk) const;
  [[nodiscard]] bool is_new_use(const Use& use) const;
  void wipe_headers(const Use& use);
  template <class T>
  [[nodiscard]] Status keep(T* at, const T& value);
  Status load();
  Status begin();
  void take_values(std::uint64_t chunk, PoolImage* image, std::uint64_t* last) const;
  [[nodiscard]] Status persist(std::span<const pmem::Range> ranges) const;
  void take_work();

  /// Of one persist, and a range more: what comes behind it waits for it.
  static constexpr std::uint64_t kAtOnceBytes = 8 << 20;
  [[nodiscard]] bool take_outcome(bool waits);

  const std::unique_ptr<pmem::Region> region_;
  const std::span<std::byte> memory_;  // values, head and classes
  const std::uint64_t values_;         // bytes
  bool was_there_ = false;
  std::vector<pmem::Range> noted_;
  std::uint64_t waiting_bytes_ = 0;  // of these, and of those under way
  std::uint64_t handed_ = 0;         // before these
  std::uint64_t kept_ = 0;
  std::uint64_t under_way_ = 0;  // what the worker does goes through this one; 0: it rests
  std::vector<pmem::Range> work_;
  Status failed_;
  // Ends first, as it uses the others.
  const std::unique_ptr<MediumWorker> worker_;
};

}  // namespace breccia::disagg
