#include "bench/disagg/ycsb.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/assert.h"

namespace breccia::bench::disagg {

namespace {

constexpr double kInserts = 0.05;

YcsbWorkload workload_of(char letter, std::uint64_t records, std::uint64_t requests) {
  YcsbWorkload of;
  of.record_count = records;
  of.operation_count = requests;
  of.distribution = letter == 'd' ? Distribution::kLatest : Distribution::kZipfian;
  of.read = of.update = 0;
  of.scan_length_max = 100;
  switch (letter) {
    case 'a':
      of.read = of.update = 0.5;
      break;
    case 'b':
      of.read = 0.95;
      of.update = 0.05;
      break;
    case 'c':
      of.read = 1;
      break;
    case 'd':
      of.read = 1 - kInserts;
      of.insert = kInserts;
      break;
    case 'e':
      of.scan = 1 - kInserts;
      of.insert = kInserts;
      break;
    default:
      BRECCIA_ASSERT(letter == 'f');
      of.read = of.read_modify_write = 0.5;
  }
  return of;
}

/// How many of the keys are not below that of each record.
std::vector<std::uint64_t> count_from_there(const Data& data) {
  std::vector<std::string> keys(data.keys());
  for (std::uint64_t i = 0; i < keys.size(); ++i) keys[i] = data.key(i);
  std::vector<std::uint32_t> order(keys.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(),
            [&](auto one, auto other) { return keys[one] < keys[other]; });
  std::vector<std::uint64_t> count(keys.size());
  for (std::size_t i = 0; i < order.size(); ++i) count[order[i]] = order.size() - i;
  return count;
}

}  // namespace

Ycsb::Ycsb(char letter, const Data& data, std::uint32_t clients, std::uint64_t requests,
           std::uint64_t seed)
    : data_(data),
      workload_(workload_of(letter, data.keys(), requests * clients)),
      seed_(seed),
      part_of_(kKinds, kNoMore),
      clients_(clients) {
  const std::array<std::pair<Kind, double>, 5> kinds = {
      {{Kind::kGet, workload_.read},
       {Kind::kUpdate, workload_.update},
       {Kind::kInsert, workload_.insert},
       {Kind::kReadModifyWrite, workload_.read_modify_write},
       {Kind::kScan, workload_.scan}}};
  const std::array<const char*, 5> names = {"read", "update", "insert", "read_modify_write",
                                            "scan"};
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i].second <= 0) continue;
    part_of_[static_cast<std::size_t>(kinds[i].first)] = parts_.size();
    parts_.emplace_back(names[i]);
  }
  if (has_ranges(letter)) from_there_ = count_from_there(data);
}

std::uint64_t Ycsb::inserts_max(char letter, std::uint32_t clients, std::uint64_t requests) {
  const YcsbWorkload of = workload_of(letter, 1, 1);
  const double inserts = of.insert * static_cast<double>(requests) * clients;
  // They are drawn, so there may be some more than in the mean.
  return of.insert <= 0 ? 0 : static_cast<std::uint64_t>(1.1 * inserts) + 200ULL * clients;
}

void Ycsb::choose(std::uint32_t client) {
  clients_[client].choices =
      YcsbChoices(workload_, seed_, client, static_cast<std::uint32_t>(clients_.size()));
}

Status Ycsb::step(Worker* worker, Way* way, const std::vector<const Versions*>& versions,
                  std::size_t* part) {
  Client& client = clients_[worker->number];
  if (client.next == client.choices.size()) {
    *part = kNoMore;
    return Status::OK();
  }
  const std::uint64_t at = client.next++;
  const Kind kind = client.choices.kind(at);
  const std::uint64_t record = client.choices.record(at);
  *part = part_of_[static_cast<std::size_t>(kind)];
  BRECCIA_ASSERT(*part < parts_.size());
  switch (kind) {
    case Kind::kGet:
      return read(worker, way, versions, record);
    case Kind::kInsert:
      client.inserted.push_back(record);
      return write(worker, way, record);
    case Kind::kReadModifyWrite:
      BRECCIA_TRY(read(worker, way, versions, record));
      return write(worker, way, record);
    case Kind::kScan:
      return scan(worker, way, record, client.choices.scan_entries(at));
    default:
      BRECCIA_ASSERT(kind == Kind::kUpdate);
      return write(worker, way, record);
  }
}

Status Ycsb::read(Worker* worker, Way* way, const std::vector<const Versions*>& versions,
                  std::uint64_t record) const {
  const std::string key = data_.key(record);
  std::string value;
  BRECCIA_TRY(way->get(key, &value, worker->late()));
  const auto version = data_.version_in(key, value);
  const bool is_it = version.has_value() && worker->versions->may_see(record, *version, versions);
  return is_it ? Status::OK() : wrong_answer("a read", key);
}

Status Ycsb::write(Worker* worker, Way* way, std::uint64_t record) const {
  const std::string key = data_.key(record);
  return way->put(key, data_.value(key, worker->versions->begin_write(record)), worker->late());
}

Status Ycsb::scan(Worker* worker, Way* way, std::uint64_t record, std::uint32_t limit) const {
  const std::string key = data_.key(record);
  Way::Pairs found;
  BRECCIA_TRY(way->scan(key, limit, &found, worker->late()));
  const std::uint64_t least = std::min<std::uint64_t>(limit, from_there_[record]);
  if (found.size() < least || found.size() > limit) return wrong_answer("a range", key);
  if (found.front().first != key) return wrong_answer("a range", key);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const bool is_behind = i == 0 || found[i - 1].first < found[i].first;
    const bool is_value = data_.is_value(found[i].first, found[i].second);
    if (!is_behind || !is_value) return wrong_answer("a range", found[i].first);
  }
  return Status::OK();
}

Status Ycsb::clean(Worker* worker, Way* way) {
  Client& client = clients_[worker->number];
  for (const std::uint64_t record : client.inserted) {
    BRECCIA_TRY(way->erase(data_.key(record), worker->late()));
  }
  client.inserted.clear();
  return Status::OK();
}

}  // namespace breccia::bench::disagg
