#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/histogram.h"
#include "base/random.h"
#include "bench/commands.h"
#include "bench/disagg/flags.h"
#include "bench/disagg/nodes.h"
#include "bench/lists.h"
#include "bench/places.h"
#include "bench/rows.h"
#include "bench/threads.h"
#include "console/console.h"
#include "console/exit_codes.h"
#include "disagg/asking.h"
#include "disagg/client/client.h"
#include "disagg/coordinator/fixed.h"
#include "disagg/memory_peers.h"

/// `breccia bench disagg`: a disaggregated store on this computer, over shared memory, asked by one
/// client a thread. Each operation has its own clock; every value that comes is looked at. Figures
/// are in microseconds, and in units of R, a plain read of 64 bytes out of a server's memory in the
/// same run.
/// Source  [hstore] section 5.

namespace breccia::bench::disagg {

namespace {

using breccia::disagg::Ask;
using breccia::disagg::Asking;
using breccia::disagg::Client;
using breccia::disagg::ClientOptions;
using breccia::disagg::FixedCoordinator;
using breccia::disagg::MemoryPeer;
using breccia::disagg::MemoryPeers;
using breccia::disagg::Role;
using breccia::disagg::TableInfo;
using fabric::TimeUs;

constexpr TimeUs kUntilUs = 10'000'000;
constexpr std::uint32_t kScanKeys = 100;

/// Keys and values as functions of their numbers.
class Data {
 public:
  Data(std::uint64_t keys, std::uint32_t value_bytes, std::uint64_t seed)
      : keys_(keys), value_bytes_(value_bytes), seed_(seed) {}

  [[nodiscard]] std::uint64_t keys() const { return keys_; }
  [[nodiscard]] std::uint32_t value_bytes() const { return value_bytes_; }
  /// Of i >= keys(): one that is never there.
  [[nodiscard]] std::string key(std::uint64_t i) const {
    return fmt::format("{:016x}", base::mix64(seed_ + i));
  }
  /// The key, and bytes that another version has not.
  [[nodiscard]] std::string value(const std::string& key, std::uint64_t version) const {
    std::string value(value_bytes_, static_cast<char>('a' + version % 26));
    std::copy(key.begin(), key.end(), value.begin());
    return value;
  }
  [[nodiscard]] bool is_value(const Slice& key, const std::string& value) const {
    return value.size() == value_bytes_ && Slice(value).starts_with(key) &&
           value.back() == value[key.size()];
  }

  static constexpr std::uint32_t kValueMin = 32;

 private:
  const std::uint64_t keys_;
  const std::uint32_t value_bytes_;
  const std::uint64_t seed_;
};

/// One client's thread: a port with two clients, one of which remembers where values are.
struct Worker {
  std::unique_ptr<fabric::Port> port;
  std::unique_ptr<FixedCoordinator> coordinator;
  std::unique_ptr<Client> plain, remembering;
  fabric::PeerId hash_server = 0;
  TableInfo table;
  base::Random random{0};
  std::uint64_t reads = 0;  // beside the clients'

  [[nodiscard]] TimeUs late() const { return port->now_us() + kUntilUs; }
};

/// What all clients' operations of one kind took.
struct Figure {
  std::string name;
  std::uint32_t clients = 0;
  double seconds = 0;
  double server_cpu = 0;
  std::uint64_t reads = 0;
  base::Histogram ns;
};

using Operation = std::function<Status(Worker*)>;

Status wrong(const char* what, const Slice& key) {
  return Status::Corruption(std::string("a wrong answer to ") + what, key);
}

class Round {
 public:
  Round(const DisaggFlags& flags, std::uint32_t clients, std::uint32_t value_bytes,
        std::uint64_t seed)
      : flags_(flags),
        clients_(clients),
        data_(flags.keys, value_bytes, base::mix64(seed)),
        seed_(seed) {}

  Status run() {
    // Sockets alone lie there, so each process has its own.
    const Place place{fmt::format("{}-disagg-{}", default_folder(), getpid()), ""};
    BRECCIA_TRY(make_fresh(place));
    Status status = run_in(place.db);
    workers_.clear();
    nodes_.reset();
    const Status removed = remove_marked(place);
    return status.ok() ? removed : status;
  }

