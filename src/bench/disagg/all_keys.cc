#include "bench/disagg/all_keys.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "bench/threads.h"
#include "disagg/protocol.h"

namespace breccia::bench::disagg {

/// Of each client's share of all keys, or of all keys by each client.
Status AllKeys::in_batches(const char* what, bool is_shared, const OneBatch& one_batch) const {
  const auto clients = static_cast<std::uint32_t>(workers_.size());
  const std::uint64_t step = is_shared ? std::uint64_t{kAtOnce} * clients : kAtOnce;
  Progress progress(shows_progress_, what, is_shared ? data_.keys() : clients * data_.keys());
  return on_threads(clients, [&](std::uint32_t t) {
    std::vector<std::string> keys;
    for (std::uint64_t at = is_shared ? t * kAtOnce : 0; at < data_.keys(); at += step) {
      keys.clear();
      const std::uint64_t end = std::min(at + kAtOnce, data_.keys());
      for (std::uint64_t i = at; i < end; ++i) keys.push_back(data_.key(i));
      BRECCIA_TRY(one_batch(workers_[t].get(), keys));
      progress.add(keys.size());
      if (t == 0) progress.show();
    }
    return Status::OK();
  });
}

Status AllKeys::put() const {
  return in_batches("filling", true, [this](Worker* worker, const auto& keys) {
    Way::Pairs pairs;
    for (const std::string& key : keys) pairs.emplace_back(key, data_.value(key, 0));
    return worker->plain->put_all(pairs, worker->late());
  });
}

Status AllKeys::remember() const {
  return in_batches("remembering", false, [this](Worker* worker, const auto& keys) {
    return look_up(worker, worker->remembering.get(), keys);
  });
}

Status AllKeys::look_up() const {
  return in_batches("looking up", true, [this](Worker* worker, const auto& keys) {
    return look_up(worker, worker->plain.get(), keys);
  });
}

Status AllKeys::look_up(Worker* worker, Way* way, const std::vector<std::string>& keys) const {
  std::vector<std::string> values;
  BRECCIA_TRY(way->get_all(keys, &values, worker->late()));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (!data_.is_value(keys[i], values[i])) return wrong_answer("a lookup of many", keys[i]);
  }
  return Status::OK();
}

Status AllKeys::range_over() const {
  const auto clients = static_cast<std::uint32_t>(workers_.size());
  std::vector<std::uint64_t> seen(clients, 0);
  Progress progress(shows_progress_, "ranging over", data_.keys());
  BRECCIA_TRY(on_threads(clients, [&](std::uint32_t t) {
    return range_over(workers_[t].get(), &seen[t], &progress);
  }));
  const std::uint64_t all = std::accumulate(seen.begin(), seen.end(), std::uint64_t{0});
  return all == data_.keys() ? Status::OK() : wrong_answer("ranges of all keys", "");
}

/// Over the client's part of where keys may lie.
Status AllKeys::range_over(Worker* worker, std::uint64_t* seen, Progress* progress) const {
  std::string at = worker->number == 0 ? "" : end_of_part(worker->number);
  const std::string end = end_of_part(worker->number + 1);
  Way::Pairs found;
  while (at < end) {
    BRECCIA_TRY(worker->plain->scan(at, breccia::disagg::kScanMax, &found, worker->late()));
    if (found.empty()) break;
    const auto behind = std::partition_point(found.begin(), found.end(),
                                             [&](const auto& one) { return one.first < end; });
    const auto here = static_cast<std::uint64_t>(behind - found.begin());
    *seen += here;
    progress->add(here);
    if (worker->number == 0) progress->show();
    at = found.back().first + '\0';
  }
  return Status::OK();
}

/// Keys are numbers that are drawn, in hexadecimal digits; of the last part there is no end.
std::string AllKeys::end_of_part(std::uint64_t part) const {
  if (part == workers_.size()) return "g";
  return fmt::format("{:016x}", part * (~std::uint64_t{0} / workers_.size()));
}

}  // namespace breccia::bench::disagg
