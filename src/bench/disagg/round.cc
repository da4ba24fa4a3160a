#include "bench/disagg/round.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "bench/disagg/gathering.h"
#include "bench/disagg/phases.h"
#include "bench/places.h"
#include "console/console.h"
#include "disagg/asking.h"
#include "disagg/block.h"

namespace breccia::bench::disagg {

using breccia::disagg::Ask;
using breccia::disagg::Asking;
using breccia::disagg::Role;
using breccia::disagg::TableInfo;

namespace {

constexpr std::uint32_t kScanKeys = 100;

}  // namespace

Round::Round(const DisaggFlags& flags, const RoundOptions& options)
    : flags_(flags),
      options_(options),
      data_(flags.keys, options.value_bytes, base::mix64(options.seed)),
      all_keys_(data_, workers_, flags.progress || console::stderr_is_terminal()) {}

Round::~Round() {
  workers_.clear();
  nodes_.reset();
}

Status Round::run(Reference* reference) {
  // Sockets alone lie there, so each process has its own.
  const Place place{fmt::format("{}-disagg-{}", default_folder(), getpid()), ""};
  BRECCIA_TRY(make_fresh(place));
  Status status = run_in(place.db, reference);
  workers_.clear();
  nodes_.reset();
  const Status removed = remove_marked(place);
  return status.ok() ? removed : status;
}

Status Round::run_in(const std::string& folder, Reference* reference) {
  const std::uint64_t block_bytes =
      breccia::disagg::block_bytes(data_.key(0).size(), data_.value_bytes());
  breccia::disagg::ClusterConfig network = options_.network;
  if (network.transport == "local") network.ports = folder;
  BRECCIA_TAKE(nodes_, Nodes::start({.network = network,
                                     .keys = data_.keys() + inserts_max(),
                                     .block_bytes = block_bytes,
                                     .memory_servers = flags_.memory_servers,
                                     .keep = flags_.keep,
                                     .shards = flags_.shards,
                                     .indexes = options_.indexes,
                                     .hash_watch = options_.is_watched ? &hash_watch_ : nullptr,
                                     .seed = options_.seed}));
  for (std::uint32_t i = 0; i < options_.clients; ++i) BRECCIA_TRY(add_worker(i));
  for (const auto& worker : workers_) versions_.push_back(worker->versions.get());
  setting_ = {.json = flags_.json,
              .network = workers_.front()->port->describe(),
              .indexes = options_.indexes_name,
              .clients = options_.clients,
              .memory_servers = flags_.memory_servers,
              .shards = flags_.shards,
              .is_kept = !flags_.keep.empty(),
              .keys = data_.keys(),
              .key_bytes = data_.key(0).size(),
              .value_bytes = data_.value_bytes(),
              .fill_percent = nodes_->fill_percent(data_.keys()),
              .seed = options_.seed};
  BRECCIA_TRY(fill());
  if (options_.is_watched) return measure_phases();
  BRECCIA_TRY(measure("fabric_read64", [this](Worker* w) { return read_64(w); }));
  if (wants("basic")) BRECCIA_TRY(measure_basic());
  if (wants("batches") && has_hash(options_.indexes)) BRECCIA_TRY(measure_batches());
  for (const std::string& workload : options_.workloads) {
    if (workload.size() == 1) BRECCIA_TRY(measure_ycsb(workload[0]));
  }
  BRECCIA_TRY(measure("fabric_read64", [this](Worker* w) { return read_64(w); }));
  say_all(reference);
  if (options_.indexes != Indexes::kBoth) return Status::OK();
  if (wants("rebuild")) BRECCIA_TRY(measure_rebuilds());
  if (!wants("rebuild_reads")) return Status::OK();
  BRECCIA_TRY(measure_reads_without(Role::kHash));
  return measure_reads_without(Role::kOrdered);
}

bool Round::wants(const char* workload) const {
  return std::find(options_.workloads.begin(), options_.workloads.end(), workload) !=
         options_.workloads.end();
}

bool Round::wants_ycsb() const {
  return std::any_of(options_.workloads.begin(), options_.workloads.end(),
                     [](const std::string& workload) { return workload.size() == 1; });
}

/// Places of all keys take memory, and time to be remembered.
bool Round::remembers() const { return wants("basic") || wants("batches") || wants_ycsb(); }

Status Round::add_worker(std::uint32_t number) {
  auto worker = std::make_unique<Worker>();
  worker->number = number;
  BRECCIA_TAKE(worker->port, nodes_->open_port());
  watches_.push_back(std::make_unique<Watch>(1 << 18));
  if (options_.is_watched) {
    worker->port = std::make_unique<WatchedPort>(std::move(worker->port), watches_.back().get());
  }
  worker->coordinator = std::make_unique<breccia::disagg::FixedCoordinator>(nodes_->map().encode());
  worker->random = base::Random(base::mix64(options_.seed) + number);
  worker->versions = std::make_unique<Versions>(number, wants_ycsb() ? data_.keys() : 0);
  WayOptions options;
  options.seed = base::mix64(options_.seed + number);
  BRECCIA_TAKE(worker->plain, open_way(options_.indexes, worker->port.get(),
                                       worker->coordinator.get(), options, worker->late()));
  if (remembers()) {
    options.seed += 1;
    options.remembered = 4 * data_.keys();
    BRECCIA_TAKE(worker->remembering, open_way(options_.indexes, worker->port.get(),
                                               worker->coordinator.get(), options, worker->late()));
  }
  BRECCIA_TAKE(worker->index_server,
               worker->port->connect(nodes_->map().shards[0].hash.address, worker->late()));
  Asking asking(worker->port.get(), Worker::kUntilUs / 100);
  asking.set_epoch(nodes_->map().epoch);
  BRECCIA_TAKE(const auto told, asking.ask(worker->index_server, Ask::kTable, {}, worker->late()));
  worker->table = breccia::disagg::WireReader(told).take<TableInfo>();
  workers_.push_back(std::move(worker));
  return Status::OK();
}

/// Puts all keys, and has each client that remembers places look at all of them.
Status Round::fill() {
  const Nodes::Cpu before = nodes_->index_cpu();
  const auto begin = Clock::now();
  BRECCIA_TRY(all_keys_.put());
  const Nodes::Cpu cpu = nodes_->index_cpu();
  say(setting_,
      Filling{.seconds = 1e-9 * static_cast<double>(ns_between(begin, Clock::now())),
              .cpu = {.hash = cpu.hash - before.hash, .ordered = cpu.ordered - before.ordered}});
  std::fflush(stdout);
  return remembers() ? all_keys_.remember() : Status::OK();
}

// ---- measuring ----------------------------------------------------------------------------------

/// A figure of all operations, called `name`, and one of each part, if there are several, called
/// by its name, too.
Status Round::measure(const std::string& name, const std::vector<std::string>& parts,
                      const Operation& operation, const GoesOn& goes_on, Figures* figures) {
  using OfParts = std::vector<std::unique_ptr<base::Histogram>>;
  std::vector<OfParts> of_thread(options_.clients);
  for (OfParts& one : of_thread) {
    std::generate_n(std::back_inserter(one), parts.size(),
                    [] { return std::make_unique<base::Histogram>(); });
  }
  const std::uint64_t reads = reads_so_far();
  const Nodes::Cpu before = nodes_->index_cpu();
  const auto begin = Clock::now();
  BRECCIA_TRY(on_threads(options_.clients, [&](std::uint32_t t) {
    Worker* const worker = workers_[t].get();
    auto now = Clock::now();
    do {
      std::size_t part = 0;
      BRECCIA_TRY(operation(worker, &part));
      if (part == kNoMore) break;
      const auto end = Clock::now();
      if (part != kLeftOut) of_thread[t][part]->record(ns_between(now, end));
      now = end;
    } while (goes_on(now));
    return Status::OK();
  }));
  const double seconds = 1e-9 * static_cast<double>(ns_between(begin, Clock::now()));
  const Nodes::Cpu cpu = nodes_->index_cpu();
  auto all = std::make_unique<Figure>();
  all->name = name;
  all->work = {.reads = reads_so_far() - reads,
               .cpu = {.hash = cpu.hash - before.hash, .ordered = cpu.ordered - before.ordered}};
  Figures of_parts;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    of_parts.push_back(std::make_unique<Figure>());
    of_parts.back()->name = name + "_" + parts[i];
    for (const OfParts& one : of_thread) of_parts.back()->ns.merge(*one[i]);
    all->ns.merge(of_parts.back()->ns);
  }
  all->seconds = seconds;
  figures->push_back(std::move(all));
  for (auto& part : of_parts) {
    part->seconds = seconds;
    if (parts.size() > 1 && part->ns.count() > 0) figures->push_back(std::move(part));
  }
  return Status::OK();
}

