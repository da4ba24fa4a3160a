#include "disagg/cluster_map.h"

#include <nlohmann/json.hpp>

#include "disagg/location.h"

namespace breccia::disagg {

namespace {

constexpr int kVersion = 1;

nlohmann::json json_of(const ClusterMap::Index& index) {
  return {{"member", index.member}, {"address", index.address}, {"is_whole", index.is_whole}};
}

ClusterMap::Index index_in(const nlohmann::json& json) {
  return {
      .member = json.at("member"), .address = json.at("address"), .is_whole = json.at("is_whole")};
}

}  // namespace

std::string ClusterMap::encode() const {
  nlohmann::json all = {{"version", kVersion},         {"epoch", epoch},
                        {"has_begun", has_begun},      {"hash", json_of(hash)},
                        {"ordered", json_of(ordered)}, {"memory", nlohmann::json::array()}};
  for (const Memory& one : memory) {
    all["memory"].push_back({{"node", one.node},
                             {"member", one.member},
                             {"address", one.address},
                             {"is_lost", one.is_lost}});
  }
  return all.dump();
}

Result<ClusterMap> ClusterMap::decode(const std::string& document) {
  ClusterMap map;
  if (document.empty()) return map;
  try {
    const auto all = nlohmann::json::parse(document);
    if (all.at("version") != kVersion) return Status::Corruption("a map of another version");
    map.epoch = all.at("epoch");
    map.has_begun = all.at("has_begun");
    map.hash = index_in(all.at("hash"));
    map.ordered = index_in(all.at("ordered"));
    for (const auto& one : all.at("memory")) {
      map.memory.push_back({.node = one.at("node"),
                            .member = one.at("member"),
                            .address = one.at("address"),
                            .is_lost = one.at("is_lost")});
      if (map.memory.back().node >= kNodesMax) return Status::Corruption("no number of a server");
    }
  } catch (const nlohmann::json::exception& error) {
    return Status::Corruption("what the coordinator has is no map", error.what());
  }
  return map;
}

}  // namespace breccia::disagg
