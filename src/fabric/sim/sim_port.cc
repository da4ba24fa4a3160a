#include "fabric/sim/sim_port.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <utility>

#include "base/assert.h"
#include "base/bytes.h"

namespace breccia::fabric::sim {

namespace {

constexpr std::size_t kLineBytes = 64;
constexpr std::size_t kPiecesMax = 4;

}  // namespace

class SimPort::Memory final : public Region {
 public:
  Memory(SimPort* port, std::uint64_t key, std::uint64_t bytes, fabric::Access access)
      : port_(port), name_{.key = key, .base = 0, .bytes = bytes}, access_(access) {
    lines_.resize(base::round_up(bytes, kLineBytes) / kLineBytes);
    port_->regions_.emplace(key, this);
  }
  ~Memory() override {
    port_->regions_.erase(name_.key);
    if (port_->net_->weather_.regions_stay) {
      port_->ended_.emplace(name_.key, std::vector<std::byte>(bytes().begin(), bytes().end()));
    }
  }

  [[nodiscard]] std::span<std::byte> bytes() override {
    return {reinterpret_cast<std::byte*>(lines_.data()), name_.bytes};
  }
  [[nodiscard]] RegionName name() const override { return name_; }
  [[nodiscard]] bool may_write() const { return access_ == fabric::Access::kReadWrite; }

 private:
  struct alignas(kLineBytes) Line {
    std::byte byte[kLineBytes] = {};
  };
  SimPort* const port_;
  const RegionName name_;
  const fabric::Access access_;
  std::vector<Line> lines_;
};

struct SimPort::Access {
  RegionName region;
  std::uint64_t offset;
  std::vector<std::byte> bytes;  // what was read, or is to be written
};

struct SimPort::Accesses {
  bool writes;
  PeerId peer;
  std::vector<Access> all = {};
  Net::PortId from = 0;
  Net::Node from_node = 0;
  Net::PortId to = 0;
  Net::ThreadId waits = 0;  // who
  std::size_t pieces = 0;   // that are under way
  bool is_refused = false;
  std::optional<Status> came_of_it = {};  // none: it is not over
};

SimPort::SimPort(Net* net, Net::Node node, Net::PortId id) : net_(net), node_(node), id_(id) {
  net_->ports_.emplace(id_, this);
}

SimPort::~SimPort() {
  BRECCIA_ASSERT(regions_.empty());
  for (PeerId peer = 0; peer < links_.size(); ++peer) disconnect(peer);
  net_->ports_.erase(id_);
}

const SimPort::Link& SimPort::link(PeerId peer) const {
  BRECCIA_ASSERT(peer < links_.size());
  return links_[peer];
}
SimPort::Link& SimPort::link(PeerId peer) {
  BRECCIA_ASSERT(peer < links_.size());
  return links_[peer];
}

Result<std::unique_ptr<Region>> SimPort::make_region(std::uint64_t bytes, fabric::Access access) {
  BRECCIA_ASSERT(bytes > 0);
  return std::unique_ptr<Region>(new Memory(this, next_key_++, bytes, access));
}

bool SimPort::reaches(const Link& to) const {
  const SimPort* const other = net_->port(to.port);
  return other != nullptr && !net_->is_killed(other->node_) && !net_->is_killed(node_) &&
         !net_->is_cut(node_, other->node_);
}

// ---- connections -------------------------------------------------------------------------------

Result<PeerId> SimPort::connect(const std::string& address, TimeUs until) {
  constexpr std::string_view kBefore = "sim:";
  if (!address.starts_with(kBefore)) return Status::InvalidArgument("no address: " + address);
  const Net::PortId other = std::strtoull(address.c_str() + kBefore.size(), nullptr, 10);
  // Of this side at once, of the other when it comes there.
  const auto peer = static_cast<PeerId>(links_.size());
  links_.push_back({.port = other, .peer = 0});
  struct Attempt {
    bool is_done = false;
  };
  const auto attempt = std::make_shared<Attempt>();
  const Net::ThreadId self = net_->running();
  net_->at(now_us() + net_->draw_delay(), [net = net_, id = id_, other, peer, attempt, self] {
    SimPort* const here = net->port(id);
    SimPort* const there = net->port(other);
    if (here == nullptr || there == nullptr || !here->reaches(here->link(peer))) return;
    here->link(peer).peer = static_cast<PeerId>(there->links_.size());
    there->links_.push_back({.port = id, .peer = peer});
    net->at(net->now_us() + net->draw_delay(), [net, attempt, self] {
      attempt->is_done = true;
      net->wake(self);
    });
  });
  while (!attempt->is_done && now_us() < until && std::uncaught_exceptions() == 0) {
    net_->wait(until);
  }
  if (attempt->is_done) return peer;
  link(peer).is_gone = true;
  return Status::TimedOut("nobody answers at " + address);
}

void SimPort::disconnect(PeerId peer) {
  Link& gone = link(peer);
  if (std::exchange(gone.is_gone, true)) return;
  net_->at(now_us() + net_->draw_delay(), [net = net_, to = gone.port, at = gone.peer, id = id_] {
    SimPort* const there = net->port(to);
    if (there == nullptr || at >= there->links_.size() || there->link(at).port != id) return;
    there->note_gone(at);
  });
}

/// Whoever was connected may hear of it, some time.
void SimPort::note_killed(Net::Node node) {
  for (PeerId peer = 0; peer < links_.size(); ++peer) {
    const SimPort* const other = net_->port(links_[peer].port);
    if (other == nullptr || other->node_ != node || net_->random().one_in(2)) continue;
    net_->at(now_us() + net_->draw_delay(), [net = net_, id = id_, peer] {
      if (SimPort* const here = net->port(id)) here->note_gone(peer);
    });
  }
}

/// If it is a port of the one node: its peers on the other one are gone.
void SimPort::note_parted(Net::Node here, Net::Node there, TimeUs time) {
  for (PeerId peer = 0; node_ == here && peer < links_.size(); ++peer) {
    const SimPort* const other = net_->port(links_[peer].port);
    if (other == nullptr || other->node_ != there) continue;
    net_->at(time, [net = net_, id = id_, peer] {
      if (SimPort* const port = net->port(id)) port->note_gone(peer);
    });
  }
}

void SimPort::note_gone(PeerId peer) {
  if (std::exchange(link(peer).is_gone, true)) return;
  arrive({.kind = Arrival::Kind::kGone, .peer = peer, .header = {}, .payload = {}});
}

// ---- memory of others --------------------------------------------------------------------------

Status SimPort::read(PeerId peer, std::span<const Read> reads, TimeUs until) {
  ReadsOf one{.peer = peer, .reads = reads};
  read_all({&one, 1}, until);
  return one.status;
}

Status SimPort::write(PeerId peer, std::span<const Write> writes, TimeUs until) {
  WritesTo one{.peer = peer, .writes = writes};
  write_all({&one, 1}, until);
  return one.status;
}

void SimPort::read_all(std::span<ReadsOf> all, TimeUs until) {
  std::vector<std::shared_ptr<Accesses>> of_peers;
  for (const ReadsOf& one : all) {
    auto accesses = std::make_shared<Accesses>(Accesses{.writes = false, .peer = one.peer});
    for (const Read& read : one.reads) {
      accesses->all.push_back({read.region, read.offset, std::vector<std::byte>(read.into.size())});
    }
    of_peers.push_back(std::move(accesses));
  }
  access(of_peers, until);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].status = *of_peers[i]->came_of_it;
    for (std::size_t n = 0; all[i].status.ok() && n < all[i].reads.size(); ++n) {
      std::ranges::copy(of_peers[i]->all[n].bytes, all[i].reads[n].into.begin());
    }
  }
}

