#include "bench/disagg/gathering.h"

#include <array>
#include <vector>

#include "bench/threads.h"
#include "disagg/asking.h"
#include "disagg/location.h"
#include "disagg/memory_peers.h"

namespace breccia::bench::disagg {

namespace {

using breccia::disagg::Asking;
using breccia::disagg::kLineBytes;
using breccia::disagg::MemoryPeer;
using breccia::disagg::MemoryPeers;

constexpr std::size_t kAtOnce = 1024, kHeadBytes = 128;
constexpr std::uint64_t kPageBytes = 4096;

using Heads = std::vector<std::array<std::byte, kHeadBytes>>;

Status touch(Worker* worker, const MemoryPeer& of, Heads* heads) {
  const std::uint64_t pages = of.region.bytes / kPageBytes;
  std::vector<fabric::Read> reads;
  for (std::uint64_t page = 0; page < pages; ++page) {
    reads.push_back({of.region, page * kPageBytes, (*heads)[reads.size()]});
    if (reads.size() < heads->size() && page + 1 < pages) continue;
    BRECCIA_TRY(worker->port->read(of.peer, reads, worker->late()));
    reads.clear();
  }
  return Status::OK();
}

Status read_some(Worker* worker, const MemoryPeer& of, Heads* heads) {
  const std::uint64_t lines = (of.region.bytes - kHeadBytes) / kLineBytes;
  std::vector<fabric::Read> reads;
  for (auto& head : *heads) {
    reads.push_back({of.region, worker->random.below(lines) * kLineBytes, head});
  }
  return worker->port->read(of.peer, reads, worker->late());
}

}  // namespace

Result<double> keys_gathered_per_sec(Worker* worker, const breccia::disagg::ClusterMap& map,
                                     double seconds) {
  Asking asking(worker->port.get(), Worker::kUntilUs / 10);
  MemoryPeers peers(worker->port.get(), &asking, {.meet_us = Worker::kUntilUs});
  peers.follow(map);
  peers.tend(worker->late());
  std::vector<const MemoryPeer*> all;
  for (const std::uint32_t node : peers.nodes()) all.push_back(peers.find(node));
  Heads heads(kAtOnce);
  for (const MemoryPeer* const one : all) {
    if (one == nullptr) return Status::IOError("a memory server cannot be reached");
    BRECCIA_TRY(touch(worker, *one, &heads));
  }
  const auto begin = Clock::now();
  double passed = 0;
  std::uint64_t count = 0;
  for (; passed < seconds; count += kAtOnce) {
    BRECCIA_TRY(read_some(worker, *all[worker->random.below(all.size())], &heads));
    passed = 1e-9 * static_cast<double>(ns_between(begin, Clock::now()));
  }
  return static_cast<double>(count) / passed;
}

}  // namespace breccia::bench::disagg