 private:
  Status run_in(const std::string& folder) {
    BRECCIA_TAKE(nodes_, Nodes::start({.folder = folder,
                                       .keys = data_.keys(),
                                       .block_bytes = breccia::disagg::block_bytes(
                                           data_.key(0).size(), data_.value_bytes()),
                                       .memory_servers = flags_.memory_servers,
                                       .seed = seed_}));
    for (std::uint32_t i = 0; i < clients_; ++i) BRECCIA_TRY(add_worker(i));
    BRECCIA_TRY(fill());
    BRECCIA_TRY(measure("fabric_read64", [this](Worker* w) { return read_64(w); }));
    BRECCIA_TRY(measure("fabric_get", [this](Worker* w) { return get(w, w->plain.get()); }));
    BRECCIA_TRY(
        measure("fabric_get_cached", [this](Worker* w) { return get(w, w->remembering.get()); }));
    BRECCIA_TRY(measure("fabric_miss", [this](Worker* w) { return miss(w); }));
    BRECCIA_TRY(measure("fabric_put", [this](Worker* w) { return put(w); }));
    BRECCIA_TRY(measure("fabric_scan100", [this](Worker* w) { return scan(w); }));
    BRECCIA_TRY(measure("fabric_read64", [this](Worker* w) { return read_64(w); }));
    say();
    BRECCIA_TRY(rebuild("fabric_rebuild_hash", Role::kHash));
    return rebuild("fabric_rebuild_ordered", Role::kOrdered);
  }

  Status add_worker(std::uint32_t number) {
    auto worker = std::make_unique<Worker>();
    BRECCIA_TAKE(worker->port, nodes_->open_port());
    worker->coordinator = std::make_unique<FixedCoordinator>(nodes_->map().encode());
    worker->random = base::Random(base::mix64(seed_) + number);
    ClientOptions options;
    options.seed = base::mix64(seed_ + number);
    options.cached_places = 0;
    BRECCIA_TAKE(worker->plain, Client::open(worker->port.get(), worker->coordinator.get(), options,
                                             worker->late()));
    options.seed += 1;
    options.cached_places = 4 * data_.keys();
    BRECCIA_TAKE(worker->remembering, Client::open(worker->port.get(), worker->coordinator.get(),
                                                   options, worker->late()));
    BRECCIA_TAKE(worker->hash_server,
                 worker->port->connect(nodes_->map().hash.address, worker->late()));
    Asking asking(worker->port.get(), options.ask_again_us);
    BRECCIA_TAKE(const auto told, asking.ask(worker->hash_server, Ask::kTable, {}, worker->late()));
    worker->table = breccia::disagg::WireReader(told).take<TableInfo>();
    workers_.push_back(std::move(worker));
    return Status::OK();
  }

  /// Puts all keys, and has each client look at each of them once.
  Status fill() {
    BRECCIA_TRY(on_threads(clients_, [&](std::uint32_t t) {
      Worker* const worker = workers_[t].get();
      for (std::uint64_t i = t; i < data_.keys(); i += clients_) {
        const std::string key = data_.key(i);
        BRECCIA_TRY(worker->plain->put(key, data_.value(key, 0), worker->late()));
      }
      return Status::OK();
    }));
    return on_threads(clients_, [&](std::uint32_t t) {
      Worker* const worker = workers_[t].get();
      std::string value;
      for (std::uint64_t i = 0; i < data_.keys(); ++i) {
        BRECCIA_TRY(worker->remembering->get(data_.key(i), &value, worker->late()));
      }
      return Status::OK();
    });
  }

  Status measure(const char* name, const Operation& operation) {
    auto figure = std::make_unique<Figure>();
    figure->name = name;
    std::vector<base::Histogram> of_thread(clients_);
    const std::uint64_t reads = reads_so_far();
    const double cpu = nodes_->hash_server_cpu();
    const auto begin = Clock::now();
    BRECCIA_TRY(on_threads(clients_, [&](std::uint32_t t) {
      Worker* const worker = workers_[t].get();
      for (auto now = Clock::now();
           1e-9 * static_cast<double>(ns_between(begin, now)) < flags_.seconds;) {
        BRECCIA_TRY(operation(worker));
        const auto end = Clock::now();
        of_thread[t].record(ns_between(now, end));
        now = end;
      }
      return Status::OK();
    }));
    figure->seconds = 1e-9 * static_cast<double>(ns_between(begin, Clock::now()));
    figure->server_cpu = nodes_->hash_server_cpu() - cpu;
    figure->reads = reads_so_far() - reads;
    for (const base::Histogram& one : of_thread) figure->ns.merge(one);
    figures_.push_back(std::move(figure));
    return Status::OK();
  }

