#pragma once

#include <string>

#include "disagg/coordinator/coordinator.h"

namespace breccia::disagg {

/// Of a cluster in which nothing changes but by who has this.
/// Threads one.
class FixedCoordinator final : public Coordinator {
 public:
  explicit FixedCoordinator(const std::string& document)
      : view_{.version = 1, .document = document, .members = {}} {}

  void change(const std::string& document) {
    ++view_.version;
    view_.document = document;
  }

  [[nodiscard]] std::string describe() const override { return "fixed"; }
  [[nodiscard]] const View* look() override { return &view_; }
  [[nodiscard]] Status join(const std::string& /*name*/, fabric::TimeUs /*until*/) override {
    return Status::NotSupported("a fixed map has no members");
  }
  [[nodiscard]] fabric::TimeUs sure_until_us() const override { return 0; }
  [[nodiscard]] Result<bool> replace(std::uint64_t /*version*/, const std::string& /*document*/,
                                     fabric::TimeUs /*until*/) override {
    return Status::NotSupported("a fixed map is not replaced");
  }

 private:
  View view_;
};

}  // namespace breccia::disagg
