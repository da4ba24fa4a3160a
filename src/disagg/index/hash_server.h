#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "disagg/answers.h"
#include "disagg/asking.h"
#include "disagg/index/growing_table.h"
#include "disagg/index/index_server.h"
#include "disagg/index/memory_build.h"
#include "disagg/index/ordered_link.h"
#include "disagg/index/telling.h"
#include "disagg/index/written_keys.h"
#include "disagg/memory_peers.h"
#include "disagg/protocol.h"
#include "disagg/watermark.h"
#include "fabric/port.h"

namespace breccia::disagg {

/// The hash index of a shard: clients read its buckets themselves, and ask it for changes. It puts
/// them in order, tells memory servers which blocks they are of, brings them to the ordered
/// server's log, many at once, marks the blocks of values that they replace when they are there,
/// and has them in its buckets, and acknowledges them, when all that is done.
///
/// One that takes the place of another is built from the ordered server, and takes writes
/// meanwhile; where both indexes were lost, from the memory servers, and takes none.
/// Owner   the port outlives it.
/// Threads the port's.
/// Source  [hstore] 3.2, 4.2 and 4.3, the HTS. Deviation: writes are taken while it is built.
class HashServer final : public IndexServer {
 public:
  struct Options {
    GrowingTable::Options table;
    std::optional<KeySeeds> seeds;     // none: random ones
    fabric::TimeUs read_us = 100'000;  // what it tells all clients (TableInfo)
    fabric::TimeUs rest_us = 300'000;
    fabric::TimeUs again_us = 20'000;        // what was not answered so long is asked again
    fabric::TimeUs meet_us = 10'000;         // it waits for a connection so long
    fabric::TimeUs mark_us = 50'000;         // marks of one turn have so long
    std::uint64_t page_bytes = 512 << 10;    // of a message with writes, or entries, and one more
    std::uint64_t log_bytes_max = 64 << 20;  // of writes that wait; who has more tries again
    bool is_alone = false;  // there is no ordered server, and writes wait for none: to measure that
  };

  /// Errors  MemoryLimit.
  static Result<std::unique_ptr<HashServer>> make(fabric::Port* port, const Options& options);
  ~HashServer() override = default;

  /// It is the first one of its cluster: whole as it is, without a key.
  void be_first() { is_whole_ = has_begun_ = true; }
  /// Both indexes were lost.
  void begin_from_memory();
  [[nodiscard]] Status follow(const ClusterMap& map, std::uint32_t shard) override;
  void trust_until(fabric::TimeUs until) override { trust_until_ = until; }
  [[nodiscard]] Status serve(fabric::TimeUs until) override;
  /// Writes that another one logged are in the log that it began with.
  [[nodiscard]] bool has_settled() const override { return has_begun_; }
  [[nodiscard]] bool is_whole() const override { return is_whole_; }
  void let_go(bool lets_go) override { lets_go_ = lets_go; }
  [[nodiscard]] bool has_let_go() const override;
  [[nodiscard]] const GrowingTable& table() const { return *table_; }

 private:
  /// The last write of a key among those that wait.
  struct Last {
    std::uint64_t sequence = 0;
    Slot slot = 0;
  };
  /// A write that the ordered server's log may not have yet, or whose mark may not be there.
  struct Waiting {
    LoggedWrite write;
    /// Where the value lies that it replaces, 0: there is none; none: the ordered server will tell.
    std::optional<Slot> before;
    bool is_marked_late = false;          // a mark of that may come yet
    std::optional<Answers::Asker> asker;  // none: it is one of a question's writes, not the last
  };
  using ToPut = std::pair<KeyId, Slot>;

  HashServer(fabric::Port* port, const Options& options, std::unique_ptr<GrowingTable> table);

  [[nodiscard]] fabric::TimeUs wake() const;
  Status hear(const fabric::Arrival& arrival);
  std::optional<WireWriter> answer(const Answers::Asker& asker, Ask ask, WireReader question);
  WireWriter trust();
  [[nodiscard]] bool is_believed() const;
  WireWriter chains(const Answers::Asker& asker, WireReader question) const;
  WireWriter places(WireReader question) const;