  [[nodiscard]] std::uint64_t reads_so_far() const {
    std::uint64_t reads = 0;
    for (const auto& worker : workers_) {
      reads += worker->plain->counts().reads + worker->remembering->counts().reads + worker->reads;
    }
    return reads;
  }

  // ---- operations ------------------------------------------------------------------------------

  Status read_64(Worker* worker) const {
    std::array<std::byte, 64> bytes;
    const std::uint64_t lines = worker->table.region.bytes / bytes.size();
    const fabric::Read read{worker->table.region, worker->random.below(lines) * bytes.size(),
                            bytes};
    ++worker->reads;
    return worker->port->read(worker->hash_server, {&read, 1}, worker->late());
  }
  Status get(Worker* worker, Client* client) const {
    const std::string key = data_.key(worker->random.below(data_.keys()));
    std::string value;
    BRECCIA_TRY(client->get(key, &value, worker->late()));
    return data_.is_value(key, value) ? Status::OK() : wrong("a lookup", key);
  }
  Status miss(Worker* worker) const {
    const std::string key = data_.key(data_.keys() + worker->random.below(data_.keys()));
    std::string value;
    const Status status = worker->plain->get(key, &value, worker->late());
    if (status.ok()) return wrong("a lookup of what is nowhere", key);
    return status.IsNotFound() ? Status::OK() : status;
  }
  Status put(Worker* worker) const {
    const std::string key = data_.key(worker->random.below(data_.keys()));
    return worker->plain->put(key, data_.value(key, worker->random.next()), worker->late());
  }
  Status scan(Worker* worker) const {
    const std::string begin = data_.key(worker->random.below(data_.keys()));
    std::vector<std::pair<std::string, std::string>> found;
    BRECCIA_TRY(worker->plain->scan(begin, "", kScanKeys, &found, worker->late()));
    if (found.empty() || found.front().first != begin) return wrong("a range", begin);
    for (const auto& [key, value] : found) {
      if (!data_.is_value(key, value)) return wrong("a range", key);
    }
    return Status::OK();
  }

  // ---- an index that is built anew -------------------------------------------------------------

  /// While clients write; all keys are looked up afterwards.
  Status rebuild(const char* name, Role role) {
    double ceiling = 0;
    BRECCIA_TRY(read_heads(&ceiling));
    const auto begin = Clock::now();
    BRECCIA_TRY(nodes_->begin_rebuild(role));
    for (const auto& worker : workers_) worker->coordinator->change(nodes_->map().encode());
    std::vector<base::Histogram> of_thread(clients_);
    std::atomic<std::int64_t> whole_ns{0};
    BRECCIA_TRY(on_threads(clients_, [&](std::uint32_t t) {
      for (auto now = Clock::now(); whole_ns == 0;) {
        BRECCIA_TRY(put(workers_[t].get()));
        const auto end = Clock::now();
        of_thread[t].record(ns_between(now, end));
        now = end;
        if (nodes_->is_rebuilt()) whole_ns = ns_between(begin, end);
      }
      return Status::OK();
    }));
    base::Histogram writes;
    for (const base::Histogram& one : of_thread) writes.merge(one);
    say_rebuild(name, 1e-9 * static_cast<double>(whole_ns), ceiling, writes);
    return look_at_all();
  }

  /// Keys a second that one thread reads out of memory servers, 1,024 at a time, as who builds an
  /// ordered index does.
  Status read_heads(double* per_sec) const {
    constexpr std::size_t kAtOnce = 1024, kHeadBytes = 128;
    Worker* const worker = workers_.front().get();
    Asking asking(worker->port.get(), kUntilUs / 10);
    MemoryPeers peers(worker->port.get(), &asking, {.meet_us = kUntilUs});
    peers.follow(nodes_->map());
    peers.tend(worker->late());
    std::vector<std::array<std::byte, kHeadBytes>> heads(kAtOnce);
    const auto begin = Clock::now();
    std::uint64_t count = 0;
    double seconds = 0;
    for (; seconds < flags_.seconds / 4; count += kAtOnce) {
      const MemoryPeer* const of =
          peers.find(peers.nodes()[worker->random.below(peers.nodes().size())]);
      if (of == nullptr) return Status::IOError("a memory server cannot be reached");
      std::vector<fabric::Read> reads;
      for (auto& head : heads) {
        const std::uint64_t line = worker->random.below(of->region.bytes / 64 - 2);
        reads.push_back({of->region, 64 * line, head});
      }
      BRECCIA_TRY(worker->port->read(of->peer, reads, worker->late()));
      seconds = 1e-9 * static_cast<double>(ns_between(begin, Clock::now()));
    }
    *per_sec = static_cast<double>(count) / seconds;
    return Status::OK();
  }

