#pragma once

#include <cstdint>
#include <deque>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "disagg/answers.h"
#include "disagg/asking.h"
#include "disagg/index/index_server.h"
#include "disagg/index/loose_keys.h"
#include "disagg/index/ordered_index.h"
#include "disagg/location.h"
#include "disagg/memory_peers.h"
#include "disagg/protocol.h"
#include "fabric/port.h"

namespace breccia::disagg {

/// A shard's keys in their order, and where their values lie: what ranges are read from, and what a
/// lost hash index is made of. It has writes in its log before they are acknowledged, and in the
/// index afterwards, when nobody waits, or somebody wants to see them.
///
/// It is built from the hash server that comes to it first: that one's entries say where blocks
/// lie, and these have the keys. It logs meanwhile.
/// Owner   the port outlives it.
/// Threads the port's.
/// Source  [hstore] 3.2, 4.2 and 4.3, the SLS. Deviation: it is built from the entries of the hash
///         index, not from all that memory servers have, and writes are taken meanwhile.
class OrderedServer final : public IndexServer {
 public:
  struct Options {
    /// Writes go into the index when nothing has come for so long, or a scan wants them.
    fabric::TimeUs idle_us = 0;
    fabric::TimeUs again_us = 20'000;    // what was not answered so long is asked again
    fabric::TimeUs meet_us = 10'000;     // it waits for a connection so long
    fabric::TimeUs read_us = 100'000;    // reads of keys have so long
    std::size_t keys_at_once = 8000;     // whose blocks are read between two looks at what has come
    std::size_t page_bytes = 512 << 10;  // of a message with keys, and one more
    bool sorts_aside = true;             // a thread of its own sorts them meanwhile
    bool keeps_step = false;  // writes go into the index before they are said to be logged
  };

  OrderedServer(fabric::Port* port, const Options& options)
      : port_(port),
        options_(options),
        answers_(port),
        asking_(port, options.again_us),
        memory_(port, &asking_, {.again_us = options.again_us, .meet_us = options.meet_us}) {
    asking_.let_hear_others([this](const fabric::Arrival& arrival) { others_.push_back(arrival); });
  }

  [[nodiscard]] Status follow(const ClusterMap& map, std::uint32_t shard) override;
  void trust_until(fabric::TimeUs until) override { trust_until_ = until; }
  [[nodiscard]] Status serve(fabric::TimeUs until) override;
  [[nodiscard]] bool has_settled() const override { return has_begun_; }
  [[nodiscard]] bool is_whole() const override { return is_whole_; }
  void let_go(bool lets_go) override { lets_go_ = lets_go; }
  [[nodiscard]] bool has_let_go() const override {
    return lets_go_ && port_->now_us() >= told_until_;
  }
  /// Writes that are in the log alone.
  [[nodiscard]] std::size_t lag() const { return log_.size(); }
  [[nodiscard]] std::size_t size() const { return index_.size(); }

 private:
  /// What is read of a block for its key, at most: most keys are there.
  static constexpr std::uint64_t kHeadBytesMax = 2 * kLineBytes;

  void hear(const fabric::Arrival& arrival);
  WireWriter answer(const Answers::Asker& asker, Ask ask, WireReader question);
  WireWriter meet(const Answers::Asker& asker, WireReader question);
  WireWriter log(const Answers::Asker& asker, WireReader question);
  WireWriter scan(WireReader question);
  WireWriter keys_behind(WireReader question);
  Slot apply_one();
  void apply(std::size_t most);

  void gather();
  [[nodiscard]] fabric::TimeUs gather_wake() const;
  void ask_for_chains();
  void take_chains(WireReader answer);
  [[nodiscard]] bool read_keys(std::span<const ChainEntry> entries);
  [[nodiscard]] bool read_heads(std::span<const ChainEntry> entries);
  [[nodiscard]] bool read_long_keys(std::span<const ChainEntry> entries);
  [[nodiscard]] std::span<std::byte> head_of(std::size_t i, const ChainEntry& entry);
  void put_together();
  void catch_up();

  fabric::Port* const port_;
  const Options options_;
  Answers answers_;
  Asking asking_;
  MemoryPeers memory_;
  std::deque<fabric::Arrival> others_;  // that came while a question was answered
  std::uint32_t epoch_ = 0;
  std::uint32_t epoch_of_writes_ = 0;  // of the hash server's map, as it has last said
  fabric::TimeUs trust_until_ = 0;
  fabric::TimeUs told_until_ = 0;  // that clients were told
  bool lets_go_ = false;

  std::optional<fabric::PeerId> leader_;  // the hash server whose writes it logs
  std::uint32_t leader_epoch_ = 0;        // one of an older epoch is not listened to
  bool has_begun_ = false;                // it knows where the log goes on
  std::deque<LoggedWrite> log_;           // behind the index
  std::uint64_t through_ = 0;             // of the log
  std::deque<LastWrite> last_writes_;     // in the index
  OrderedIndex index_;

  bool is_built_ = false;             // the index has what was there when this server began
  bool is_whole_ = false;             // and most of the log since
  std::uint64_t next_chain_ = 0;      // the position of the first that was not told yet
  bool are_all_told_ = false;         // there are no more chains
  std::uint64_t chains_request_ = 0;  // 0: none is under way
  fabric::TimeUs chains_again_ = 0;   // they are asked for, if they were not told
  fabric::TimeUs gather_again_ = 0;   // there is something to read, or to be put together
  std::vector<ChainEntry> entries_;   // of chains, up to next_chain_
  // Whose blocks are read next: fewer where the network had no time for so many.
  std::size_t keys_at_once_ = options_.keys_at_once;
  std::size_t read_ = 0;                          // so many of these have their keys in keys_
  std::vector<ChainEntry> following_;             // of the next chains, if they have come
  KeySeeds seeds_;                                // by which their keys are known
  std::vector<std::byte> heads_;                  // of blocks whose keys are read
  std::uint64_t head_bytes_ = kHeadBytesMax;      // of each: the keys of those before were there
  std::map<std::size_t, std::string> long_keys_;  // of these, by entry
  std::vector<LooseKeys> keys_;                   // that were read
  std::future<OrderedIndex> together_;            // of these, when all were
};

}  // namespace breccia::disagg
