#include "console/network_flags.h"

namespace breccia::console {

void NetworkFlags::add_node(App* app) {
  app->add_option("--node", node,
                  "libfabric: address or name of this computer in the network; default: as the "
                  "cluster's file has it, else the first that there is");
}

void NetworkFlags::add_to(App* app) {
  app->add_option("--transport", transport,
                  "By what servers and clients reach one another: local, shared memory of one "
                  "computer, or libfabric, a network")
      ->one_of({"local", "libfabric"})
      ->capture_default_str();
  app->add_option("--provider", provider,
                  "libfabric: verbs;ofi_rxm, efa or tcp;ofi_rxm; default: the best that there is a "
                  "card for");
  app->add_flag("--allow_software", allow_software,
                "libfabric: where no provider is named and there is no card, TCP");
  add_node(app);
}

Result<disagg::ClusterConfig> NetworkFlags::network() const {
  disagg::ClusterConfig config;
  config.transport = transport;
  config.provider = provider;
  config.allow_software = allow_software;
  config.node = node;
  BRECCIA_TRY(config.check());
  config.prepare_process();
  return config;
}

Result<disagg::ClusterConfig> NetworkFlags::read(const std::string& file) const {
  BRECCIA_TAKE(auto config, disagg::ClusterConfig::read(file));
  if (!node.empty()) config.node = node;
  BRECCIA_TRY(config.check());
  config.prepare_process();
  return config;
}

}  // namespace breccia::console
