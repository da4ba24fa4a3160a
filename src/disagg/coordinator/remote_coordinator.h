#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "disagg/asking.h"
#include "disagg/coordinator/coordinator.h"
#include "fabric/port.h"

namespace breccia::disagg {

/// A coordinator that is a CoordinatorServer.
/// Owner   the port outlives it, and is its own: what else comes there is forgotten.
/// Threads the port's.
class RemoteCoordinator final : public Coordinator {
 public:
  struct Options {
    std::string address;
    fabric::TimeUs look_us = 10'000;     // between two questions for news
    fabric::TimeUs connect_us = 10'000;  // look() waits for so long if it has no connection
  };

  RemoteCoordinator(fabric::Port* port, const Options& options)
      : port_(port), options_(options), asking_(port, options.look_us) {
    asking_.let_hear_others([this](const fabric::Arrival& arrival) { hear(arrival); });
  }
  ~RemoteCoordinator() override;

  [[nodiscard]] std::string describe() const override { return "breccia, " + options_.address; }
  [[nodiscard]] const View* look() override;
  [[nodiscard]] Status join(const std::string& name, fabric::TimeUs until) override;
  [[nodiscard]] fabric::TimeUs sure_until_us() const override { return sure_until_; }
  [[nodiscard]] Result<bool> replace(std::uint64_t version, const std::string& document,
                                     fabric::TimeUs until) override;

 private:
  Status connect(fabric::TimeUs until);
  void hear(const fabric::Arrival& arrival);
  void take_view(WireReader answer, fabric::TimeUs asked);

  fabric::Port* const port_;
  const Options options_;
  Asking asking_;
  std::optional<fabric::PeerId> peer_;
  fabric::TimeUs connect_again_ = 0;
  std::string name_;  // as a member; empty: it is none
  bool is_lost_ = false;
  std::map<std::uint64_t, fabric::TimeUs>
      looks_;                  // that were not answered, and when they were asked
  fabric::TimeUs looked_ = 0;  // for the last time
  std::optional<View> view_;
  fabric::TimeUs sure_until_ = 0;
};

}  // namespace breccia::disagg
