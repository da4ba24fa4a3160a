#include "bench/disagg/nodes.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <bit>
#include <ctime>
#include <limits>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/random.h"
#include "disagg/memory/pool.h"

namespace breccia::bench::disagg {

namespace {

using namespace breccia::disagg;
using fabric::TimeUs;

/// Between two looks at whether it is over.
constexpr TimeUs kTurnUs = 20'000;
/// The same while an index is built, so that it is seen when that is over.
constexpr TimeUs kBuildTurnUs = 500;
/// Values that were replaced rest, so blocks are more than keys: what some 1,600,000 writes a
/// second leave in the time that it takes.
constexpr std::uint64_t kResting = 1 << 19;

}  // namespace

Result<std::unique_ptr<Nodes>> Nodes::start(const Options& options) {
  std::unique_ptr<Nodes> nodes(new Nodes(options));
  BRECCIA_TRY(nodes->make());
  return nodes;
}

Nodes::~Nodes() {
  for (const auto& one : memory_threads_) stop(one.get());
  for (const Pair& one : pairs_) {
    stop(one.ordered_thread.get());
    stop(one.hash_thread.get());
  }
  memory_.clear();
  for (const auto& file : files_) (void)file->remove();
}

void Nodes::stop(Served* served) {
  if (served == nullptr || !served->thread.joinable()) return;
  served->is_over = true;
  served->thread.join();
}

Result<std::unique_ptr<fabric::Port>> Nodes::open_port() {
  return options_.network.open_port(std::to_string(next_port_++));
}

std::unique_ptr<Nodes::Served> Nodes::serve(const std::function<Status(TimeUs until)>& once) {
  auto served = std::make_unique<Served>();
  served->thread = std::thread([once, of = served.get(), clock = ports_.back().get()] {
    while (!of->is_over) {
      const Status status = once(clock->now_us() + kTurnUs);
      if (status.ok()) continue;
      log(LogLevel::kError, "a server ended: " + status.ToString());
      return;
    }
  });
  return served;
}

Status Nodes::make() {
  // Of other numbers than hash tables' seeds, or each would have keys in a part of its chains
  // alone.
  base::Random random(~options_.seed);
  map_.placement_seed = {.start = random.next(), .factor = random.next() | 1};
  map_.shards.resize(options_.shards);
  pairs_.resize(options_.shards);
  const std::uint64_t lines = lines_of(class_of(options_.block_bytes));
  const std::uint64_t bytes =
      (options_.keys + kResting) * lines * kLineBytes / options_.memory_servers;
  const std::uint64_t chunk = Pool::kChunkLines * kLineBytes;
  for (std::uint32_t node = 0; node < options_.memory_servers; ++node) {
    BRECCIA_TAKE(auto port, open_port());
    ports_.push_back(std::move(port));
    MemoryServer::Options options;
    options.member = ports_.back()->address();
    options.bytes = (bytes / chunk + 2) * chunk;
    if (!options_.keep.empty()) {
      files_.push_back(medium_in_file(fmt::format("{}/bench-values-{}", options_.keep, node)));
      BRECCIA_TRY(files_.back()->remove());
      options.place = files_.back().get();
    }
    BRECCIA_TAKE(auto server, MemoryServer::make(ports_.back().get(), options));
    const std::string medium = server->medium() == nullptr ? "" : server->medium()->id();
    memory_.push_back(std::move(server));
    map_.memory.push_back({.node = node,
                           .member = options.member,
                           .address = ports_.back()->address(),
                           .bytes = options.bytes,
                           .is_in_use = true,
                           .is_lost = false,
                           .mirror = {},
                           .medium = medium});
  }
  // Seven tenths full at most.
  const std::uint64_t keys = options_.keys / options_.shards;
  bucket_bits_ = static_cast<std::uint32_t>(std::bit_width(keys * 10 / (7 * Bucket::kSlots)));
  BRECCIA_TRY(make_indexes());
  for (ClusterMap::Shard& one : map_.shards) one.hash.is_whole = one.has_begun = true;
  return serve_all();
}

Status Nodes::make_indexes() {
  if (!has_hash(options_.indexes)) return make_alone();
  for (std::uint32_t shard = 0; shard < options_.shards; ++shard) {
    Pair& pair = pairs_[shard];
    if (has_order(options_.indexes)) {
      BRECCIA_TAKE(pair.ordered, make_ordered_server(shard));
    }
    BRECCIA_TAKE(pair.hash, make_hash_server(shard));
    pair.hash->be_first();
  }
  return Status::OK();
}

Status Nodes::make_alone() {
  BRECCIA_ASSERT(options_.shards == 1);
  BRECCIA_TAKE(auto port, open_port());
  BRECCIA_TAKE(alone_, OrderedAlone::make(port.get(), options_.keys));
  ClusterMap::Shard& shard = map_.shards[0];
  shard.ordered = shard.hash = {.member = port->address(), .address = port->address()};
  ports_.push_back(std::move(port));
  return Status::OK();
}

Result<std::unique_ptr<OrderedServer>> Nodes::make_ordered_server(std::uint32_t shard) {
  BRECCIA_TAKE(auto port, open_port());
  OrderedServer::Options options;
  options.keeps_step = options_.indexes == Indexes::kInStep;
  auto server = std::make_unique<OrderedServer>(port.get(), options);
  map_.shards[shard].ordered = {.member = port->address(), .address = port->address()};
  ports_.push_back(std::move(port));
  return server;
}

Result<std::unique_ptr<HashServer>> Nodes::make_hash_server(std::uint32_t shard) {
  BRECCIA_TAKE(auto port, open_port());
  if (options_.hash_watch != nullptr) {
    port = std::make_unique<WatchedPort>(std::move(port), options_.hash_watch);
  }
  base::Random random(options_.seed);
  HashServer::Options options;
  // It does not grow while it is measured.
  options.table.bucket_bits = options.table.bucket_bits_max = bucket_bits_;
  options.table.more_buckets = std::max(1U << bucket_bits_ >> 2, 64U);
  options.is_alone = options_.indexes == Indexes::kHash;
  options.seeds = KeySeeds{.hash = {random.next(), random.next() | 1},
                           .proof = {random.next(), random.next() | 1}};
  BRECCIA_TAKE(auto server, HashServer::make(port.get(), options));
  map_.shards[shard].hash = {.member = port->address(), .address = port->address()};
  ports_.push_back(std::move(port));
  return server;
}

std::unique_ptr<Nodes::Served> Nodes::serve_index(IndexServer* server) {
  return serve([this, server, is_built = !server->is_whole()](TimeUs until) {
    const bool goes_on = is_built && !server->is_whole();
    Status served = server->serve(goes_on ? until - kTurnUs + kBuildTurnUs : until);
    if (is_built && server->is_whole()) is_rebuilt_ = true;
    return served;
  });
}

void Nodes::let_hash_server_pause(const std::function<void()>& meanwhile) {
  Pair& pair = pairs_[0];
  stop(pair.hash_thread.get());
  meanwhile();
  pair.hash_thread = serve_index(pair.hash.get());
}

/// With the map as it is now; the epoch is the next one.
Status Nodes::serve_all() {
  ++map_.epoch;
  is_rebuilt_ = false;
  memory_threads_.clear();
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    BRECCIA_TRY(memory_[i]->follow(map_));
    memory_threads_.push_back(serve([server = memory_[i].get()](TimeUs until) {
      server->serve(until);
      return Status::OK();
    }));
  }
  for (std::uint32_t shard = 0; shard < options_.shards; ++shard) BRECCIA_TRY(serve_shard(shard));
  return Status::OK();
}

