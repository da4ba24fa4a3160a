#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "disagg/answers.h"
#include "disagg/asking.h"
#include "disagg/memory/pool.h"
#include "fabric/port.h"

namespace breccia::disagg {

/// A memory server's way to its mirror: it tells which blocks are in use, and each change of that
/// before whoever asked for it is answered. While there is to be a mirror, and it has not been told
/// all, nothing changes.
/// Owner   all that it is given outlives it.
/// Threads the port's.
class MirrorLink {
 public:
  struct Options {
    fabric::TimeUs again_us = 0;
    std::uint64_t page_bytes = 0;  // of a message with chunks, and one more
  };
  /// Blocks that were leased, or given back, and what is answered when the mirror has that.
  struct Change {
    std::optional<Answers::Asker> asker;  // none: nobody has asked
    WireWriter answer;
    bool is_lease = false;
    std::vector<std::pair<std::uint32_t, std::uint64_t>> blocks;  // class and line
  };

  MirrorLink(fabric::Port* port, Asking* asking, Answers* answers, Pool* pool,
             const Options& options)
      : port_(port), asking_(asking), answers_(answers), pool_(pool), options_(options) {}
  MirrorLink(const MirrorLink&) = delete;
  MirrorLink& operator=(const MirrorLink&) = delete;

  /// Who is the mirror; empty: there is none.
  void follow(const std::string& member, std::uint32_t epoch);
  /// There is no mirror, or it knows all that is in use.
  [[nodiscard]] bool takes_changes() const { return member_.empty() || is_told_; }
  /// What has changed.
  /// Shape   takes_changes().
  void tell(Change change);
  /// Answers kUse.
  WireWriter use(const Answers::Asker& asker, const fabric::RegionName& region,
                 WireReader question);

  /// Sends what is to be told, again if need be.
  void tend();
  [[nodiscard]] fabric::TimeUs wake() const;
  /// An answer of the mirror's, or its end.
  void hear(const fabric::Arrival& arrival);

 private:
  void leave();
  void answer_first(std::size_t count);

  fabric::Port* const port_;
  Asking* const asking_;
  Answers* const answers_;
  Pool* const pool_;
  const Options options_;
  std::string member_;
  std::uint32_t epoch_ = 0;

  std::optional<fabric::PeerId> peer_;
  std::uint64_t told_ = 0;  // chunks
  bool is_told_ = false;    // all of them, and since then all changes
  std::deque<Change> changes_;
  std::uint64_t request_ = 0;  // 0: none is under way
  std::size_t asked_ = 0;      // with so many changes
  std::vector<std::byte> question_;
  fabric::TimeUs again_ = 0;
};

}  // namespace breccia::disagg