  Status look_at_all() const {
    Worker* const worker = workers_.front().get();
    std::string value;
    for (std::uint64_t i = 0; i < data_.keys(); ++i) {
      const std::string key = data_.key(i);
      BRECCIA_TRY(worker->plain->get(key, &value, worker->late()));
      if (!data_.is_value(key, value)) return wrong("a lookup in a new index", key);
    }
    std::vector<std::pair<std::string, std::string>> found;
    std::string at;
    for (std::uint64_t seen = 0; seen < data_.keys(); seen += found.size()) {
      BRECCIA_TRY(worker->plain->scan(at, "", breccia::disagg::kScanMax, &found, worker->late()));
      if (found.empty()) return wrong("ranges of a new index", at);
      at = found.back().first + '\0';
    }
    return Status::OK();
  }

  // ---- rows ------------------------------------------------------------------------------------

  void say() const {
    const auto p50 = [](const Figure& of) {
      return 1e-3 * static_cast<double>(of.ns.percentile(50));
    };
    const double r_us = (p50(*figures_.front()) + p50(*figures_.back())) / 2;
    for (const auto& figure : figures_) say(*figure, p50(*figure), r_us);
    std::fflush(stdout);
  }
  void say(const Figure& of, double p50_us, double r_us) const {
    const auto operations = static_cast<double>(of.ns.count());
    const auto us = [&](double percent) {
      return 1e-3 * static_cast<double>(of.ns.percentile(percent));
    };
    const double cpu_us = 1e6 * of.server_cpu / operations;
    const double reads = static_cast<double>(of.reads) / operations;
    if (!flags_.json) {
      fmt::print(
          "{:<18} {:>2} clients, values of {} B: {:10.0f} op/s, p10 {:.2f} us, p50 {:.2f} us "
          "({:.2f} R), p99 {:.1f} us, {:.3f} reads, {:.3f} us of the hash server\n",
          of.name, clients_, data_.value_bytes(), operations / of.seconds, us(10), p50_us,
          p50_us / r_us, us(99), reads, cpu_us);
      return;
    }
    const nlohmann::json row = {{"benchmark", of.name},
                                {"network", workers_.front()->port->describe()},
                                {"clients", clients_},
                                {"memory_servers", flags_.memory_servers},
                                {"keys", data_.keys()},
                                {"key_size", data_.key(0).size()},
                                {"value_size", data_.value_bytes()},
                                {"fill_percent", nodes_->fill_percent()},
                                {"operations", of.ns.count()},
                                {"seconds", of.seconds},
                                {"ops_per_sec", operations / of.seconds},
                                {"p10_us", us(10)},
                                {"p50_us", p50_us},
                                {"p99_us", us(99)},
                                {"max_us", 1e-3 * static_cast<double>(of.ns.max())},
                                {"r_us", r_us},
                                {"r_units", p50_us / r_us},
                                {"reads_per_op", reads},
                                {"hash_server_cpu_us_per_op", cpu_us},
                                {"seed", seed_},
                                {"machine", machine_name()}};
    fmt::print("{}\n", row.dump());
  }

