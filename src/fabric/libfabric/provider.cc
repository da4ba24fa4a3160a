#include "fabric/libfabric/provider.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <charconv>
#include <cstring>
#include <new>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>

#include "base/assert.h"
#include "fabric/libfabric/library.h"

namespace breccia::fabric::libfabric {

struct Provider::Candidate {
  Policy policy;
  const char* word;
  const char* name;
  bool is_software;
};

/// Those that are better come first.
const Provider::Candidate Provider::kCandidates[] = {
    {Policy::kVerbs, "verbs", "verbs;ofi_rxm", false},
    {Policy::kEfa, "efa", "efa", false},
    {Policy::kTcp, "tcp", "tcp;ofi_rxm", true},
};

namespace {

constexpr std::uint32_t kApiVersion = FI_VERSION(1, 17);

/// What is asked of a provider: it says which of it is so.
void say_wishes(fi_info* wishes, const char* name) {
  wishes->caps = FI_MSG | FI_RMA;
  wishes->mode = FI_CONTEXT | FI_CONTEXT2;
  wishes->ep_attr->type = FI_EP_RDM;
  wishes->tx_attr->msg_order = FI_ORDER_SAS;
  wishes->rx_attr->msg_order = FI_ORDER_SAS;
  fi_domain_attr* const domain = wishes->domain_attr;
  domain->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  domain->mr_key_size = sizeof(std::uint64_t);
  // Of one endpoint's calls one is at a time; others are opened and closed beside them.
  domain->threading = FI_THREAD_SAFE;
  domain->control_progress = FI_PROGRESS_MANUAL;
  domain->data_progress = FI_PROGRESS_MANUAL;
  domain->resource_mgmt = FI_RM_ENABLED;
  wishes->fabric_attr->prov_name = ::strdup(name);
}

std::string hex_of(const RawAddress& address) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : address) {
    text += kDigits[std::to_integer<unsigned>(byte) >> 4];
    text += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

std::optional<RawAddress> from_hex(std::string_view text) {
  RawAddress address(text.size() / 2);
  for (std::size_t i = 0; i < address.size(); ++i) {
    unsigned byte = 0;
    const char* const end = text.data() + 2 * i + 2;
    if (std::from_chars(end - 2, end, byte, 16).ptr != end) return std::nullopt;
    address[i] = static_cast<std::byte>(byte);
  }
  return text.size() % 2 == 0 ? std::optional(address) : std::nullopt;
}

template <class Socket>
RawAddress bytes_of(const Socket& socket) {
  const auto bytes = std::as_bytes(std::span(&socket, 1));
  return {bytes.begin(), bytes.end()};
}

template <class Socket>
Socket socket_of(const RawAddress& address) {
  Socket socket{};
  BRECCIA_ASSERT(address.size() == sizeof socket);
  std::memcpy(&socket, address.data(), sizeof socket);
  return socket;
}

/// "HOST:PORT", "[HOST]:PORT".
std::optional<RawAddress> from_socket_text(std::string_view text, std::uint32_t format) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::uint16_t port = 0;
  const char* const end = text.data() + text.size();
  const auto [read_to, failed] = std::from_chars(text.data() + colon + 1, end, port);
  if (failed != std::errc() || read_to != end) return std::nullopt;
  std::string host(text.substr(0, colon));
  if (format == FI_SOCKADDR_IN) {
    sockaddr_in socket{};
    socket.sin_family = AF_INET;
    socket.sin_port = htons(port);
    const bool is_one = ::inet_pton(AF_INET, host.c_str(), &socket.sin_addr) == 1;
    return is_one ? std::optional(bytes_of(socket)) : std::nullopt;
  }
  if (host.size() < 2 || host.front() != '[' || host.back() != ']') return std::nullopt;
  host = host.substr(1, host.size() - 2);
  sockaddr_in6 socket{};
  socket.sin6_family = AF_INET6;
  socket.sin6_port = htons(port);
  const bool is_one = ::inet_pton(AF_INET6, host.c_str(), &socket.sin6_addr) == 1;
  return is_one ? std::optional(bytes_of(socket)) : std::nullopt;
}

}  // namespace

Provider::Provider(Info door_info, Info info, const Candidate& chosen)
    : door_info_(std::move(door_info)),
      info_(std::move(info)),
      scheme_(std::string("fi:") + chosen.word + ":"),
      is_software_(chosen.is_software) {}

void Provider::FreeInfo::operator()(fi_info* info) const {
  Library::load().value()->freeinfo(info);
}

