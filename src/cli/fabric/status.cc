#include "cli/fabric/status.h"

#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/secret.h"
#include "console/console.h"
#include "disagg/asking.h"

namespace breccia::cli::fabric {

namespace {

using disagg::Ask;
using disagg::ClusterConfig;
using disagg::ClusterMap;
using disagg::IndexState;
using TimeUs = ::breccia::fabric::TimeUs;

constexpr TimeUs kWaitUs = 1'000'000;
constexpr TimeUs kTurnUs = 2'000;

std::optional<IndexState> state_of(::breccia::fabric::Port* port, const std::string& address) {
  if (address.empty()) return std::nullopt;
  const TimeUs until = port->now_us() + kWaitUs;
  const auto peer = port->connect(address, until);
  if (!peer.ok()) return std::nullopt;
  disagg::Asking asking(port, kWaitUs / 4);
  const auto told = asking.ask(peer.value(), Ask::kState, {}, until);
  port->disconnect(peer.value());
  if (!told.ok()) return std::nullopt;
  disagg::WireReader reader(told.value());
  const auto state = reader.take<IndexState>();
  return reader.is_whole() ? std::optional(state) : std::nullopt;
}

/// How a server is, in a word.
const char* word_of(const ClusterMap::Index& index, bool is_member, bool answers) {
  if (index.member.empty()) return "nobody";
  if (!is_member) return "gone";
  if (!answers) return "silent";
  if (!index.heir.member.empty()) return "moves";
  return index.is_whole ? "whole" : "being built";
}

nlohmann::json json_of(const Seen& seen, const ClusterMap::Index& index,
                       const std::optional<IndexState>& state) {
  nlohmann::json json = {
      {"member", index.member},
      {"address", index.address},
      {"state", word_of(index, seen.view.members.contains(index.member), state.has_value())}};
  if (!state.has_value()) return json;
  json["sequence"] = state->sequence;
  json["waiting"] = state->waiting;
  json["keys"] = state->keys;
  return json;
}

void print_index(const char* name, const Seen& seen, const ClusterMap::Index& index,
                 const std::optional<IndexState>& state) {
  const bool is_member = seen.view.members.contains(index.member);
  fmt::print("{:<10}{:<14}{}", name, word_of(index, is_member, state.has_value()), index.address);
  if (state.has_value()) {
    fmt::print("  {} keys, write {}, {} waiting", console::with_commas(state->keys),
               console::with_commas(state->sequence), console::with_commas(state->waiting));
  }
  fmt::print("\n");
}

nlohmann::json json_of(const Seen& seen, const ClusterMap::Memory& one) {
  nlohmann::json json = {{"node", one.node},
                         {"address", one.address},
                         {"is_in_use", one.is_in_use},
                         {"is_lost", one.is_lost},
                         {"is_member", seen.view.members.contains(one.member)},
                         {"is_kept", one.has_medium()}};
  if (one.mirror.member.empty()) return json;
  json["mirror"] = {{"address", one.mirror.address},
                    {"is_whole", one.mirror.is_whole},
                    {"is_member", seen.view.members.contains(one.mirror.member)}};
  return json;
}

void print_memory(const Seen& seen, const ClusterMap::Memory& one) {
  const bool is_member = seen.view.members.contains(one.member);
  const char* const there = one.is_in_use ? "there" : "spare";
  fmt::print("memory {:<3}{:<14}{}{}\n", one.node,
             one.is_lost ? "lost" : (is_member ? there : "gone"), one.address,
             one.has_medium() ? "  kept in a file" : "");
  if (one.mirror.member.empty()) return;
  const bool is_mirror_member = seen.view.members.contains(one.mirror.member);
  const char* const of_mirror = one.mirror.is_whole ? "has all" : "is copying";
  fmt::print("  mirror  {:<14}{}\n", is_mirror_member ? of_mirror : "gone", one.mirror.address);
}

}  // namespace

Result<Seen> look_at(const ClusterConfig& config) {
  const std::string name = "look-" + std::to_string(::getpid()) + "-" +
                           std::to_string(base::draw_secret_word() % 1'000'000);
  BRECCIA_TAKE(const auto port, config.open_port(name));
  BRECCIA_TAKE(const auto met, disagg::MetCoordinator::meet(config, name + ".c"));
  const TimeUs until = port->now_us() + kWaitUs;
  const disagg::Coordinator::View* view = nullptr;
  while ((view = met.coordinator->look()) == nullptr && port->now_us() < until) {
    (void)port->poll(port->now_us() + kTurnUs);
  }
  if (view == nullptr) {
    return Status::TimedOut("the coordinator does not answer", config.coordinator);
  }
  Seen seen;
  seen.network = port->describe();
  seen.view = *view;
  BRECCIA_TAKE(seen.map, ClusterMap::decode(view->document));
  for (const ClusterMap::Shard& one : seen.map.shards) {
    seen.shards.push_back({.hash = state_of(port.get(), one.hash.address),
                           .ordered = state_of(port.get(), one.ordered.address)});
  }
  return seen;
}

Status print_status(const ClusterConfig& config, bool json) {
  BRECCIA_TAKE(const Seen seen, look_at(config));
  if (json) {
    nlohmann::json all = {{"transport", config.transport},
                          {"network", seen.network},
                          {"epoch", seen.map.epoch},
                          {"shards", nlohmann::json::array()},
                          {"memory", nlohmann::json::array()}};
    for (std::size_t i = 0; i < seen.shards.size(); ++i) {
      const ClusterMap::Shard& shard = seen.map.shards[i];
      all["shards"].push_back({{"hash", json_of(seen, shard.hash, seen.shards[i].hash)},
                               {"ordered", json_of(seen, shard.ordered, seen.shards[i].ordered)}});
    }
    for (const ClusterMap::Memory& one : seen.map.memory) {
      if (!one.is_moved) all["memory"].push_back(json_of(seen, one));
    }
    fmt::print("{}\n", all.dump(2));
    return Status::OK();
  }
  fmt::print("epoch {}, by {}\n", seen.map.epoch, seen.network);
  for (std::size_t i = 0; i < seen.shards.size(); ++i) {
    const ClusterMap::Shard& shard = seen.map.shards[i];
    if (seen.shards.size() > 1) fmt::print("shard {}\n", i);
    print_index("hash", seen, shard.hash, seen.shards[i].hash);
    print_index("ordered", seen, shard.ordered, seen.shards[i].ordered);
  }
  for (const ClusterMap::Memory& one : seen.map.memory) {
    if (!one.is_moved) print_memory(seen, one);
  }
  return Status::OK();
}

}  // namespace breccia::cli::fabric
