#include "disagg/cluster_map.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "disagg/location.h"

namespace breccia::disagg {

namespace {

constexpr int kVersion = 3;

nlohmann::json json_of(const ClusterMap::Index& index) {
  nlohmann::json json = {{"member", index.member},
                         {"address", index.address},
                         {"is_whole", index.is_whole},
                         {"process", index.process}};
  if (!index.given_by.empty()) json["given_by"] = index.given_by;
  const ClusterMap::Heir& heir = index.heir;
  if (heir.member.empty()) return json;
  json["heir"] = {{"member", heir.member},
                  {"address", heir.address},
                  {"process", heir.process},
                  {"may_take", heir.may_take}};
  return json;
}

ClusterMap::Index index_in(const nlohmann::json& json) {
  ClusterMap::Index index{.member = json.at("member"),
                          .address = json.at("address"),
                          .is_whole = json.at("is_whole"),
                          .process = json.at("process"),
                          .given_by = json.value("given_by", "")};
  if (!json.contains("heir")) return index;
  const nlohmann::json& heir = json.at("heir");
  index.heir = {.member = heir.at("member"),
                .address = heir.at("address"),
                .process = heir.at("process"),
                .may_take = heir.at("may_take")};
  return index;
}

nlohmann::json json_of(const ClusterMap::Shard& shard) {
  nlohmann::json json = {{"has_begun", shard.has_begun},
                         {"hash", json_of(shard.hash)},
                         {"ordered", json_of(shard.ordered)}};
  if (!shard.left.empty()) json["left"] = shard.left;
  return json;
}

ClusterMap::Shard shard_in(const nlohmann::json& json) {
  return {.has_begun = json.at("has_begun"),
          .hash = index_in(json.at("hash")),
          .ordered = index_in(json.at("ordered")),
          .left = json.value("left", std::vector<std::string>())};
}

nlohmann::json json_of(const ClusterMap::Memory& one) {
  nlohmann::json json = {{"node", one.node},           {"member", one.member},
                         {"address", one.address},     {"bytes", one.bytes},
                         {"is_in_use", one.is_in_use}, {"is_lost", one.is_lost}};
  if (!one.medium.empty()) json["medium"] = one.medium;
  if (one.is_moved) json["is_moved"] = true;
  if (one.mirror.member.empty()) return json;
  json["mirror"] = {{"member", one.mirror.member},
                    {"address", one.mirror.address},
                    {"written_by", one.mirror.written_by},
                    {"is_whole", one.mirror.is_whole}};
  if (!one.mirror.medium.empty()) json["mirror"]["medium"] = one.mirror.medium;
  return json;
}

ClusterMap::Memory memory_in(const nlohmann::json& json) {
  ClusterMap::Memory one{.node = json.at("node"),
                         .member = json.at("member"),
                         .address = json.at("address"),
                         .bytes = json.at("bytes"),
                         .is_in_use = json.at("is_in_use"),
                         .is_lost = json.at("is_lost"),
                         .mirror = {},
                         .is_moved = json.value("is_moved", false),
                         .medium = json.value("medium", "")};
  if (one.member.empty()) throw nlohmann::json::other_error::create(0, "no member", &json);
  if (!json.contains("mirror")) return one;
  const nlohmann::json& mirror = json.at("mirror");
  one.mirror = {.member = mirror.at("member"),
                .address = mirror.at("address"),
                .written_by = mirror.at("written_by"),
                .is_whole = mirror.at("is_whole"),
                .medium = mirror.value("medium", "")};
  return one;
}

}  // namespace

bool ClusterMap::add(Memory one) {
  one.node = 0;
  auto at = memory.begin();
  for (; at != memory.end() && at->node == one.node; ++at) ++one.node;
  if (one.node >= kNodesMax) return false;
  memory.insert(at, std::move(one));
  return true;
}

bool ClusterMap::is_written(const Mirror& mirror) const {
  const std::uint32_t all = ShardSet::all(placement().shards).bits();
  return all != 0 && (mirror.written_by & all) == all;
}

std::string ClusterMap::encode() const {
  nlohmann::json all = {{"version", kVersion},
                        {"epoch", epoch},
                        {"placement", {placement_seed.start, placement_seed.factor}},
                        {"shards", nlohmann::json::array()},
                        {"memory", nlohmann::json::array()}};
  for (const Shard& one : shards) all["shards"].push_back(json_of(one));
  for (const Memory& one : memory) all["memory"].push_back(json_of(one));
  return all.dump();
}

Result<ClusterMap> ClusterMap::decode(const std::string& document) {
  ClusterMap map;
  if (document.empty()) return map;
  try {
    const auto all = nlohmann::json::parse(document);
    if (all.at("version") != kVersion) {
      return Status::NotSupported("the cluster's map is of another version",
                                  "use the same release");
    }
    map.epoch = all.at("epoch");
    map.placement_seed = {.start = all.at("placement").at(0), .factor = all.at("placement").at(1)};
    for (const auto& one : all.at("shards")) map.shards.push_back(shard_in(one));
    if (map.shards.size() > kShardsMax) return Status::Corruption("a map of too many shards");
    for (const auto& one : all.at("memory")) {
      map.memory.push_back(memory_in(one));
      if (map.memory.back().node >= kNodesMax) return Status::Corruption("no number of a server");
    }
  } catch (const nlohmann::json::exception& error) {
    return Status::Corruption("what the coordinator has is no map", error.what());
  }
  return map;
}

}  // namespace breccia::disagg
