#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "disagg/answers.h"
#include "disagg/asking.h"
#include "disagg/hash_table.h"
#include "disagg/protocol.h"
#include "disagg/watermark.h"
#include "fabric/port.h"

namespace breccia::disagg {

/// The hash index: clients read its buckets themselves, and ask it for changes. It puts them in
/// order, brings them to the ordered server's log, many at once, marks the blocks of values that
/// they replace, and has them in its buckets, and acknowledges them, when all that is done.
/// Owner   the port outlives it.
/// Threads the port's.
/// Source  [hstore] 3.2 and 4.2, the HTS.
class HashServer {
 public:
  struct Options {
    std::uint32_t bucket_bits = 16;
    std::uint32_t more_buckets = 1 << 14;  // by which chains become longer
    KeySeeds seeds;
    std::string ordered_server;               // its address; empty: there is none
    std::vector<std::string> memory_servers;  // all of them; empty: nothing is marked
    fabric::TimeUs read_us = 100'000;         // what it tells all clients (TableInfo)
    fabric::TimeUs rest_us = 300'000;
    fabric::TimeUs ship_again_us = 20'000;   // what was not answered so long is shipped again
    fabric::TimeUs mark_us = 100'000;        // marks of one turn have so long
    std::uint64_t log_bytes_max = 64 << 20;  // of writes that wait; who has more tries again
    std::uint64_t log_id = 0;                // not another server's; 0: a random one
  };

  /// Errors  MemoryLimit; those of connections to other servers, and of what they tell.
  static Result<std::unique_ptr<HashServer>> make(fabric::Port* port, const Options& options,
                                                  fabric::TimeUs until);
  HashServer(const HashServer&) = delete;
  HashServer& operator=(const HashServer&) = delete;
  ~HashServer();

  /// Does what comes until then.
  /// Errors  IOError: a server that it needs is gone; writes that wait are not acknowledged.
  [[nodiscard]] Status serve(fabric::TimeUs until);
  [[nodiscard]] const HashTable& table() const { return table_; }

 private:
  /// The last write of a key among those that wait.
  struct Last {
    std::uint64_t sequence = 0;
    Slot slot = 0;
  };
  /// A write that the ordered server's log may not have yet, or whose mark may not be there.
  struct Waiting {
    LoggedWrite write;
    Slot before;                  // where the value lies that it replaces; 0: there is none
    bool is_marked_late = false;  // a mark of that may come yet
    Answers::Asker asker;
  };

  HashServer(fabric::Port* port, const Options& options, const TableShape& shape,
             std::unique_ptr<fabric::Region> region);

  Status hear(const fabric::Arrival& arrival);
  std::optional<WireWriter> answer(const Answers::Asker& asker, Ask ask, WireReader question);
  std::optional<WireWriter> write(const Answers::Asker& asker, Ask ask, WireReader question);
  Status meet(fabric::TimeUs until);
  [[nodiscard]] bool is_place(const Location& location) const;
  [[nodiscard]] Slot last_of(const std::string& key) const;
  Status ship();
  Status mark();
  Status note_logged(WireReader answer, bool is_last);
  [[nodiscard]] std::optional<WireWriter> refusal_of(Ask ask, const Slice& key) const;
  void apply_through(std::uint64_t sequence);
  WireWriter apply(const Waiting& one);

  fabric::Port* const port_;
  const Options options_;
  const std::uint64_t log_id_;
  const TableShape shape_;
  const std::unique_ptr<fabric::Region> region_;
  HashTable table_;
  Answers answers_;
  std::optional<fabric::PeerId> ordered_server_;
  std::map<std::uint32_t, MemoryPeer> memory_;  // by node
  std::deque<Waiting> waiting_;                 // by sequence
  std::unordered_map<std::string, Last> last_of_key_;
  std::uint64_t waiting_bytes_ = 0;
  std::uint64_t waiting_puts_ = 0;
  std::uint64_t last_ = 0;     // write that came
  std::uint64_t logged_ = 0;   // through this one the ordered server has them
  std::uint64_t marked_ = 0;   // through this one blocks say that they are replaced
  std::uint64_t shipped_ = 0;  // through this one they are on their way, or there
  std::uint64_t ship_request_ = 0;
  fabric::TimeUs ship_again_ = 0;
};

}  // namespace breccia::disagg
