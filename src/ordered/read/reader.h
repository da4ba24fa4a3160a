#pragma once

#include <span>
#include <vector>

#include "batch/answers.h"
#include "batch/requests.h"
#include "ordered/read/run_search.h"
#include "ordered/read/slice_room.h"
#include "ordered/state.h"

namespace breccia::ordered {

/// Answers a batch's lookups from a view: memtables and runs on the backend, values from the log by
/// CPU threads, what is in neither from the entry cache or the tree below.
/// Threads any number.
/// Source  [hrocks] section 6.2. Deviation: the backend returns places, not values; the CPU gathers
///         them (random access to host memory is the device's slowest road, docs/performance.md).
class Reader {
 public:
  Reader(Backends* backends, const RunSearch* search, Statistics* statistics)
      : backends_(backends),
        search_(search),
        statistics_(statistics),
        rooms_(backends->first().host_memory()) {}

  /// Makes room for the results of all reads of `requests`.
  /// Errors  MemoryLimit.
  static Status prepare(bool own_writes, batch::Requests* requests);

  /// All reads of a batch that was prepared, and whose families are in the view. Read i sees
  /// entries below base + its family's place + after[i] if `own_writes`, else below pin.visible.
  /// Fewer than `device_min` reads of a family are answered on the calling thread alone.
  /// Errors  none but those of single reads, in their results.
  void read(const Pin& pin, bool own_writes, std::uint64_t base, std::uint64_t device_min,
            batch::Requests* requests) const;

 private:
  /// One family's reads with what they are read from: all of them, or a slice, whose columns begin
  /// with read `first`.
  struct Job {
    const View& view;
    const FamilyView& family;
    runs::QueriesRef queries;
    batch::Reads* reads;
    batch::Requests* requests;
    std::uint64_t first = 0;
    std::uint64_t* found = nullptr;    // of a slice: room for payloads
    std::uint64_t* numbers = nullptr;  // room for values, where all have 8 bytes; or null
    std::uint8_t* ops = nullptr;       // with numbers: found in place of payloads; or null
    std::uint32_t* refs = nullptr;     // room for places in the cache of what no run holds; or null
    bool on_backend = false;           // the runs are searched there
    bool wants_ops = false;
    bool streams = false;     // values go past the caches
    bool is_nowhere = false;  // of what is sought memory has nothing

    /// The same of `count` reads from `begin` on.
    [[nodiscard]] Job of(std::uint64_t begin, std::uint64_t count) const;
    /// Gives a slice room for what is found of it. False: out of memory.
    [[nodiscard]] bool settle_in(SliceRoom* room);
  };
  /// The reads that no memtable, run or cache can answer, by the part that they belong to.
  using Missing = std::vector<std::vector<std::uint32_t>>;

  void read_family(Job job, std::uint64_t device_min) const;
  /// Searches a slice, which is parts [first, last), and gathers what each has found.
  void read_slice(Job job, std::uint64_t first, std::uint64_t last, bool use_crew,
                  Missing* missing) const;
  /// The same when it has room.
  void search_and_gather(Job job, std::uint64_t first, std::uint64_t last, bool use_crew,
                         Missing* missing) const;
  [[nodiscard]] bool search(Job* job) const;
  [[nodiscard]] bool wants_refs(const Job& job) const;
  [[nodiscard]] static bool wants_ops(const Job& job);
  [[nodiscard]] bool takes_rows(const Job& job) const;
  static void look_up(const Job& job, std::uint64_t begin, std::uint64_t end,
                      batch::ResultArena* arena);
  static std::uint64_t covering(const Job& job, std::uint64_t i, std::string* key);
  /// `missing` gets the reads that only the tree can answer.
  void gather(const Job& job, std::uint64_t begin, std::uint64_t end, batch::ResultArena* arena,
              std::vector<std::uint32_t>* missing) const;
  [[nodiscard]] Status leave_to_tree(const Job& job, std::uint64_t begin, std::uint64_t end,
                                     batch::ResultArena* arena,
                                     std::vector<std::uint32_t>* missing) const;
  void note_missing(const Job& job, std::uint64_t in_tree, batch::Answers* answers,
                    batch::ResultArena* arena, std::vector<std::uint32_t>* missing) const;
  static void answer_absent(const Job& job, batch::Answers* answers,
                            std::vector<std::uint32_t>* missing);
  static void ask_cache(const Job& job, batch::ResultArena* arena,
                        std::vector<std::uint32_t>* missing);
  static void read_below(const Job& job, const Missing& missing);

  Backends* backends_;
  const RunSearch* search_;
  Statistics* statistics_;
  mutable SliceRooms rooms_;
};

}  // namespace breccia::ordered