Status Round::measure(const std::string& name, const std::function<Status(Worker*)>& operation) {
  const auto begin = Clock::now();
  const auto goes_on = [this, begin](Clock::time_point now) {
    return 1e-9 * static_cast<double>(ns_between(begin, now)) < flags_.seconds;
  };
  return measure(
      name, {""}, [&](Worker* worker, std::size_t*) { return operation(worker); }, goes_on,
      &figures_);
}

Status Round::measure_basic() {
  BRECCIA_TRY(measure("fabric_get", [this](Worker* w) { return get(w, w->plain.get()); }));
  if (options_.indexes != Indexes::kOrdered) {
    BRECCIA_TRY(
        measure("fabric_get_cached", [this](Worker* w) { return get(w, w->remembering.get()); }));
  }
  BRECCIA_TRY(measure("fabric_miss", [this](Worker* w) { return miss(w); }));
  BRECCIA_TRY(measure("fabric_put", [this](Worker* w) { return put(w); }));
  if (!has_order(options_.indexes)) return Status::OK();
  return measure("fabric_scan100", [this](Worker* w) { return scan(w); });
}

/// Each time is of a whole batch, and figures are of each of its keys. What was put before is not
/// where clients remember it, so they look at all once more.
Status Round::measure_batches() {
  BRECCIA_TRY(all_keys_.remember());
  constexpr std::array<std::uint32_t, 2> kSizes = {32, 256};
  const auto measure_all = [&](const char* name, const auto& operation) -> Status {
    for (const std::uint32_t size : kSizes) {
      BRECCIA_TRY(measure(fmt::format(fmt::runtime(name), size),
                          [&](Worker* worker) { return operation(worker, size); }));
      figures_.back()->batch = size;
    }
    return Status::OK();
  };
  BRECCIA_TRY(measure_all("fabric_multiget{}", [this](Worker* w, std::uint32_t size) {
    return get_batch(w, w->plain.get(), size);
  }));
  BRECCIA_TRY(measure_all("fabric_multiget{}_cached", [this](Worker* w, std::uint32_t size) {
    return get_batch(w, w->remembering.get(), size);
  }));
  return measure_all("fabric_multiput{}",
                     [this](Worker* w, std::uint32_t size) { return put_batch(w, size); });
}

