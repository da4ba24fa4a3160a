#include "disagg/client/client.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/assert.h"
#include "disagg/block.h"
#include "disagg/watermark.h"

namespace breccia::disagg {

namespace {

using fabric::TimeUs;

/// Between two looks at a watermark.
constexpr TimeUs kWatermarkUs = 10;

/// Nothing has happened, and something may be another way next time.
bool is_to_try_again(const Status& status) {
  return status.IsTryAgain() || status.IsBusy() || status.IsTimedOut();
}

constexpr std::uint64_t kAllBytes = std::numeric_limits<std::uint64_t>::max();

/// Of a range's blocks, from one to the next.
constexpr std::size_t kRangeBytesKept = 4 << 20;

/// Leaves the first ones whose blocks have so many bytes, one at least. Whether there were more.
bool cut(std::uint64_t bytes_max, std::vector<Slot>* slots) {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < slots->size(); ++i) {
    const Location location = location_in((*slots)[i]);
    if (i > 0 && bytes > bytes_max) {
      slots->resize(i);
      return true;
    }
    if (is_block(location)) bytes += location.bytes();
  }
  return false;
}

/// Whether keys rise, and lie in [begin, end).
bool is_in_order(const Slice& begin, const Slice& end,
                 const std::vector<std::pair<std::string, std::string>>& found) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Slice key(found[i].first);
    const bool is_behind = i == 0 ? key.compare(begin) >= 0 : key.compare(found[i - 1].first) > 0;
    if (!is_behind || (!end.empty() && key.compare(end) >= 0)) return false;
  }
  return true;
}

bool is_open(const Lookup& one) { return one.found == Lookup::Found::kNotYet; }
bool is_open(const Change& one) { return !one.is_done; }

Status check_key(const Slice& key) {
  if (!key.empty() && key.size() <= kKeyBytesMax) return Status::OK();
  return Status::InvalidArgument("a key has 1 to 65536 bytes");
}

}  // namespace

Client::Client(fabric::Port* port, Coordinator* coordinator, const ClientOptions& options)
    : port_(port),
      options_(options),
      routes_(port, coordinator, {.again_us = options.ask_again_us, .try_us = options.try_us}),
      blocks_(port, &routes_, options.lease_max),
      cache_(options.cached_places),
      lookups_(port, &routes_, &cache_, &counts_),
      writes_(port, &routes_, &blocks_, &cache_,
              {.busy_us = options.try_us,
               .answer_us = options.ask_again_us,
               .seed = options.seed == 0 ? base::draw_secret_word() : options.seed}) {}

Result<std::unique_ptr<Client>> Client::open(fabric::Port* port, Coordinator* coordinator,
                                             const ClientOptions& options, TimeUs until) {
  if (options.lease_max == 0) return Status::InvalidArgument("no block at once");
  std::unique_ptr<Client> client(new Client(port, coordinator, options));
  BRECCIA_TRY(client->again_and_again(until, [&] { return client->meet_all(until); }));
  return client;
}

/// Tries until it is known, or the time is over. What ends by its time may be tried again, too, as
/// a server's time is shorter.
template <class Once>
Status Client::again_and_again(TimeUs until, Once once) {
  Status last = Status::TimedOut("the time is over");
  while (port_->now_us() < until) {
    last = once();
    if (!is_to_try_again(last)) {
      routes_.rest_assured();
      return last;
    }
    ++counts_.again;
    routes_.reconsider(until);
  }
  return last.IsTimedOut() ? last : Status::TimedOut("the time is over", last.ToString());
}

/// The tables of all hash servers are known.
Status Client::meet_all(TimeUs until) {
  BRECCIA_TRY(routes_.find());
  for (std::uint32_t shard = 0; shard < routes_.shards(); ++shard) {
    BRECCIA_TRY(routes_.meet(shard, until));
  }
  return Status::OK();
}

/// Of those that are not done yet.
ShardSet Client::shards_of(std::span<const Lookup> lookups) const {
  if (routes_.shards() == 1) return ShardSet::one(0);
  ShardSet shards;
  for (const Lookup& one : lookups) {
    if (is_open(one)) shards.add(routes_.shard_of(one.key));
  }
  return shards;
}

// ---- lookups -----------------------------------------------------------------------------------

Status Client::get(const Slice& key, std::string* value, TimeUs until) {
  Lookup one{.key = key, .value = value};
  BRECCIA_TRY(get({&one, 1}, until));
  return one.status();
}

Status Client::get(std::span<Lookup> lookups, TimeUs until) {
  for (const Lookup& one : lookups) {
    if (one.found == Lookup::Found::kNotYet) BRECCIA_TRY(check_key(one.key));
  }
  return again_and_again(until, [&] { return get_once(lookups, until); });
}

