#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.h"

namespace breccia::testing {

/// Computers of a network, for a test: network namespaces of the kernel, each with a cable to a
/// switch in one more, where the thread that makes them is as long as they are there, with those
/// that it starts.
///
/// None of them has a name, and none of the computer's own network is touched: the kernel takes
/// them away when nobody is there any more, also where the test is killed.
///
/// Threads one; others that it has started stay where they are.
class NetSpaces {
 public:
  using Space = std::size_t;

  /// Shape   null: it is not to be had here, *why_not says why.
  static std::unique_ptr<NetSpaces> make(std::string* why_not);
  ~NetSpaces();
  NetSpaces(const NetSpaces&) = delete;
  NetSpaces& operator=(const NetSpaces&) = delete;

  /// Where the switch is.
  [[nodiscard]] static std::string own_address() { return address_of_number(1); }
  /// A computer more; none: that failed.
  std::optional<Space> add();
  /// The address of the next one that is added.
  [[nodiscard]] std::string next_address() const { return address_of_number(spaces_.size() + 2); }
  [[nodiscard]] std::string address(Space space) const;

  /// What the thread starts meanwhile is there: processes, and threads.
  class Within {
   public:
    Within(const NetSpaces& spaces, Space space);
    ~Within();
    Within(const Within&) = delete;
    Within& operator=(const Within&) = delete;

   private:
    const int back_;
  };

  /// The cable is pulled out at the switch, or is in again. Neither end is told of what is lost.
  [[nodiscard]] bool set_link(Space space, bool is_up) const;
  /// So many bits pass each way in a second; 0: as many as can.
  [[nodiscard]] bool set_speed(Space space, std::uint64_t bits) const;

 private:
  NetSpaces() = default;
  static std::string address_of_number(std::size_t number);
  [[nodiscard]] static std::string port_of(Space space) { return "p" + std::to_string(space); }
  [[nodiscard]] bool lay_cable(Space space) const;

  base::Descriptor home_, hub_;
  std::vector<base::Descriptor> spaces_;
};

}  // namespace breccia::testing
