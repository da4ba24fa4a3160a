#include "bench/disagg/nodes.h"

#include <algorithm>
#include <bit>
#include <ctime>
#include <limits>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/random.h"
#include "disagg/pool.h"

namespace breccia::bench::disagg {

namespace {

using namespace breccia::disagg;
using fabric::TimeUs;

/// Between two looks at whether it is over.
constexpr TimeUs kTurnUs = 20'000;
/// Values that were replaced rest, so blocks are more than keys: what some 27,000 writes a second
/// leave in the time that it takes.
constexpr std::uint64_t kResting = 8192;

}  // namespace

Result<std::unique_ptr<Nodes>> Nodes::start(const Options& options) {
  std::unique_ptr<Nodes> nodes(new Nodes(options));
  BRECCIA_TRY(nodes->make());
  return nodes;
}

Nodes::~Nodes() {
  is_over_ = true;
  for (std::thread& thread : threads_) thread.join();
}

Result<std::unique_ptr<fabric::Port>> Nodes::open_port() {
  const std::string path = options_.folder + "/" + std::to_string(next_port_++);
  BRECCIA_TAKE(auto port, fabric::local::LocalPort::open(path));
  return std::unique_ptr<fabric::Port>(std::move(port));
}

void Nodes::serve(const std::function<Status(TimeUs until)>& once) {
  threads_.emplace_back([this, once, clock = ports_.back().get()] {
    while (!is_over_) {
      const Status status = once(clock->now_us() + kTurnUs);
      if (status.ok()) continue;
      log(LogLevel::kError, "a server ended: " + status.ToString());
      return;
    }
  });
}

Status Nodes::make() {
  const std::uint64_t lines = lines_of(class_of(options_.block_bytes));
  const std::uint64_t bytes =
      (options_.keys + kResting) * lines * kLineBytes / options_.memory_servers;
  const std::uint64_t chunk = Pool::kChunkLines * kLineBytes;
  for (std::uint32_t node = 0; node < options_.memory_servers; ++node) {
    BRECCIA_TAKE(auto port, open_port());
    ports_.push_back(std::move(port));
    BRECCIA_TAKE(auto server, MemoryServer::make(ports_.back().get(), (bytes / chunk + 2) * chunk));
    server->be_node(node);
    memory_.push_back(std::move(server));
    serve([server = memory_.back().get()](TimeUs until) {
      server->serve(until);
      return Status::OK();
    });
    map_.memory.push_back({.node = node,
                           .member = "memory " + std::to_string(node),
                           .address = ports_.back()->address()});
  }
  BRECCIA_TRY(make_index_servers());
  for (IndexServer* const server :
       {static_cast<IndexServer*>(ordered_.get()), static_cast<IndexServer*>(hash_.get())}) {
    BRECCIA_TRY(server->follow(map_));
    server->trust_until(std::numeric_limits<TimeUs>::max());
    serve([server](TimeUs until) { return server->serve(until); });
  }
  hash_thread_ = threads_.back().native_handle();
  return Status::OK();
}

Status Nodes::make_index_servers() {
  BRECCIA_TAKE(auto ordered_port, open_port());
  ordered_ = std::make_unique<OrderedServer>(ordered_port.get(), OrderedServer::Options());
  map_.ordered = {.member = "ordered", .address = ordered_port->address()};
  ports_.push_back(std::move(ordered_port));

  BRECCIA_TAKE(auto hash_port, open_port());
  base::Random random(options_.seed);
  HashServer::Options of_hash;
  // Seven tenths full at most.
  bucket_bits_ =
      static_cast<std::uint32_t>(std::bit_width(options_.keys * 10 / (7 * Bucket::kSlots)));
  of_hash.bucket_bits = bucket_bits_;
  of_hash.more_buckets = std::max(1U << bucket_bits_ >> 2, 64U);
  of_hash.seeds = KeySeeds{.hash = {random.next(), random.next() | 1},
                           .proof = {random.next(), random.next() | 1}};
  BRECCIA_TAKE(hash_, HashServer::make(hash_port.get(), of_hash));
  hash_->be_first();
  map_.hash = {.member = "hash", .address = hash_port->address(), .is_whole = true};
  map_.epoch = 1;
  map_.has_begun = true;
  ports_.push_back(std::move(hash_port));
  return Status::OK();
}

double Nodes::fill_percent() const {
  const std::uint64_t slots = std::uint64_t{Bucket::kSlots} << bucket_bits_;
  return 100 * static_cast<double>(options_.keys) / static_cast<double>(slots);
}

double Nodes::hash_server_cpu() const {
  clockid_t clock{};
  timespec time{};
  if (pthread_getcpuclockid(hash_thread_, &clock) != 0) return 0;
  if (clock_gettime(clock, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace breccia::bench::disagg
