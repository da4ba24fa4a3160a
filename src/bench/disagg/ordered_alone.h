#pragma once

#include <cstdint>
#include <memory>

#include "bench/disagg/tree.h"
#include "disagg/answers.h"
#include "disagg/index/index_server.h"
#include "fabric/port.h"

namespace breccia::bench::disagg {

/// An ordered index without a hash index beside it, for comparison: it takes writes of clients, and
/// has them in its index before it answers. It tells where values lie; clients may read its nodes
/// instead. Nobody else has what it has, so it is lost with its server, and writes wait for nobody.
///
/// It speaks what both servers of a cluster speak, and its map has it in both roles. The table that
/// it tells is a line and then its nodes.
/// Owner   the port outlives it.
/// Threads the port's.
class OrderedAlone final : public breccia::disagg::IndexServer {
 public:
  /// Errors  MemoryLimit.
  static Result<std::unique_ptr<OrderedAlone>> make(fabric::Port* port, std::uint64_t keys);

  [[nodiscard]] Status follow(const breccia::disagg::ClusterMap& map, std::uint32_t shard) override;
  void trust_until(fabric::TimeUs until) override { trust_until_ = until; }
  [[nodiscard]] Status serve(fabric::TimeUs until) override;
  [[nodiscard]] bool has_settled() const override { return true; }
  [[nodiscard]] bool is_whole() const override { return true; }
  /// There is nobody who could have its role.
  void let_go(bool /*lets_go*/) override {}
  [[nodiscard]] bool has_let_go() const override { return false; }

  /// Where a node lies in its region.
  [[nodiscard]] static std::uint64_t offset_of(std::uint32_t node);

 private:
  OrderedAlone(fabric::Port* port, std::unique_ptr<fabric::Region> region);

  breccia::disagg::WireWriter answer(breccia::disagg::Ask ask,
                                     breccia::disagg::WireReader question);
  breccia::disagg::WireWriter write(breccia::disagg::WireReader question);
  breccia::disagg::WireWriter scan(breccia::disagg::WireReader question) const;

  fabric::Port* const port_;
  const std::unique_ptr<fabric::Region> region_;
  Tree tree_;
  breccia::disagg::Answers answers_;
  std::uint32_t epoch_ = 0;
  fabric::TimeUs trust_until_ = 0;
};

}  // namespace breccia::bench::disagg