/// Null, and why. In a domain, or in any.
Provider::Info Provider::look_for(const Candidate& candidate, const Options& options,
                                  const char* domain, std::string* why_not) {
  const Library* const library = Library::load().value();
  const Info wishes(library->dupinfo(nullptr));
  if (wishes == nullptr) throw std::bad_alloc();
  say_wishes(wishes.get(), candidate.name);
  if (domain != nullptr) wishes->domain_attr->name = ::strdup(domain);
  const char* const node = options.node.empty() ? nullptr : options.node.c_str();
  const char* const service = options.service.empty() ? nullptr : options.service.c_str();
  const std::uint64_t flags = node != nullptr || service != nullptr ? FI_SOURCE : 0;
  fi_info* found = nullptr;
  const int failed = library->getinfo(kApiVersion, node, service, flags, wishes.get(), &found);
  Info info(found);
  if (failed == 0) return info;
  *why_not += std::string(why_not->empty() ? "" : ", ") + candidate.word + ": " + words_of(failed);
  return nullptr;
}

Result<std::unique_ptr<Provider>> Provider::open(const Options& options) {
  BRECCIA_TRY(Library::load().status());
  std::string why_not;
  for (const Candidate& candidate : kCandidates) {
    const bool is_auto = options.policy == Policy::kAuto;
    if (!is_auto && options.policy != candidate.policy) continue;
    if (is_auto && candidate.is_software && !options.allow_software) {
      std::string not_used;
      const bool is_there = look_for(candidate, options, nullptr, &not_used) != nullptr;
      why_not += is_there ? ", tcp: there, in software" : ", " + not_used;
      continue;
    }
    Info door_info = look_for(candidate, options, nullptr, &why_not);
    if (door_info == nullptr) continue;
    Options any_port = options;
    any_port.service.clear();
    Info info = look_for(candidate, any_port, door_info->domain_attr->name, &why_not);
    if (info == nullptr) continue;
    std::unique_ptr<Provider> provider(
        new Provider(std::move(door_info), std::move(info), candidate));
    BRECCIA_TRY(provider->open_domain());
    return provider;
  }
  return Status::NotSupported("no network of the kind that was asked for (" + why_not + ")",
                              "name the node's address there, ask for tcp or allow software");
}

Status Provider::open_domain() {
  const auto failed = [this](int code) {
    return Status::IOError(name() + " does not open", words_of(code));
  };
  fid_fabric* fabric = nullptr;
  BRECCIA_TAKE(const Library* const library, Library::load());
  if (const int code = library->fabric(info_->fabric_attr, &fabric, nullptr)) return failed(code);
  fabric_ = Handle(fabric);
  fid_domain* domain = nullptr;
  if (const int code = fi_domain(fabric, info_.get(), &domain, nullptr)) return failed(code);
  domain_ = Handle(domain);
  return Status::OK();
}

std::optional<Policy> Provider::policy_of(std::string_view name) {
  if (name.empty()) return Policy::kAuto;
  for (const Candidate& candidate : kCandidates) {
    if (name == candidate.word || name == candidate.name) return candidate.policy;
  }
  return std::nullopt;
}

std::string Provider::name() const {
  return std::string(info_->fabric_attr->prov_name) + (is_software_ ? " (software)" : "");
}

std::string Provider::text_of(const RawAddress& address) const {
  char host[INET6_ADDRSTRLEN] = {};
  if (info_->addr_format == FI_SOCKADDR_IN) {
    const auto socket = socket_of<sockaddr_in>(address);
    BRECCIA_ASSERT(::inet_ntop(AF_INET, &socket.sin_addr, host, sizeof host) != nullptr);
    return scheme_ + host + ":" + std::to_string(ntohs(socket.sin_port));
  }
  if (info_->addr_format == FI_SOCKADDR_IN6) {
    const auto socket = socket_of<sockaddr_in6>(address);
    BRECCIA_ASSERT(::inet_ntop(AF_INET6, &socket.sin6_addr, host, sizeof host) != nullptr);
    return scheme_ + "[" + host + "]:" + std::to_string(ntohs(socket.sin6_port));
  }
  return scheme_ + hex_of(address);
}

Result<RawAddress> Provider::address_of(const std::string& text) const {
  if (!text.starts_with(scheme_)) {
    return Status::InvalidArgument("no address of this network: " + text,
                                   "it begins with " + scheme_);
  }
  const std::string_view rest = std::string_view(text).substr(scheme_.size());
  const std::uint32_t format = info_->addr_format;
  const bool is_socket = format == FI_SOCKADDR_IN || format == FI_SOCKADDR_IN6;
  auto address = is_socket ? from_socket_text(rest, format) : from_hex(rest);
  if (!address.has_value() || address->size() != info_->src_addrlen) {
    return Status::InvalidArgument("no address: " + text);
  }
  return std::move(*address);
}

}  // namespace breccia::fabric::libfabric
