#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "disagg/answers.h"
#include "disagg/asking.h"
#include "disagg/cluster_map.h"
#include "disagg/memory/medium.h"
#include "disagg/memory/pool_image.h"
#include "fabric/port.h"

namespace breccia::disagg {

/// What a memory server does while it is another one's mirror: it keeps which blocks are in use
/// there, as that one tells it before it answers anybody, and copies those that were in use before
/// what is written came here, too.
///
/// Order   it copies when writes of clients that do not know of it are taken no more, and only what
///         was leased before the server knew of it. Such a client may write that meanwhile, on the
///         server alone: its write is refused, so no entry leads to what is copied of it.
/// Owner   port, asking, memory and medium, null: there is none, outlive it.
/// Threads the port's.
class Mirror {
 public:
  struct Options {
    std::string member;  // its own name at first
    fabric::TimeUs again_us = 0;
    fabric::TimeUs meet_us = 0;
    fabric::TimeUs read_us = 0;    // reads of one part have so long
    std::uint64_t part_bytes = 0;  // of a part, and one more block
  };

  Mirror(fabric::Port* port, Asking* asking, std::span<std::byte> memory, Medium* medium,
         const Options& options)
      : port_(port),
        asking_(asking),
        memory_(memory),
        medium_(medium),
        options_(options),
        member_(options.member),
        image_(memory.size() / kLineBytes / PoolImage::kChunkLines),
        to_copy_(image_) {}
  ~Mirror() { leave(); }
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;

  /// It has another name.
  void rename(const std::string& member) { member_ = member; }
  /// Whose mirror it is: `of`, in the map.
  void follow(const ClusterMap::Memory& of, const ClusterMap& map);
  /// Connects, asks, copies a part: whatever is next.
  void tend();
  /// When tend() has something to do.
  [[nodiscard]] fabric::TimeUs wake() const;
  /// An answer of the server's, or its end.
  void hear(const fabric::Arrival& arrival);
  /// Answers kKeep.
  WireWriter keep(const Answers::Asker& asker, WireReader question);
  /// A write of a shard was taken whose value is there, or is copied yet.
  /// Shape   the block is in the memory.
  void commit(std::uint32_t shard, const Location& block, std::uint32_t generation,
              std::uint64_t sequence);
  /// From a line to another one, 0: to the end, these are the values of the shard's keys that its
  /// server has: slot, generation, sequence each. What else was said of such there is forgotten.
  /// False: that makes no sense.
  [[nodiscard]] bool agree(std::uint32_t shard, std::uint64_t line, std::uint64_t next,
                           WireReader values);
  /// A block was replaced by that write of a shard, if it is of an earlier one of it.
  void retire(std::uint32_t shard, const Location& block, std::uint64_t sequence);

  /// It has all that the server has.
  [[nodiscard]] bool is_whole() const { return has_image_once_ && is_copied_; }
  /// Which blocks are in use.
  /// Shape   is_whole(); it is of no use any more.
  [[nodiscard]] PoolImage take_image() { return std::move(image_); }

 private:
  void leave();
  void ask();
  void take_page(WireReader answer);
  void have_image();
  void wipe_what_went();
  [[nodiscard]] bool keep_one(WireReader* question);
  void copy();
  [[nodiscard]] std::vector<Location> next_part();
  void put(const Location& block, std::span<const std::byte> bytes);
  void mark_as(const Location& block, std::uint64_t state);
  void forget_values(std::uint32_t shard, std::uint64_t line, std::uint64_t next,
                     const std::set<std::uint64_t>& but);
  void forget_news(std::uint64_t line);
  void use_chunks(std::span<const Medium::Use> uses);
  void wipe(const Location& block);
  void retire_here(const Location& block, std::uint32_t shard, std::uint64_t sequence);
  void note(const Location& block, std::uint64_t bytes);
  [[nodiscard]] bool is_in_use(const Location& block) const;
  [[nodiscard]] bool is_copied_later(const Location& block) const;
  [[nodiscard]] std::span<std::byte> bytes_of(const Location& block) const {
    return memory_.subspan(block.offset(), block.bytes());
  }

  fabric::Port* const port_;
  Asking* const asking_;
  const std::span<std::byte> memory_;
  Medium* const medium_;
  const Options options_;
  std::string member_;
  std::string address_;
  std::uint32_t epoch_ = 0;
  Placement placement_;
  bool may_copy_ = false;

  std::optional<fabric::PeerId> peer_;
  fabric::TimeUs connect_again_ = 0;
  std::uint64_t request_ = 0;  // for a page; 0: none is under way
  fabric::TimeUs ask_again_ = 0;
  std::optional<PoolImage> coming_;  // up to next_chunk_
  fabric::RegionName region_;        // of the server
  std::uint64_t next_chunk_ = 0;
  bool has_image_ = false;       // of this connection
  bool has_image_once_ = false;  // of one

  PoolImage image_;
  PoolImage to_copy_;
  /// What was said of blocks that are copied later, or once more: theirs says less.
  struct News {
    std::uint32_t generation = 0;
    std::uint64_t sequence = 0;
    std::uint64_t retired = 0;  // by this write
  };
  /// By line, and by the shard that said so, as one may say late what was another one's block.
  std::map<std::pair<std::uint64_t, std::uint32_t>, News> news_;
  std::uint64_t copied_ = 0;  // chunks before this one have nothing to copy
  bool is_copied_ = false;
  fabric::TimeUs copy_again_ = 0;
};

}  // namespace breccia::disagg
