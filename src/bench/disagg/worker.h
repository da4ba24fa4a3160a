#pragma once

#include <cstdint>
#include <memory>

#include "base/random.h"
#include "bench/disagg/versions.h"
#include "bench/disagg/ways.h"
#include "disagg/coordinator/fixed.h"
#include "disagg/protocol.h"
#include "fabric/port.h"

namespace breccia::bench::disagg {

/// One client's thread: a port with two clients, one of which remembers where values are.
struct Worker {
  std::unique_ptr<fabric::Port> port;
  std::unique_ptr<breccia::disagg::FixedCoordinator> coordinator;
  std::unique_ptr<Way> plain, remembering;
  fabric::PeerId index_server = 0;
  breccia::disagg::TableInfo table;  // of it
  std::uint32_t number = 0;
  base::Random random{0};
  std::unique_ptr<Versions> versions;
  std::uint64_t reads = 0;  // beside the clients'
  Way::Pairs found;         // of its last range

  [[nodiscard]] fabric::TimeUs late() const { return port->now_us() + kUntilUs; }

  static constexpr fabric::TimeUs kUntilUs = 10'000'000;
};

/// Which part an operation is of that is not done any more, and one that does not count.
constexpr std::size_t kNoMore = ~std::size_t{0};
constexpr std::size_t kLeftOut = kNoMore - 1;

/// A value that is not what it must be.
inline Status wrong_answer(const char* what, const Slice& key) {
  return Status::Corruption(std::string("a wrong answer to ") + what, key);
}

}  // namespace breccia::bench::disagg
