#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
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

  /// Whom an answer is for.
  struct Asker {
    fabric::PeerId peer;
    fabric::Header header;
  };
  /// None: the answer comes later.
  using Answer =
      std::function<std::optional<WireWriter>(const Asker& asker, Ask ask, WireReader question)>;

  explicit Answers(fabric::Port* port) : port_(port) {}

  /// What came is a question, or its peer is gone.
  void hear(const fabric::Arrival& arrival, const Answer& answer);
  /// The answer that comes later.
  void give(const Asker& asker, const WireWriter& answer);

 private:
  struct Peer {
    std::map<std::uint64_t, std::vector<std::byte>> answers;  // by request; empty: it comes later
    std::uint64_t forgotten = 0;  // requests up to this one are not known any more
  };
  [[nodiscard]] bool send(const Asker& asker, const std::vector<std::byte>& answer);
  void forget(fabric::PeerId peer);

  fabric::Port* const port_;
  std::map<fabric::PeerId, Peer> peers_;
};

/// Hears what comes to a port until then: questions, and peers that go. Answers go to nobody.
void serve(fabric::Port* port, Answers* answers, const Answers::Answer& answer,
           fabric::TimeUs until);

}  // namespace breccia::disagg