  void say_rebuild(const char* name, double seconds, double ceiling,
                   const base::Histogram& writes) const {
    const double per_sec = static_cast<double>(data_.keys()) / seconds;
    const auto us = [&](double percent) {
      return 1e-3 * static_cast<double>(writes.percentile(percent));
    };
    if (!flags_.json) {
      fmt::print(
          "{:<22} {:>2} clients: {} keys in {:.3f} s: {:10.0f} keys/s, where {:.0f} can be read; "
          "{} writes meanwhile, p50 {:.1f} us, p99 {:.1f} us\n",
          name, clients_, data_.keys(), seconds, per_sec, ceiling, writes.count(), us(50), us(99));
      return;
    }
    const nlohmann::json row = {{"benchmark", name},
                                {"network", workers_.front()->port->describe()},
                                {"clients", clients_},
                                {"memory_servers", flags_.memory_servers},
                                {"keys", data_.keys()},
                                {"key_size", data_.key(0).size()},
                                {"value_size", data_.value_bytes()},
                                {"seconds", seconds},
                                {"keys_per_sec", per_sec},
                                {"read_keys_per_sec", ceiling},
                                {"writes", writes.count()},
                                {"write_p50_us", us(50)},
                                {"write_p99_us", us(99)},
                                {"seed", seed_},
                                {"machine", machine_name()}};
    fmt::print("{}\n", row.dump());
  }

  const DisaggFlags& flags_;
  const std::uint32_t clients_;
  const Data data_;
  const std::uint64_t seed_;
  std::unique_ptr<Nodes> nodes_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::unique_ptr<Figure>> figures_;
};

}  // namespace

int run_disagg(const DisaggFlags& flags) {
  const auto clients = numbers_of(flags.clients, 256);
  const auto value_sizes = numbers_of(flags.value_sizes, 1U << 16);
  const auto has_less_than = [](const auto& numbers, std::uint32_t least) {
    return numbers.empty() || *std::min_element(numbers.begin(), numbers.end()) < least;
  };
  if (has_less_than(clients, 1) || has_less_than(value_sizes, Data::kValueMin)) {
    console::say(
        "error: --clients wants numbers from 1 to 256, --value_sizes from 32 to 65536; "
        "several with commas");
    return console::kExitUsage;
  }
  if (flags.seconds <= 0) {
    console::say("error: --seconds wants more than none");
    return console::kExitUsage;
  }
  for (std::uint32_t round = 0; round < flags.rounds; ++round) {
    for (const std::uint32_t value_bytes : value_sizes) {
      for (const std::uint32_t count : clients) {
        const Status status = Round(flags, count, value_bytes, flags.seed + round).run();
        if (status.ok()) continue;
        console::say_error("the benchmark did not end", status, "fewer --keys need less memory");
        return console::kExitFailed;
      }
    }
  }
  return console::kExitOk;
}

namespace {

void add_flags(console::App* app, DisaggFlags* flags) {
  app->footer(
      "A hash server, an ordered server and memory servers run in this process, a thread each, "
      "and\n"
      "clients beside them, over shared memory and sockets. fabric_read64 is R, a plain read of "
      "64\n"
      "bytes, before and behind all others; fabric_get looks keys up in the index,\n"
      "fabric_get_cached where their values were; fabric_put writes values anew; fabric_scan100\n"
      "reads 100 keys in their order; fabric_rebuild_hash and fabric_rebuild_ordered build an "
      "index\n"
      "anew from the other one while clients write. reads are those of servers' memory, for each "
      "operation.");
  app->add_option("--keys", flags->keys, "Keys of 16 bytes")
      ->range(kScanKeys, 1ULL << 30)
      ->capture_default_str();
  app->add_option("--value_sizes", flags->value_sizes, "Bytes of a value; several with commas")
      ->capture_default_str();
  app->add_option("--clients", flags->clients, "Clients, a thread each; several with commas")
      ->capture_default_str();
  app->add_option("--memory_servers", flags->memory_servers, "Servers that values lie in")
      ->range(1, 16)
      ->capture_default_str();
  app->add_option("--seconds", flags->seconds, "Seconds of each figure")->capture_default_str();
  app->add_option("--rounds", flags->rounds, "How often, each with new keys")
      ->capture_default_str();
  app->add_option("--seed", flags->seed, "Seed of the first round")->capture_default_str();
  app->add_flag("--json", flags->json, "Print one JSON object a line");
}

}  // namespace

}  // namespace breccia::bench::disagg

namespace breccia::bench {

console::Command add_bench_disagg(console::App* parent) {
  auto flags = std::make_shared<disagg::DisaggFlags>();
  console::App* app =
      parent->add_subcommand("disagg", "Measure a disaggregated store on this computer");
  disagg::add_flags(app, flags.get());
  return {app, [flags] { return disagg::run_disagg(*flags); }};
}

}  // namespace breccia::bench