/// A shard whose servers are not there keeps nobody from the others.
Status Client::get_once(std::span<Lookup> lookups, TimeUs until) {
  BRECCIA_TRY(routes_.find());
  routes_.memory().tend(until);
  ShardSet left = shards_of(lookups);
  const ShardSet ready = routes_.trusted(left);
  Status all = lookups_.run(lookups, ready, until);
  left.remove(ready);
  if (left.empty()) return all;
  Status other;
  left = routes_.trust(left, &other, until);
  ShardSet whole;
  for (std::uint32_t shard = left.next(0); shard < kShardsMax; shard = left.next(shard + 1)) {
    if (routes_.is_whole(shard)) whole.add(shard);
  }
  if (Status run = lookups_.run(lookups, whole, until); !run.ok()) other = std::move(run);
  left.remove(whole);
  if (Status built = get_in_order(lookups, left, until); !built.ok()) other = std::move(built);
  return all.ok() ? other : all;
}

/// Of shards whose hash index is being built.
Status Client::get_in_order(std::span<Lookup> lookups, ShardSet of, TimeUs until) {
  Status last;
  for (Lookup& one : lookups) {
    if (of.empty()) break;
    const std::uint32_t shard = routes_.shard_of(one.key);
    if (!is_open(one) || !of.has(shard)) continue;
    Status found = get_in_order(&one, until);
    if (found.ok()) continue;
    of.remove(ShardSet::one(shard));
    last = std::move(found);
  }
  return last;
}

/// A range of one key.
Status Client::get_in_order(Lookup* lookup, TimeUs until) {
  ++counts_.ordered;
  const std::string behind = lookup->key.ToString() + '\0';
  Pairs found;
  bool is_cut = false;
  BRECCIA_TRY(scan_once(ShardSet::one(routes_.shard_of(lookup->key)),
                        {.begin = lookup->key, .end = behind, .limit = 1}, kAllBytes, &found,
                        &is_cut, until));
  lookup->found = found.empty() ? Lookup::Found::kNothing : Lookup::Found::kValue;
  if (!found.empty()) *lookup->value = std::move(found.front().second);
  return Status::OK();
}

// ---- ranges ------------------------------------------------------------------------------------

/// Of several shards part by part, where a server has more of the keys than its share, or than a
/// message has room for.
Status Client::scan(const Slice& begin, const Slice& end, std::uint32_t limit, Pairs* found,
                    TimeUs until) {
  bool is_cut = false;
  BRECCIA_TRY(scan_part(begin, end, limit, kAllBytes, found, &is_cut, until));
  while (is_cut) {
    const std::string behind = found->back().first + '\0';
    const auto more = static_cast<std::uint32_t>(limit - found->size());
    Pairs part;
    BRECCIA_TRY(scan_part(behind, end, more, kAllBytes, &part, &is_cut, until));
    std::move(part.begin(), part.end(), std::back_inserter(*found));
  }
  return Status::OK();
}

Status Client::scan_part(const Slice& begin, const Slice& end, std::uint32_t limit,
                         std::uint64_t bytes_max, Pairs* found, bool* is_cut, TimeUs until) {
  if (limit > kScanMax) return Status::InvalidArgument("a range of more than 4096 keys");
  // Behind the longest key a range begins with one byte more.
  if (begin.size() > kKeyBytesMax + 1 || end.size() > kKeyBytesMax + 1) {
    return Status::InvalidArgument("a key has up to 65536 bytes");
  }
  return again_and_again(until, [&]() -> Status {
    BRECCIA_TRY(meet_all(until));
    return scan_once(ShardSet::all(routes_.shards()), {.begin = begin, .end = end, .limit = limit},
                     bytes_max, found, is_cut, until);
  });
}

Status Client::scan_once(ShardSet shards, const RangeQuestion& range, std::uint64_t bytes_max,
                         Pairs* found, bool* is_cut, TimeUs until) {
  const TimeUs asked = port_->now_us();
  BRECCIA_TAKE(auto told, ask_range(port_, &routes_, shards, range, until));
  *is_cut = false;
  std::vector<Slot> slots =
      told.size() > 1 ? merge_ranges(told, range.limit, is_cut) : std::move(told.front().slots);
  *is_cut = cut(bytes_max, &slots) || *is_cut;
  // Mostly lookups find by now all that the range has found.
  std::vector<Watched> watched;
  for (const RangeAnswer& one : told) watched.push_back({.of = &one, .bytes = {}});
  BRECCIA_TAKE(const bool is_whole, read_values(slots, &watched, found, until));
  // Behind that time a block may be another's.
  if (port_->now_us() - asked > routes_.read_us()) {
    ++counts_.anew;
    return Status::TryAgain("a range that took too long");
  }
  if (!is_whole || !is_in_order(range.begin, range.end, *found)) {
    return Status::Corruption("the index leads to what is no value of the range");
  }
  for (const Watched& one : watched) BRECCIA_TRY(wait_for(one, until));
  return Status::OK();
}