// ---- phases -------------------------------------------------------------------------------------

/// Beside R, as of all.
Status Round::measure_phases() {
  BRECCIA_TRY(measure("fabric_read64", [this](Worker* w) { return read_64(w); }));
  const std::array<std::pair<const char*, std::function<Status(Worker*)>>, 3> all = {
      {{"fabric_get_phase", [this](Worker* w) { return get(w, w->plain.get()); }},
       {"fabric_put_phase", [this](Worker* w) { return put(w); }},
       {"fabric_scan100_phase", [this](Worker* w) { return scan(w); }}}};
  for (const auto& [name, operation] : all) BRECCIA_TRY(watch(name, operation));
  r_us_ = figures_.front()->us(50);
  for (std::size_t i = 1; i < figures_.size(); ++i) say(setting_, *figures_[i], r_us_, nullptr);
  std::fflush(stdout);
  return Status::OK();
}

Status Round::watch(const char* name, const std::function<Status(Worker*)>& operation) {
  const auto turn = [this](bool on) {
    hash_watch_.is_on = on;
    for (const auto& one : watches_) one->is_on = on;
  };
  turn(true);
  BRECCIA_TRY(measure(name, [&](Worker* worker) {
    Watch* const watch = watches_[worker->number].get();
    watch->note(Event::Kind::kBegin);
    BRECCIA_TRY(operation(worker));
    watch->note(Event::Kind::kEnd);
    return Status::OK();
  }));
  turn(false);
  const std::string kind(name);
  const double seconds = figures_.back()->seconds;
  Watches clients;
  for (const auto& one : watches_) clients.push_back(one.get());
  nodes_->let_hash_server_pause([&] {
    const Phases phases = kind == "fabric_put_phase"   ? phases_of_puts(clients, hash_watch_)
                          : kind == "fabric_get_phase" ? phases_of_gets(clients)
                                                       : phases_of_scans(clients);
    for (auto& figure : figures_of(phases, kind, seconds)) figures_.push_back(std::move(figure));
    hash_watch_.events.clear();
    for (const auto& one : watches_) one->events.clear();
  });
  return Status::OK();
}