void SimPort::write_all(std::span<WritesTo> all, TimeUs until) {
  std::vector<std::shared_ptr<Accesses>> to_peers;
  for (const WritesTo& one : all) {
    auto accesses = std::make_shared<Accesses>(Accesses{.writes = true, .peer = one.peer});
    for (const Write& write : one.writes) {
      accesses->all.push_back({write.region, write.offset, {write.from.begin(), write.from.end()}});
    }
    to_peers.push_back(std::move(accesses));
  }
  access(to_peers, until);
  for (std::size_t i = 0; i < all.size(); ++i) all[i].status = *to_peers[i]->came_of_it;
}

/// All at once; what came of each is known when all are over, or the time is.
void SimPort::access(std::span<const std::shared_ptr<Accesses>> all, TimeUs until) {
  for (const auto& one : all) start(one);
  while (true) {
    const bool may_wait = now_us() < until && std::uncaught_exceptions() == 0;
    bool are_over = true;
    for (const auto& one : all) are_over = settle(one.get(), !may_wait) && are_over;
    if (are_over) return;
    net_->wait(until);
  }
}

void SimPort::start(const std::shared_ptr<Accesses>& accesses) {
  if (link(accesses->peer).is_gone) {
    accesses->came_of_it = Status::IOError("the peer is gone");
    return;
  }
  accesses->from = id_;
  accesses->from_node = node_;
  accesses->to = link(accesses->peer).port;
  accesses->waits = net_->running();
  for (std::size_t which = 0; which < accesses->all.size(); ++which) divide(accesses, which);
}

/// Whether they are over: all is done, or one was refused, or there is no time left.
bool SimPort::settle(Accesses* accesses, bool is_late) {
  if (accesses->came_of_it.has_value()) return true;
  if (accesses->is_refused) {
    // As networks do: whoever asks for what there is not is not listened to any more.
    disconnect(accesses->peer);
    accesses->came_of_it = Status::InvalidArgument("no such memory of the peer");
    return true;
  }
  if (accesses->pieces > 0 && !is_late) return false;
  if (link(accesses->peer).is_gone) {
    accesses->came_of_it = Status::IOError("the peer is gone");
  } else {
    accesses->came_of_it =
        accesses->pieces == 0 ? Status::OK() : Status::TimedOut("memory of the peer");
  }
  return true;
}

