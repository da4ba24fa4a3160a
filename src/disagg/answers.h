#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "disagg/protocol.h"
#include "fabric/port.h"

namespace breccia::disagg {

/// What begins an answer.
[[nodiscard]] inline WireWriter answer_of(Code code) { return WireWriter().add(code); }
[[nodiscard]] inline WireWriter refusal(Code code, const char* sentence) {
  return answer_of(code).add_bytes(sentence);
}

/// Answers questions once each, also where the network brings some of them twice: who asked gets
/// the same answer again.
/// Threads the port's.
class Answers {
 public:
  /// Of a peer so many answers are kept: who has more questions under way gets none to the oldest.
  static constexpr std::size_t kKeptMax = 64;

  explicit Answers(fabric::Port* port) : port_(port) {}

  using Answer = std::function<WireWriter(Ask ask, WireReader question)>;
  /// Answers what comes until then.
  void serve(fabric::TimeUs until, const Answer& answer);

 private:
  struct Peer {
    std::map<std::uint64_t, std::vector<std::byte>> answers;  // by request
    std::uint64_t forgotten = 0;  // requests up to this one are not known any more
  };
  void hear(const fabric::Arrival& arrival, const Answer& answer);

  fabric::Port* const port_;
  std::map<fabric::PeerId, Peer> peers_;
};

}  // namespace breccia::disagg