// ---- YCSB ---------------------------------------------------------------------------------------

/// By clients that remember nothing, and by those that do, where there is something to remember.
Status Round::measure_ycsb(char letter) {
  if (Ycsb::has_ranges(letter) && !has_order(options_.indexes)) return Status::OK();
  for (const bool remembers : {false, true}) {
    if (remembers && options_.indexes == Indexes::kOrdered) continue;
    Ycsb ycsb(letter, data_, options_.clients, flags_.requests, options_.seed + letter);
    const auto way_of = [remembers](Worker* worker) {
      return remembers ? worker->remembering.get() : worker->plain.get();
    };
    BRECCIA_TRY(on_threads(options_.clients, [&](std::uint32_t t) {
      ycsb.choose(t);
      return Status::OK();
    }));
    const auto begin = Clock::now();
    const auto goes_on = [this, begin](Clock::time_point now) {
      return 1e-9 * static_cast<double>(ns_between(begin, now)) < flags_.seconds;
    };
    const auto step = [&](Worker* worker, std::size_t* part) {
      return ycsb.step(worker, way_of(worker), versions_, part);
    };
    const std::string name = fmt::format("fabric_ycsb_{}{}", letter, remembers ? "_cached" : "");
    BRECCIA_TRY(measure(name, ycsb.parts(), step, goes_on, &figures_));
    BRECCIA_TRY(on_threads(options_.clients, [&](std::uint32_t t) {
      return ycsb.clean(workers_[t].get(), workers_[t]->plain.get());
    }));
  }
  return Status::OK();
}

std::uint64_t Round::reads_so_far() const {
  std::uint64_t reads = 0;
  for (const auto& worker : workers_) {
    reads += worker->plain->reads() + worker->reads;
    if (worker->remembering != nullptr) reads += worker->remembering->reads();
  }
  return reads;
}

std::uint64_t Round::inserts_max() const {
  std::uint64_t most = 0;
  for (const std::string& workload : options_.workloads) {
    if (workload.size() != 1) continue;
    most = std::max(most, Ycsb::inserts_max(workload[0], options_.clients, flags_.requests));
  }
  return most;
}

// ---- operations ---------------------------------------------------------------------------------

Status Round::read_64(Worker* worker) const {
  std::array<std::byte, 64> bytes;
  const std::uint64_t lines = worker->table.region.bytes / bytes.size();
  const fabric::Read read{worker->table.region, worker->random.below(lines) * bytes.size(), bytes};
  ++worker->reads;
  return worker->port->read(worker->index_server, {&read, 1}, worker->late());
}

Status Round::get(Worker* worker, Way* way) const {
  const std::string key = data_.key(worker->random.below(data_.keys()));
  std::string value;
  BRECCIA_TRY(way->get(key, &value, worker->late()));
  return data_.is_value(key, value) ? Status::OK() : wrong_answer("a lookup", key);
}

Status Round::miss(Worker* worker) const {
  const std::string key = data_.key(data_.keys() + worker->random.below(data_.keys()));
  std::string value;
  const Status status = worker->plain->get(key, &value, worker->late());
  if (status.ok()) return wrong_answer("a lookup of what is nowhere", key);
  return status.IsNotFound() ? Status::OK() : status;
}

Status Round::put(Worker* worker) const {
  const std::uint64_t record = worker->random.below(data_.keys());
  const std::string key = data_.key(record);
  const std::uint64_t version = worker->versions->begin_write(record);
  return worker->plain->put(key, data_.value(key, version), worker->late());
}

Status Round::scan(Worker* worker) const {
  const std::string begin = data_.key(worker->random.below(data_.keys()));
  Way::Pairs& found = worker->found;
  BRECCIA_TRY(worker->plain->scan(begin, kScanKeys, &found, worker->late()));
  if (found.empty() || found.front().first != begin) return wrong_answer("a range", begin);
  for (const auto& [key, value] : found) {
    if (!data_.is_value(key, value)) return wrong_answer("a range", key);
  }
  return Status::OK();
}

Status Round::get_batch(Worker* worker, Way* way, std::uint32_t size) const {
  std::vector<std::string> keys, values;
  for (std::uint32_t i = 0; i < size; ++i) {
    keys.push_back(data_.key(worker->random.below(data_.keys())));
  }
  BRECCIA_TRY(way->get_all(keys, &values, worker->late()));
  for (std::uint32_t i = 0; i < size; ++i) {
    if (!data_.is_value(keys[i], values[i])) return wrong_answer("a lookup of many", keys[i]);
  }
  return Status::OK();
}