  std::optional<WireWriter> write(const Answers::Asker& asker, WireReader question);
  void take(Slot slot, std::uint32_t generation, const Slice& key);
  [[nodiscard]] Slot last_of(const std::string& key) const;
  [[nodiscard]] std::optional<WireWriter> refusal_of(Slot slot, const Slice& key) const;
  [[nodiscard]] bool has_log() const { return options_.is_alone || ordered_.is_met(); }
  void commit();
  [[nodiscard]] std::uint64_t ship_through() const;
  [[nodiscard]] bool may_ship() const;
  Status ship();
  Status note_logged(WireReader answer);
  /// Through this write both the ordered server and memory servers know them.
  [[nodiscard]] std::uint64_t known() const { return std::min(committed_, logged_); }
  void mark();
  /// Of blocks, by node.
  struct Marks {
    std::map<std::uint32_t, std::vector<std::uint64_t>> written;  // where they go
    Telling::News told;                                           // to servers with media
    bool are_deletions = false;  // or the others; if there are media
  };
  std::uint64_t markable(Marks* marks) const;
  [[nodiscard]] bool has_medium(std::uint32_t node) const;
  [[nodiscard]] bool has_media() const;
  [[nodiscard]] bool settle(Telling* by);
  void note_unsettled();
  [[nodiscard]] Telling::News take_unsettled();
  [[nodiscard]] bool write_marks(const Marks& marks, std::uint64_t through);
  bool mark(std::uint32_t node, std::span<const std::uint64_t> offsets, fabric::TimeUs until);
  void apply_through(std::uint64_t sequence);
  Slot apply(const Waiting& one);

  Status begin(WireReader answer);
  void end_writes_of_before(WireReader last);
  void go_on_with_writes_of_before();
  Status gather();
  Status gather_from_memory();
  void be_whole();
  void ask_for_keys_behind(const Slice& key);
  Status take_keys(WireReader answer);
  Status put_gathered();

  fabric::Port* const port_;
  const Options options_;
  const KeySeeds seeds_;
  const std::unique_ptr<GrowingTable> table_;
  Answers answers_;
  Asking asking_;
  MemoryPeers memory_;
  OrderedLink ordered_;
  Telling telling_;                     // memory servers, one thing at a time
  Telling marking_;                     // those with media, of marks
  std::deque<fabric::Arrival> others_;  // that came while a question was answered
  std::uint32_t epoch_ = 0;
  fabric::TimeUs trust_until_ = 0;
  fabric::TimeUs told_until_ = 0;   // that clients were told
  fabric::TimeUs holds_until_ = 0;  // by then nobody reads memory servers that went
  ClusterMap map_;
  std::uint32_t shard_ = 0;
  bool lets_go_ = false;

  std::deque<Waiting> waiting_;  // by sequence
  std::unordered_map<std::string, Last> last_of_key_;
  std::vector<Slot> replaced_;  // by those writes of a question that are applied
  std::uint64_t waiting_bytes_ = 0;
  std::uint64_t waiting_puts_ = 0;
  std::uint64_t last_ = 0;             // write that came
  std::uint64_t committing_ = 0;       // through this one memory servers are told of them
  std::uint64_t committed_ = 0;        // through this one they know them
  std::uint64_t logged_ = 0;           // through this one the ordered server has them
  std::uint64_t marking_through_ = 0;  // through this one they are told to
  bool are_deletions_told_ = false;    // which media are to have before they are done
  std::set<std::uint32_t> unsettled_;  // nodes whose media may not have marks that were told
  std::uint64_t marked_ = 0;           // through this one blocks say that they are replaced
  std::uint64_t applied_ = 0;          // through this one the buckets have them
  fabric::TimeUs mark_again_ = 0;

  bool is_whole_ = false;
  bool has_begun_ = false;        // it knows where the log goes on
  bool has_gathered_ = false;     // all keys of the ordered server
  std::uint64_t whole_at_ = 0;    // then with this write it is whole
  std::string gathered_;          // up to this key
  std::vector<ToPut> to_put_;     // of these, those that came last
  std::size_t put_ = 0;           // so many of them are in the buckets
  WrittenKeys written_;           // while it was built
  bool has_ended_before_ = true;  // memory servers know of all writes of the hash server before
  std::deque<Marks> marks_of_before_;   // of these, that memory servers are to be told yet
  std::unique_ptr<MemoryBuild> build_;  // from memory servers; null: it is not
};

}  // namespace breccia::disagg