Status Nodes::serve_shard(std::uint32_t shard) {
  Pair& pair = pairs_[shard];
  IndexServer* const hash = pair.hash.get();
  IndexServer* const ordered = alone_ != nullptr ? static_cast<IndexServer*>(alone_.get())
                                                 : static_cast<IndexServer*>(pair.ordered.get());
  for (IndexServer* const server : {ordered, hash}) {
    if (server == nullptr) continue;
    BRECCIA_TRY(server->follow(map_, shard));
    server->trust_until(std::numeric_limits<TimeUs>::max());
  }
  if (ordered != nullptr) pair.ordered_thread = serve_index(ordered);
  if (hash != nullptr) pair.hash_thread = serve_index(hash);
  return Status::OK();
}

/// The memory of the one that is lost is free before the other one takes as much.
Status Nodes::lose(Role role) {
  BRECCIA_ASSERT(options_.shards == 1);
  Pair& pair = pairs_[0];
  for (const auto& one : memory_threads_) stop(one.get());
  stop(pair.ordered_thread.get());
  stop(pair.hash_thread.get());
  map_.shards[0].hash.is_whole = map_.shards[0].ordered.is_whole = true;
  if (role == Role::kHash) {
    pair.hash.reset();
    BRECCIA_TAKE(pair.hash, make_hash_server(0));
  } else {
    pair.ordered.reset();
    BRECCIA_TAKE(pair.ordered, make_ordered_server(0));
  }
  return Status::OK();
}

double Nodes::fill_percent(std::uint64_t keys) const {
  const std::uint64_t slots = options_.shards * (std::uint64_t{Bucket::kSlots} << bucket_bits_);
  return 100 * static_cast<double>(keys) / static_cast<double>(slots);
}

Nodes::Cpu Nodes::index_cpu() const {
  const auto of = [](Served* served) {
    clockid_t clock{};
    timespec time{};
    if (served == nullptr) return 0.0;
    if (pthread_getcpuclockid(served->thread.native_handle(), &clock) != 0) return 0.0;
    if (clock_gettime(clock, &time) != 0) return 0.0;
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  Cpu all;
  for (const Pair& one : pairs_) {
    all.hash += of(one.hash_thread.get());
    all.ordered += of(one.ordered_thread.get());
  }
  return all;
}

}  // namespace breccia::bench::disagg
