#include "disagg/cluster_config.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "support/folder.h"

namespace breccia::disagg {

namespace {

using breccia::testing::Folder;
using breccia::testing::Place;

Result<ClusterConfig> read(const Folder& folder, const std::string& text) {
  const std::string file = folder / "cluster.json";
  std::ofstream(file) << text;
  return ClusterConfig::read(file);
}

}  // namespace

// Goal: a file has what was written, of either transport.
// Mutation: a field that is not written, or not read.
TEST(DisaggConfig, IsReadAsItWasWritten) {
  const Folder folder(Place::kMemory);
  ClusterConfig local;
  local.ports = folder.path();
  local.coordinator = "local:" + folder.path() + "/coordinator";
  local.session_ms = 321;
  local.copies = 2;
  local.shards = 7;
  ClusterConfig network;
  network.transport = "libfabric";
  network.provider = "tcp;ofi_rxm";
  network.node = "127.0.0.1";
  network.allow_software = true;
  network.coordinator = "fi:tcp:127.0.0.1:4711";
  for (const ClusterConfig& config : {local, network}) {
    const std::string file = folder / "cluster.json";
    ASSERT_TRUE(config.write(file).ok());
    const auto found = ClusterConfig::read(file);
    ASSERT_TRUE(found.ok()) << found.status().ToString();
    EXPECT_EQ(found.value().transport, config.transport);
    EXPECT_EQ(found.value().ports, config.ports);
    EXPECT_EQ(found.value().provider, config.provider);
    EXPECT_EQ(found.value().node, config.node);
    EXPECT_EQ(found.value().allow_software, config.allow_software);
    EXPECT_EQ(found.value().coordinator, config.coordinator);
    EXPECT_EQ(found.value().session_ms, config.session_ms);
    EXPECT_EQ(found.value().copies, config.copies);
    EXPECT_EQ(found.value().shards, config.shards);
  }
}

// Goal: what there is not is refused, by its name.
// Mutation: fields that are not looked at, or not whose transport they are of.
TEST(DisaggConfig, RefusesWhatThereIsNot) {
  const Folder folder(Place::kMemory);
  const std::string local = R"({"transport": "local", "ports": "/p", "coordinator": "local:/p/c")";
  EXPECT_TRUE(read(folder, local + "}").ok());
  for (const char* const wrong :
       {R"(, "port": 1})", R"(, "provider": "efa"})", R"(, "copies": 3})", R"(, "copies": "two"})",
        R"(, "shards": 0})", R"(, "shards": 17})"}) {
    const auto found = read(folder, local + wrong);
    EXPECT_TRUE(found.status().IsInvalidArgument()) << wrong << found.status().ToString();
  }
  EXPECT_TRUE(
      read(folder, R"({"transport": "pigeons", "coordinator": "c"})").status().IsInvalidArgument());
  EXPECT_TRUE(read(folder, R"({"transport": "libfabric", "provider": "p", "coordinator": "c"})")
                  .status()
                  .IsInvalidArgument());
  EXPECT_TRUE(read(folder, "no json").status().IsInvalidArgument());
  EXPECT_TRUE(ClusterConfig::read(folder / "none").status().IsNotFound());
}

}  // namespace breccia::disagg