/// Keys and values of blocks, all at once. False: one is not whole.
Result<bool> Client::read_values(std::span<const Slot> slots, std::vector<Watched>* watched,
                                 std::vector<std::pair<std::string, std::string>>* found,
                                 TimeUs until) {
  std::size_t bytes = 0;
  for (const Slot slot : slots) {
    if (!is_block(location_in(slot))) return false;
    bytes += location_in(slot).bytes();
  }
  // What is much is not kept.
  std::vector<std::byte> large;
  std::vector<std::byte>& all = bytes > kRangeBytesKept ? large : range_bytes_;
  if (all.size() < bytes) all.resize(bytes);
  std::map<std::uint32_t, std::vector<Routes::BlockRead>> of_node;
  std::vector<std::span<std::byte>> blocks;
  for (std::size_t at = 0; const Slot slot : slots) {
    const Location location = location_in(slot);
    blocks.push_back(std::span(all).subspan(at, location.bytes()));
    of_node[location.node].push_back({location.offset(), blocks.back()});
    at += location.bytes();
  }
  BRECCIA_TRY(read_blocks(&of_node, watched, until));
  // What the caller has of ranges before is used again.
  found->resize(blocks.size());
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const auto block = whole_block(blocks[i]);
    if (!block.has_value()) {
      ++counts_.torn;
      return false;
    }
    (*found)[i].first.assign(block->key.data(), block->key.size());
    (*found)[i].second.assign(block->value.data(), block->value.size());
  }
  return true;
}

/// Blocks, by node, and watermarks beside them, if that can be.
Status Client::read_blocks(std::map<std::uint32_t, std::vector<Routes::BlockRead>>* of_node,
                           std::vector<Watched>* watched, TimeUs until) {
  std::vector<Routes::NodeReads> reads;
  for (auto& [node, blocks] : *of_node) {
    counts_.reads += blocks.size();
    reads.push_back({.node = node, .reads = std::move(blocks)});
  }
  std::vector<Routes::TableReads> beside;
  for (Watched& one : *watched) beside.push_back(watermark_of(&one));
  const bool are_read = routes_.read_memory(reads, beside, until);
  if (are_read) counts_.reads += watched->size();
  for (Watched& one : *watched) one.is_read = are_read;
  for (const Routes::NodeReads& one : reads) BRECCIA_TRY(one.status);
  return Status::OK();
}

Routes::TableReads Client::watermark_of(Watched* watched) const {
  const std::uint32_t shard = watched->of->shard;
  return {.shard = shard, .reads = {{routes_.table(shard).region, 0, watched->bytes}}};
}

/// Until lookups find all that a scan has found, so that none behind it is older.
Status Client::wait_for(Watched watched, TimeUs until) {
  const TimeUs tries_until = std::min(until, port_->now_us() + options_.try_us);
  while (true) {
    if (!watched.is_read) {
      const Routes::TableReads read = watermark_of(&watched);
      ++counts_.reads;
      BRECCIA_TRY(routes_.read_tables({&read, 1}, until));
    }
    watched.is_read = false;
    const auto watermark = Watermark::in(watched.bytes);
    if (watermark.has_value() && *watermark >= watched.of->sequence) return Status::OK();
    if (port_->now_us() >= tries_until) {
      routes_.doubt_table(watched.of->shard);
      return Status::TryAgain("a watermark that stands still");
    }
    // Answers to what was given up may come meanwhile.
    (void)port_->poll(std::min(until, port_->now_us() + kWatermarkUs));
  }
}

// ---- writes ------------------------------------------------------------------------------------

Status Client::put(const Slice& key, const Slice& value, TimeUs until) {
  Change one{.key = key, .value = value};
  return write({&one, 1}, until);
}

Status Client::erase(const Slice& key, TimeUs until) {
  Change one{.key = key, .value = {}};
  return write({&one, 1}, until);
}

Status Client::write(std::span<Change> changes, TimeUs until) {
  for (const Change& one : changes) BRECCIA_TRY(check(one));
  bool is_again = false;
  return again_and_again(until, [&]() -> Status {
    // What was refused is not put again where its answer may come too late: then it would not be
    // known whether it was written.
    const bool is_late = port_->now_us() + options_.ask_again_us >= until;
    if (std::exchange(is_again, true) && is_late) return Status::TimedOut("servers refused it");
    while (
        std::any_of(changes.begin(), changes.end(), [](const auto& one) { return is_open(one); })) {
      BRECCIA_TRY(routes_.find());
      BRECCIA_TRY(blocks_.tend(until));
      BRECCIA_TRY(writes_.run(changes, until));
    }
    return Status::OK();
  });
}

Status Client::close(TimeUs until) { return blocks_.close(until); }

}  // namespace breccia::disagg
