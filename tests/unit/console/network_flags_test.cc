#include "console/network_flags.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/folder.h"

namespace breccia::console {
namespace {

using breccia::testing::Folder;
using breccia::testing::Place;

/// What words say to a command that has all of the flags, or --node alone.
NetworkFlags flags_of(const std::vector<std::string>& words, bool has_all) {
  App app("a test");
  NetworkFlags flags;
  if (has_all) {
    flags.add_to(&app);
  } else {
    flags.add_node(&app);
  }
  EXPECT_FALSE(app.parse(words).has_value());
  return flags;
}

}  // namespace

// Goal: the flags say what a cluster's file says, and what is of another transport is refused.
// Mutation: a flag whose variable is another one's.
TEST(NetworkFlags, SayATransport) {
  const auto local = flags_of({}, true).network();
  ASSERT_TRUE(local.ok()) << local.status().ToString();
  EXPECT_EQ(local.value().transport, "local");
  const auto network = flags_of({"--transport", "libfabric", "--provider", "tcp;ofi_rxm",
                                 "--allow_software", "--node", "10.0.0.7"},
                                true)
                           .network();
  ASSERT_TRUE(network.ok()) << network.status().ToString();
  EXPECT_EQ(network.value().transport, "libfabric");
  EXPECT_EQ(network.value().provider, "tcp;ofi_rxm");
  EXPECT_TRUE(network.value().allow_software);
  EXPECT_EQ(network.value().node, "10.0.0.7");
  using Words = std::vector<std::string>;
  for (const Words& wrong : {Words{"--node", "10.0.0.7"}, Words{"--allow_software"},
                             Words{"--transport", "libfabric", "--provider", "pigeons"}}) {
    EXPECT_TRUE(flags_of(wrong, true).network().status().IsInvalidArgument()) << wrong.front();
  }
}

// Goal: one file serves all computers, each of which names itself.
TEST(NetworkFlags, NameThisComputerInsteadOfTheFile) {
  const Folder folder(Place::kMemory);
  const std::string file = folder / "cluster.json";
  disagg::ClusterConfig config;
  config.transport = "libfabric";
  config.node = "10.0.0.1";
  config.coordinator = "fi:tcp:10.0.0.1:4711";
  ASSERT_TRUE(config.write(file).ok());
  const auto as_it_is = flags_of({}, false).read(file);
  ASSERT_TRUE(as_it_is.ok()) << as_it_is.status().ToString();
  EXPECT_EQ(as_it_is.value().node, "10.0.0.1");
  const auto named = flags_of({"--node", "10.0.0.7"}, false).read(file);
  ASSERT_TRUE(named.ok()) << named.status().ToString();
  EXPECT_EQ(named.value().node, "10.0.0.7");
  EXPECT_EQ(named.value().coordinator, config.coordinator);

  disagg::ClusterConfig local;
  local.ports = folder.path();
  local.coordinator = "local:" + folder.path() + "/c";
  ASSERT_TRUE(local.write(file).ok());
  EXPECT_TRUE(flags_of({"--node", "10.0.0.7"}, false).read(file).status().IsInvalidArgument());
}

}  // namespace breccia::console