Status Round::put_batch(Worker* worker, std::uint32_t size) const {
  Way::Pairs pairs;
  for (std::uint32_t i = 0; i < size; ++i) {
    const std::uint64_t record = worker->random.below(data_.keys());
    std::string key = data_.key(record);
    std::string value = data_.value(key, worker->versions->begin_write(record));
    pairs.emplace_back(std::move(key), std::move(value));
  }
  return worker->plain->put_all(pairs, worker->late());
}

// ---- an index that is built anew ----------------------------------------------------------------

/// Each index, while clients write: what a store does that has lost it.
Status Round::measure_rebuilds() {
  const Operation puts = [this](Worker* w, std::size_t*) { return put(w); };
  for (const auto& [role, name] : {std::pair{Role::kHash, "hash"}, {Role::kOrdered, "ordered"}}) {
    Rebuild anew{.name = fmt::format("fabric_rebuild_{}", name)};
    std::unique_ptr<Figure> figure;
    BRECCIA_TAKE(anew.read_keys_per_sec,
                 keys_gathered_per_sec(workers_.front().get(), nodes_->map(), flags_.seconds / 4));
    BRECCIA_TRY(rebuild(role, fmt::format("fabric_put_no_{}", name), puts, &anew.seconds, &figure));
    say(setting_, anew, *figure);
    say(setting_, *figure, r_us_, nullptr);
    std::fflush(stdout);
  }
  return Status::OK();
}

/// The same while clients read; ranges wait for a lost ordered index.
Status Round::measure_reads_without(Role lost) {
  // Behind the moment at which the index is whole, and before that is seen, there are some more.
  const Operation gets_in_order = [this](Worker* w, std::size_t* part) {
    const std::uint64_t before = w->plain->gets_in_order();
    Status status = get(w, w->plain.get());
    if (w->plain->gets_in_order() == before) *part = kLeftOut;
    return status;
  };
  const Operation gets = [this](Worker* w, std::size_t*) { return get(w, w->plain.get()); };
  const Operation scans = [this](Worker* w, std::size_t*) { return scan(w); };
  std::vector<std::pair<const char*, const Operation*>> all = {{"fabric_get_no_ordered", &gets}};
  if (lost == Role::kHash) {
    all = {{"fabric_get_no_hash", &gets_in_order}, {"fabric_scan100_no_hash", &scans}};
  }
  for (const auto& [name, operation] : all) {
    double seconds = 0;
    std::unique_ptr<Figure> figure;
    BRECCIA_TRY(rebuild(lost, name, *operation, &seconds, &figure));
    if (figure->ns.count() > 0) say(setting_, *figure, r_us_, nullptr);
    std::fflush(stdout);
  }
  return Status::OK();
}

/// What the new index has is looked at afterwards.
Status Round::rebuild(Role role, const std::string& name, const Operation& operation,
                      double* seconds, std::unique_ptr<Figure>* figure) {
  BRECCIA_TRY(nodes_->lose(role));
  const auto begin = Clock::now();
  BRECCIA_TRY(nodes_->begin_rebuild());
  for (const auto& worker : workers_) worker->coordinator->change(nodes_->map().encode());
  std::atomic<std::uint64_t> whole_ns{0};
  const auto goes_on = [&](Clock::time_point now) {
    if (nodes_->is_rebuilt() && whole_ns == 0) whole_ns = ns_between(begin, now);
    return whole_ns == 0;
  };
  Figures figures;
  BRECCIA_TRY(measure(name, {""}, operation, goes_on, &figures));
  *seconds = 1e-9 * static_cast<double>(whole_ns);
  *figure = std::move(figures.front());
  return role == Role::kHash ? all_keys_.look_up() : all_keys_.range_over();
}

// ---- rows ---------------------------------------------------------------------------------------

void Round::say_all(Reference* reference) {
  r_us_ = (figures_.front()->us(50) + figures_.back()->us(50)) / 2;
  const bool is_both = options_.indexes == Indexes::kBoth;
  for (const auto& figure : figures_) {
    say(setting_, *figure, r_us_, is_both ? nullptr : reference);
    if (is_both) (*reference)[figure->name] = figure->per_sec();
  }
  std::fflush(stdout);
}

}  // namespace breccia::bench::disagg
