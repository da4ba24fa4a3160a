#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "fabric/libfabric/handle.h"

namespace breccia::fabric::libfabric {

/// Which networks may be used.
enum class Policy : std::uint8_t {
  kAuto,   // verbs, then efa; tcp only where software is allowed
  kVerbs,  // InfiniBand and RoCE
  kEfa,    // Amazon's
  kTcp,    // any: software moves the bytes
};

struct Options {
  Policy policy = Policy::kAuto;
  bool allow_software = false;  // of kAuto; kTcp says so itself
  std::string node;             // address or name of this computer there; empty: the first it has
  std::string service;          // port; empty: any that is free
};

/// What an endpoint is found by, as the provider has it.
using RawAddress = std::vector<std::byte>;

/// An order of them.
struct EarlierAddress {
  bool operator()(const RawAddress& one, const RawAddress& other) const {
    return text_of(one) < text_of(other);
  }
  static std::string_view text_of(const RawAddress& address) {
    return {reinterpret_cast<const char*>(address.data()), address.size()};
  }
};

/// The provider that was chosen, opened.
class Provider {
 public:
  /// Errors  NotSupported: libfabric is not there, or no provider that the policy allows; the text
  ///         says what was found, and what to do. IOError: there is one, and it does not open.
  static Result<std::unique_ptr<Provider>> open(const Options& options);

  /// Of endpoints that others come in by: they have the port that was asked for.
  [[nodiscard]] fi_info* door_info() const { return door_info_.get(); }
  /// Of others.
  [[nodiscard]] fi_info* info() const { return info_.get(); }
  [[nodiscard]] fid_fabric* fabric() const { return fabric_.get(); }
  [[nodiscard]] fid_domain* domain() const { return domain_.get(); }
  /// Software moves the bytes, on both sides: what is asked for in one message is cheaper than many
  /// accesses.
  [[nodiscard]] bool is_software() const { return is_software_; }
  /// "tcp;ofi_rxm (software)": for people.
  [[nodiscard]] std::string name() const;
  /// Others' regions begin at their addresses, not at 0.
  [[nodiscard]] bool has_addresses() const { return has_mode(FI_MR_VIRT_ADDR); }
  /// Keys of memory are the provider's choice.
  [[nodiscard]] bool chooses_keys() const { return has_mode(FI_MR_PROV_KEY); }

  /// "fi:tcp:127.0.0.1:4711"; where addresses are no sockets', their bytes.
  [[nodiscard]] std::string text_of(const RawAddress& address) const;
  /// Errors  InvalidArgument: it is none, or of another network.
  [[nodiscard]] Result<RawAddress> address_of(const std::string& text) const;
  /// Of "tcp;ofi_rxm" or "tcp", and so on; empty is kAuto. None: there is no such provider.
  [[nodiscard]] static std::optional<Policy> policy_of(std::string_view name);

 private:
  struct FreeInfo {
    void operator()(fi_info* info) const;
  };
  using Info = std::unique_ptr<fi_info, FreeInfo>;
  struct Candidate;
  static const Candidate kCandidates[];

  Provider(Info door_info, Info info, const Candidate& chosen);
  static Info look_for(const Candidate& candidate, const Options& options, const char* domain,
                       std::string* why_not);
  Status open_domain();
  [[nodiscard]] bool has_mode(int mode) const { return (info_->domain_attr->mr_mode & mode) != 0; }

  const Info door_info_, info_;
  const std::string scheme_;  // of addresses
  const bool is_software_;
  Handle<fid_fabric> fabric_;
  Handle<fid_domain> domain_;
};

}  // namespace breccia::fabric::libfabric
