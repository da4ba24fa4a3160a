#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/fabric/lose.h"
#include "cli/fabric/status.h"
#include "cli/fabric/up.h"
#include "console/console.h"
#include "console/exit_codes.h"
#include "console/network_flags.h"
#include "disagg/cluster_servers.h"
#include "disagg/key_id.h"
#include "disagg/location.h"

namespace breccia::cli {

namespace {

constexpr std::uint64_t kMemoryMibMax = 1 << 20;
constexpr std::uint64_t kKeysMax = 4'000'000'000;

struct FabricFlags {
  std::string config;
  console::NetworkFlags network;
  std::string folder = "/tmp/breccia-fabric-" + std::to_string(::getuid());
  std::string file;
  bool keep = false;
  std::uint64_t memory_mib = 256;
  std::uint64_t keys = 1'000'000;
  std::uint32_t index_servers = 2;
  std::uint32_t memory_servers = 2;
  std::uint32_t copies = 2;
  std::uint32_t shards = 1;
  bool local = false;
  bool json = false;
  std::uint32_t node = 0;
  bool yes = false;
};

using Flags = std::shared_ptr<FabricFlags>;

int code_of(const char* what, const Status& status, const char* next) {
  if (status.ok()) return console::kExitOk;
  console::say_error(what, status, next);
  return status.IsInvalidArgument() ? console::kExitUsage : console::kExitFailed;
}

std::atomic<bool> g_is_over{false};

/// Runs a server of the cluster that the file tells of, until a signal comes.
Status serve(const FabricFlags& flags,
             const std::function<Status(const disagg::ClusterConfig&)>& run) {
  std::signal(SIGTERM, [](int) { g_is_over = true; });
  std::signal(SIGINT, [](int) { g_is_over = true; });
  BRECCIA_TAKE(const auto config, flags.network.read(flags.config));
  return run(config);
}

void add_config(console::App* app, const Flags& flags) {
  app->add_option("--config", flags->config, "The cluster's file, as `breccia fabric up` writes it")
      ->required();
  flags->network.add_node(app);
}

void add_memory(console::App* app, const Flags& flags) {
  app->add_option("--memory_mib", flags->memory_mib, "Memory for values of a memory server, in MiB")
      ->range(4, kMemoryMibMax)
      ->capture_default_str();
}

void add_keys(console::App* app, const Flags& flags) {
  app->add_option("--keys", flags->keys, "Keys that the indexes have room for at first")
      ->range(1, kKeysMax)
      ->capture_default_str();
}

Status run_up(const FabricFlags& flags) {
  BRECCIA_TAKE(const auto network, flags.network.network());
  return fabric::run_up({.network = network,
                         .folder = flags.folder,
                         .index_servers = flags.index_servers,
                         .memory_servers = flags.memory_servers,
                         .copies = flags.copies,
                         .shards = flags.shards,
                         .memory_bytes = flags.memory_mib << 20,
                         .keys = flags.keys,
                         .keeps = flags.keep});
}

console::Command add_up(console::App* parent) {
  const auto flags = std::make_shared<FabricFlags>();
  console::App* app = parent->add_subcommand(
      "up",
      "Run a whole cluster on this computer, until ctrl-C: a coordinator, index servers, "
      "memory servers");
  app->add_flag("--local", flags->local, "On this computer; there is no other way yet")->required();
  app->add_option("--folder", flags->folder, "For cluster.json and sockets")->capture_default_str();
  app->add_option("--index_servers", flags->index_servers, "Index servers")
      ->range(2, 16)
      ->capture_default_str();
  app->add_option("--memory_servers", flags->memory_servers, "Memory servers")
      ->range(1, 64)
      ->capture_default_str();
  app->add_option("--copies", flags->copies,
                  "Servers that have each value; with two, one of them may be lost")
      ->range(1, 2)
      ->capture_default_str();
  app->add_option("--shards", flags->shards,
                  "That keys are divided into; each has indexes of its own, for good")
      ->range(1, disagg::kShardsMax)
      ->capture_default_str();
  add_memory(app, flags);
  add_keys(app, flags);
  app->add_flag("--keep", flags->keep,
                "Keep values in files of the folder: the next one there begins with them");
  flags->network.add_to(app);
  return {app, [flags] {
            const Status status = run_up(*flags);
            return code_of("the cluster cannot be run", status,
                           status.IsNotSupported() ? "--allow_software, or --transport local"
                                                   : "breccia fabric up --local --folder ANOTHER");
          }};
}

Status print_status(const FabricFlags& flags) {
  BRECCIA_TAKE(const auto config, flags.network.read(flags.config));
  return fabric::print_status(config, flags.json);
}

console::Command add_status(console::App* parent) {
  const auto flags = std::make_shared<FabricFlags>();
  console::App* app = parent->add_subcommand(
      "status", "Who has which role in a cluster, its epoch, and how far each server is");
  add_config(app, flags);
  app->add_flag("--json", flags->json, "As JSON");
  return {app, [flags] {
            return code_of("the cluster's status is not known", print_status(*flags),
                           "breccia fabric up --local");
          }};
}

Status run_lose(const FabricFlags& flags) {
  BRECCIA_TAKE(const auto config, flags.network.read(flags.config));
  return fabric::lose(config, flags.node, flags.yes);
}

console::Command add_lose(console::App* parent) {
  const auto flags = std::make_shared<FabricFlags>();
  console::App* app = parent->add_subcommand(
      "lose", "Give up a memory server that is waited for, and what its file has");
  add_config(app, flags);
  app->add_option("--number", flags->node, "Of the memory server, as `status` has it")
      ->range(0, disagg::kNodesMax - 1)
      ->required();
  app->add_flag("--yes", flags->yes, "Its values are lost for good");
  return {app, [flags] {
            return code_of("the server is not given up", run_lose(*flags),
                           "breccia fabric status --config");
          }};
}

}  // namespace

console::Command add_fabric(console::App* parent) {
  console::App* app =
      parent->add_subcommand("fabric", "The store in the memory of servers: its cluster");
  app->require_subcommand();
  return {app, [] { return console::kExitUsage; }};
}

std::vector<console::Command> add_fabric_commands(console::App* parent) {
  std::vector<console::Command> all = {add_up(parent), add_status(parent), add_lose(parent)};
  const auto add = [&](const char* name, const char* help, const auto& add_flags, const auto& run) {
    const auto flags = std::make_shared<FabricFlags>();
    console::App* app = parent->add_subcommand(name, help);
    add_config(app, flags);
    add_flags(app, flags);
    all.push_back({app, [flags, run] {
                     return code_of("the server cannot go on", run(*flags),
                                    "breccia fabric status --config");
                   }});
  };
  add(
      "coordinator", "Run a cluster's coordinator",
      [](console::App* one, const Flags& flags) {
        one->add_option("--file", flags->file, "Where it keeps what it knows")->required();
      },
      [](const FabricFlags& flags) {
        return serve(flags, [&](const disagg::ClusterConfig& config) {
          return disagg::run_coordinator(config, flags.file, g_is_over);
        });
      });
  add(
      "memory", "Run a memory server",
      [](console::App* one, const Flags& flags) {
        add_memory(one, flags);
        one->add_option("--file", flags->file,
                        "Where values are kept, so that they outlive it: on persistent memory or a "
                        "disk; on a disk a write waits for a sync");
      },
      [](const FabricFlags& flags) {
        return serve(flags, [&](const disagg::ClusterConfig& config) {
          return disagg::run_memory_server(config, flags.memory_mib << 20, flags.file, g_is_over);
        });
      });
  add("index", "Run an index server: it has one of the indexes, or waits to take one over",
      add_keys, [](const FabricFlags& flags) {
        return serve(flags, [&](const disagg::ClusterConfig& config) {
          disagg::run_index_server(config, flags.keys, g_is_over);
          return Status::OK();
        });
      });
  return all;
}

}  // namespace breccia::cli