/// An access happens in pieces, each at a time of its own.
void SimPort::divide(const std::shared_ptr<Accesses>& accesses, std::size_t which) {
  const std::size_t bytes = accesses->all[which].bytes.size();
  std::vector<std::size_t> cuts = {0, bytes};
  if (bytes > 1 && net_->draw(net_->weather_.torn_one_in)) {
    for (std::uint64_t i = 0; i < 1 + net_->random().below(kPiecesMax - 1); ++i) {
      const std::size_t at = 1 + net_->random().below(bytes - 1);
      cuts.push_back(net_->random().one_in(4) ? at : at & ~std::size_t{7});
    }
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  const TimeUs begins = now_us() + net_->draw_delay();
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    ++accesses->pieces;
    const TimeUs time =
        i == 0 ? begins : begins + net_->random().below(net_->weather_.delay_us_max);
    const std::size_t begin = cuts[i], end = cuts[i + 1];
    net_->at(time, [net = net_, accesses, which, begin, end] {
      SimPort* const there = net->port(accesses->to);
      // Nobody answers: who waits does so until its time is over.
      if (there == nullptr || net->is_killed(there->node_) || net->is_killed(accesses->from_node) ||
          net->is_cut(there->node_, accesses->from_node)) {
        return;
      }
      Access& access = accesses->all[which];
      const std::span<std::byte> region = there->region_of(access.region.key, accesses->writes);
      const bool is_there = !region.empty() && access.offset <= region.size() &&
                            access.bytes.size() <= region.size() - access.offset;
      if (is_there) {
        std::byte* const remote = region.data() + access.offset;
        std::byte* const local = access.bytes.data();
        accesses->writes ? std::memcpy(remote + begin, local + begin, end - begin)
                         : std::memcpy(local + begin, remote + begin, end - begin);
      }
      net->note_event(there->node_);
      net->note_event(accesses->from_node);
      net->at(net->now_us() + net->draw_delay(), [net, accesses, is_there] {
        accesses->is_refused = accesses->is_refused || !is_there;
        if (--accesses->pieces == 0 || !is_there) net->wake(accesses->waits);
      });
    });
  }
}

/// Empty: nobody reaches it so.
std::span<std::byte> SimPort::region_of(std::uint64_t key, bool writes) {
  if (const auto found = regions_.find(key); found != regions_.end()) {
    const bool may = !writes || found->second->may_write();
    return may ? found->second->bytes() : std::span<std::byte>();
  }
  const auto ended = ended_.find(key);
  return writes || ended == ended_.end() ? std::span<std::byte>() : std::span(ended->second);
}

// ---- messages ----------------------------------------------------------------------------------

Status SimPort::send(PeerId peer, const Header& header, std::span<const std::byte> payload,
                     TimeUs /*until*/) {
  Link& to = link(peer);
  if (to.is_gone) return Status::IOError("the peer is gone");
  if (net_->is_killed(node_)) return Status::OK();  // it has not noticed yet
  const WireHeader head = encode(header, payload);
  std::vector<std::byte> message(head.begin(), head.end());
  message.insert(message.end(), payload.begin(), payload.end());
  const Weather& weather = net_->weather_;
  if (net_->draw(weather.lost_one_in)) return Status::OK();
  if (net_->draw(weather.damaged_one_in)) {
    const std::uint64_t bit = net_->random().below(8 * message.size());
    message[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
  }
  const int times = net_->draw(weather.twice_one_in) ? 2 : 1;
  for (int i = 0; i < times; ++i) {
    TimeUs time = now_us() + net_->draw_delay();
    if (!net_->draw(weather.overtaken_one_in)) time = to.last_us = std::max(time, to.last_us + 1);
    net_->at(time, [net = net_, id = to.port, from = to.peer, node = node_, message] {
      SimPort* const there = net->port(id);
      if (there == nullptr || net->is_killed(there->node_) || net->is_cut(there->node_, node))
        return;
      there->deliver(from, message);
      net->note_event(there->node_);
    });
  }
  net_->note_event(node_);
  return Status::OK();
}

void SimPort::deliver(PeerId from, std::vector<std::byte> message) {
  if (link(from).is_gone) return;
  Arrival arrival{.kind = Arrival::Kind::kMessage, .peer = from, .header = {}, .payload = {}};
  std::span<const std::byte> payload;
  if (decode(message, &arrival.header, &payload) != Damage::kNone) return;
  arrival.payload.assign(payload.begin(), payload.end());
  arrive(std::move(arrival));
}

void SimPort::arrive(Arrival arrival) {
  inbox_.push_back(std::move(arrival));
  if (polls_ != 0) net_->wake(polls_);
}

std::optional<Arrival> SimPort::poll(TimeUs until) {
  polls_ = net_->running();
  do {
    if (!inbox_.empty()) break;
    net_->wait(until);
  } while (now_us() < until && std::uncaught_exceptions() == 0);
  polls_ = 0;
  if (inbox_.empty()) return std::nullopt;
  Arrival arrival = std::move(inbox_.front());
  inbox_.pop_front();
  return arrival;
}

}  // namespace breccia::fabric::sim
