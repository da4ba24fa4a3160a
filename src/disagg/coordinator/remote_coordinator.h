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
  [[nodiscard]] Status reached() const override { return reached_; }
  [[nodiscard]] Status join(const std::string& name, fabric::TimeUs until) override;
  [[nodiscard]] fabric::TimeUs sure_until_us() const override { return sure_until_; }
  [[nodiscard]] Result<bool> replace(std::uint64_t version, const std::string& document,
                                     fabric::TimeUs until) override;

 private:
  Status connect(fabric::TimeUs until);
  void hear(const fabric::Arrival& arrival);
  /// A question for news, when it was put, and what was known then.
  struct Look {
    fabric::TimeUs asked = 0;
    std::uint64_t version = 0;
    std::uint64_t members_version = 0;
  };
  void take_view(WireReader answer, const Look& look);

  fabric::Port* const port_;
  const Options options_;
  Asking asking_;
  std::optional<fabric::PeerId> peer_;
  Status reached_;
  fabric::TimeUs connect_again_ = 0;
  std::string name_;  // as a member; empty: it is none
  bool is_lost_ = false;
  std::map<std::uint64_t, Look> looks_;  // that were not answered
  fabric::TimeUs looked_ = 0;            // for the last time; 0: it is to be now
  std::optional<View> view_;
  std::uint64_t members_version_ = 0;  // of the view's
  fabric::TimeUs sure_until_ = 0;
};

}  // namespace breccia::disagg
