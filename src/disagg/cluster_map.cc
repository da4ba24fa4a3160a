#include "disagg/cluster_map.h"

#include <nlohmann/json.hpp>

#include "disagg/location.h"

namespace breccia::disagg {

namespace {

constexpr int kVersion = 1;

nlohmann::json json_of(const ClusterMap::Index& index) {
  return {{"member", index.member},
          {"address", index.address},
          {"is_whole", index.is_whole},
          {"process", index.process}};
}

ClusterMap::Index index_in(const nlohmann::json& json) {
  return {.member = json.at("member"),
          .address = json.at("address"),
          .is_whole = json.at("is_whole"),
          .process = json.at("process")};
}

nlohmann::json json_of(const ClusterMap::Memory& one) {
  nlohmann::json json = {{"node", one.node},           {"member", one.member},
                         {"address", one.address},     {"bytes", one.bytes},
                         {"is_in_use", one.is_in_use}, {"is_lost", one.is_lost}};
  if (one.mirror.member.empty()) return json;
  json["mirror"] = {{"member", one.mirror.member},
                    {"address", one.mirror.address},
                    {"is_written", one.mirror.is_written},
                    {"is_whole", one.mirror.is_whole}};
  return json;
}

ClusterMap::Memory memory_in(const nlohmann::json& json) {
  ClusterMap::Memory one{.node = json.at("node"),
                         .member = json.at("member"),
                         .address = json.at("address"),
                         .bytes = json.at("bytes"),
                         .is_in_use = json.at("is_in_use"),
                         .is_lost = json.at("is_lost"),
                         .mirror = {}};
  if (one.member.empty()) throw nlohmann::json::other_error::create(0, "no member", &json);
  if (!json.contains("mirror")) return one;
  const nlohmann::json& mirror = json.at("mirror");
  one.mirror = {.member = mirror.at("member"),
                .address = mirror.at("address"),
                .is_written = mirror.at("is_written"),
                .is_whole = mirror.at("is_whole")};
  return one;
}

}  // namespace

std::string ClusterMap::encode() const {
  nlohmann::json all = {{"version", kVersion},         {"epoch", epoch},
                        {"has_begun", has_begun},      {"hash", json_of(hash)},
                        {"ordered", json_of(ordered)}, {"memory", nlohmann::json::array()}};
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
    map.has_begun = all.at("has_begun");
    map.hash = index_in(all.at("hash"));
    map.ordered = index_in(all.at("ordered"));
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
