#include "bench/disagg/nodes.h"

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
/// Values that were replaced rest, so blocks are more than keys: what some 800,000 writes a
/// second leave in the time that it takes.
constexpr std::uint64_t kResting = 1 << 18;

}  // namespace

Result<std::unique_ptr<Nodes>> Nodes::start(const Options& options) {
  std::unique_ptr<Nodes> nodes(new Nodes(options));
  BRECCIA_TRY(nodes->make());
  return nodes;
}

Nodes::~Nodes() {
  for (const auto& one : memory_threads_) stop(one.get());
  stop(ordered_thread_.get());
  stop(hash_thread_.get());
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
  map_.shards.resize(1);
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
    BRECCIA_TAKE(auto server, MemoryServer::make(ports_.back().get(), options));
    memory_.push_back(std::move(server));
    map_.memory.push_back({.node = node,
                           .member = options.member,
                           .address = ports_.back()->address(),
                           .bytes = options.bytes,
                           .is_in_use = true,
                           .is_lost = false,
                           .mirror = {}});
  }
  // Seven tenths full at most.
  bucket_bits_ =
      static_cast<std::uint32_t>(std::bit_width(options_.keys * 10 / (7 * Bucket::kSlots)));
  BRECCIA_TRY(make_indexes());
  map_.shards[0].hash.is_whole = true;
  map_.shards[0].has_begun = true;
  return serve_all();
}

Status Nodes::make_indexes() {
  if (!has_hash(options_.indexes)) {
    BRECCIA_TAKE(auto port, open_port());
    BRECCIA_TAKE(alone_, OrderedAlone::make(port.get(), options_.keys));
    map_.shards[0].ordered =
        map_.shards[0].hash = {.member = port->address(), .address = port->address()};
    ports_.push_back(std::move(port));
    return Status::OK();
  }
  if (has_order(options_.indexes)) {
    BRECCIA_TAKE(ordered_, make_ordered_server());
  }
  BRECCIA_TAKE(hash_, make_hash_server());
  hash_->be_first();
  return Status::OK();
}

Result<std::unique_ptr<OrderedServer>> Nodes::make_ordered_server() {
  BRECCIA_TAKE(auto port, open_port());
  OrderedServer::Options options;
  options.keeps_step = options_.indexes == Indexes::kInStep;
  auto server = std::make_unique<OrderedServer>(port.get(), options);
  map_.shards[0].ordered = {.member = port->address(), .address = port->address()};
  ports_.push_back(std::move(port));
  return server;
}

Result<std::unique_ptr<HashServer>> Nodes::make_hash_server() {
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
  map_.shards[0].hash = {.member = port->address(), .address = port->address()};
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
  stop(hash_thread_.get());
  meanwhile();
  hash_thread_ = serve_index(hash_.get());
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
  IndexServer* const hash = hash_.get();
  IndexServer* const ordered = alone_ != nullptr ? static_cast<IndexServer*>(alone_.get())
                                                 : static_cast<IndexServer*>(ordered_.get());
  for (IndexServer* const server : {ordered, hash}) {
    if (server == nullptr) continue;
    BRECCIA_TRY(server->follow(map_, 0));
    server->trust_until(std::numeric_limits<TimeUs>::max());
  }
  if (ordered != nullptr) ordered_thread_ = serve_index(ordered);
  if (hash != nullptr) hash_thread_ = serve_index(hash);
  return Status::OK();
}

/// The memory of the one that is lost is free before the other one takes as much.
Status Nodes::lose(Role role) {
  for (const auto& one : memory_threads_) stop(one.get());
  stop(ordered_thread_.get());
  stop(hash_thread_.get());
  map_.shards[0].hash.is_whole = map_.shards[0].ordered.is_whole = true;
  if (role == Role::kHash) {
    hash_.reset();
    BRECCIA_TAKE(hash_, make_hash_server());
  } else {
    ordered_.reset();
    BRECCIA_TAKE(ordered_, make_ordered_server());
  }
  return Status::OK();
}

double Nodes::fill_percent(std::uint64_t keys) const {
  const std::uint64_t slots = std::uint64_t{Bucket::kSlots} << bucket_bits_;
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
  return {.hash = of(hash_thread_.get()), .ordered = of(ordered_thread_.get())};
}

}  // namespace breccia::bench::disagg
