#include "disagg/client/lookups.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "disagg/block.h"
#include "disagg/watermark.h"

namespace breccia::disagg {

namespace {

using fabric::TimeUs;
using Found = Lookup::Found;

/// Lookups that go together.
constexpr std::size_t kAtOnce = 256;
/// Bytes of blocks that are read together, and one lookup's more: they are to be there within the
/// time in which blocks rest, also over a slow link.
constexpr std::size_t kBytesAtOnce = 256 << 10;

/// Where a bucket lies in its region.
std::uint64_t offset_of(std::uint32_t bucket) {
  return sizeof(Watermark) + std::uint64_t{bucket} * sizeof(Bucket);
}

std::span<std::byte, sizeof(Bucket)> bytes_in(Bucket* bucket) {
  return std::as_writable_bytes(std::span<Bucket, 1>(bucket, 1));
}

Status no_hash_server() { return Status::TryAgain("there may be another hash server"); }

}  // namespace

Status Lookup::status() const {
  switch (found) {
    case Found::kValue:
      return Status::OK();
    case Found::kNothing:
      return Status::NotFound();
    case Found::kLost:
      return Status::IOError("the server that had the value is lost");
    case Found::kSpoiled:
      return Status::Corruption("an entry leads to what is no value");
    case Found::kNotYet:
      break;
  }
  return Status::TimedOut("a lookup");
}

ClientCounts& ClientCounts::operator+=(const ClientCounts& more) {
  reads += more.reads;
  torn += more.torn;
  anew += more.anew;
  cached += more.cached;
  stale += more.stale;
  ordered += more.ordered;
  again += more.again;
  lost += more.lost;
  return *this;
}

Status Lookups::run(std::span<Lookup> all, ShardSet of, TimeUs until) {
  if (of.empty()) return Status::OK();
  for (std::size_t n = 0; n < all.size(); n += kAtOnce) {
    BRECCIA_TRY(run_some(all.subspan(n, std::min(kAtOnce, all.size() - n)), of, until));
  }
  return Status::OK();
}

Status Lookups::run_some(std::span<Lookup> some, ShardSet of, TimeUs until) {
  ways_.clear();
  seen_.clear();
  shards_ = ShardSet();
  for (Lookup& one : some) {
    if (one.found != Found::kNotYet) continue;
    const std::uint32_t shard = routes_->shard_of(one.key);
    if (!of.has(shard)) continue;
    shards_.add(shard);
    Way& way = ways_.emplace_back();
    way.of = &one;
    way.shard = shard;
    way.id = routes_->table(shard).seeds.id_of(one.key);
    begin(&way);
  }
  BRECCIA_TRY(look_where_they_were(until));
  while (!ways_.empty()) {
    if (port_->now_us() >= until) return Status::TimedOut("a lookup");
    BRECCIA_TRY(step(until));
  }
  return Status::OK();
}

bool Lookups::are_trusted() const {
  for (std::uint32_t shard = shards_.next(0); shard < kShardsMax; shard = shards_.next(shard + 1)) {
    if (!routes_->is_trusted(shard)) return false;
  }
  return true;
}

void Lookups::begin(Way* way) const {
  way->at = routes_->table(way->shard).shape.first_bucket(way->id.hash);
  way->length = 0;
  way->has_ended = way->has_changed = false;
}

void Lookups::begin_anew(Way* way) {
  ++counts_->anew;
  std::erase_if(seen_, [way](const Seen& one) { return one.of == way->of; });
  begin(way);
}

// ---- blocks ------------------------------------------------------------------------------------

void Lookups::add_candidate(std::size_t way, const Location& location) {
  BRECCIA_ASSERT(is_block(location));
  candidates_.push_back({.way = way, .location = location, .begin = bytes_used_});
  bytes_used_ += location.bytes();
}

std::span<const std::byte> Lookups::bytes_of(const Candidate& candidate) const {
  return std::span(bytes_).subspan(candidate.begin, candidate.location.bytes());
}

/// Those of all servers at once.
/// Errors  the last one of those that are to be tried again; what is read says is_read.
Status Lookups::read_candidates(TimeUs until) {
  if (bytes_.size() < bytes_used_) bytes_.resize(bytes_used_);
  std::stable_sort(candidates_.begin(), candidates_.end(),
                   [](const auto& a, const auto& b) { return a.location.node < b.location.node; });
  counts_->reads += candidates_.size();
  std::size_t nodes = 0;
  for (std::size_t begin = 0, end = 0; begin < candidates_.size(); begin = end, ++nodes) {
    if (node_reads_.size() == nodes) node_reads_.emplace_back();
    Routes::NodeReads& of = node_reads_[nodes];
    of.node = candidates_[begin].location.node;
    of.status = Status::OK();
    of.reads.clear();
    for (; end < candidates_.size() && candidates_[end].location.node == of.node; ++end) {
      const Candidate& one = candidates_[end];
      of.reads.push_back({.offset = one.location.offset(),
                          .into = std::span(bytes_).subspan(one.begin, one.location.bytes())});
    }
  }
  const auto of_nodes = std::span(node_reads_).first(nodes);
  (void)routes_->read_memory(of_nodes, {}, until);
  Status all;
  auto candidate = candidates_.begin();
  for (const Routes::NodeReads& of : of_nodes) {
    for (; candidate != candidates_.end() && candidate->location.node == of.node; ++candidate) {
      candidate->is_read = of.status.ok();
      candidate->is_lost = of.status.IsIOError();
    }
    if (!of.status.ok() && !of.status.IsIOError()) all = of.status;
  }
  return all;
}

/// One read each, of the block that had the key's value: of the same use of the block, and live, it
/// is the value as long as its server has not answered the next write.
Status Lookups::look_where_they_were(TimeUs until) {
  candidates_.clear();
  bytes_used_ = 0;
  for (std::size_t i = 0; i < ways_.size(); ++i) {
    const LocationCache::Known* const known = cache_->find(ways_[i].id);
    const bool is_one = known != nullptr && bytes_used_ <= kBytesAtOnce;
    if (is_one) add_candidate(i, location_in(known->slot));
  }
  if (candidates_.empty()) return Status::OK();
  const TimeUs begin = port_->now_us();
  const Status read = read_candidates(until);
  // What was read may be of many uses of the block behind that time.
  const bool is_late = port_->now_us() - begin > routes_->read_us();
  const bool is_believed = !is_late && are_trusted();
  for (const Candidate& one : candidates_) {
    const Way& way = ways_[one.way];
    // Two keys that share a place in the cache are one entry.
    const LocationCache::Known* const known = cache_->find(way.id);
    BRECCIA_ASSERT(known != nullptr && location_in(known->slot) == one.location);
    const auto block = one.is_read ? whole_block(bytes_of(one)) : std::nullopt;
    if (one.is_read && !block.has_value()) ++counts_->torn;
    const bool is_it = is_believed && block.has_value() && block->generation == known->generation &&
                       !block->is_replaced && block->key == way.of->key;
    if (is_it) {
      way.of->value->assign(block->value.data(), block->value.size());
      way.of->found = Found::kValue;
    }
    ++(is_it ? counts_->cached : counts_->stale);
  }
  for (const Candidate& one : candidates_) {
    if (ways_[one.way].of->found != Found::kValue) cache_->forget(ways_[one.way].id);
  }
  std::erase_if(ways_, [](const Way& way) { return way.of->found != Found::kNotYet; });
  // By now it may lie elsewhere, where nothing is wrong.
  return read.IsTimedOut() ? read : Status::OK();
}

// ---- chains ------------------------------------------------------------------------------------

/// A bucket further with each.
Status Lookups::step(TimeUs until) {
  const TimeUs begin = port_->now_us();
  BRECCIA_TRY(read_buckets(until));
  note_candidates();
  Status read = read_candidates(until);
  for (const Candidate& one : candidates_) {
    const bool is_settled = one.is_read || one.is_lost;
    if (!is_settled) ways_[one.way].is_read = false;
  }
  // Behind that time a block that an entry led to may be another's.
  const bool is_late = port_->now_us() - begin > routes_->read_us();
  if (!are_trusted()) return no_hash_server();
  BRECCIA_TRY(go_on(is_late, until));
  return read;
}

/// What stands in bucket_reads_, of all tables at once.
Status Lookups::read_tables(TimeUs until) {
  counts_->reads += bucket_reads_.size();
  const auto is_before = [](const auto& a, const auto& b) { return a.shard < b.shard; };
  const bool are_sorted = std::is_sorted(bucket_reads_.begin(), bucket_reads_.end(), is_before);
  if (!are_sorted) std::stable_sort(bucket_reads_.begin(), bucket_reads_.end(), is_before);
  std::size_t tables = 0;
  for (std::size_t begin = 0, end = 0; begin < bucket_reads_.size(); begin = end, ++tables) {
    if (table_reads_.size() == tables) table_reads_.emplace_back();
    Routes::TableReads& of = table_reads_[tables];
    of.shard = bucket_reads_[begin].shard;
    of.reads.clear();
    for (; end < bucket_reads_.size() && bucket_reads_[end].shard == of.shard; ++end) {
      const BucketRead& one = bucket_reads_[end];
      of.reads.push_back({routes_->table(of.shard).region, offset_of(one.at), bytes_in(one.into)});
    }
  }
  return routes_->read_tables(std::span(table_reads_).first(tables), until);
}

Status Lookups::read_buckets(TimeUs until) {
  bucket_reads_.clear();
  for (Way& way : ways_) {
    // So long is no chain: the table changed on the way.
    const TableShape& shape = routes_->table(way.shard).shape;
    if (way.at >= shape.buckets || way.length >= shape.buckets) begin_anew(&way);
    bucket_reads_.push_back({.shard = way.shard, .at = way.at, .into = &way.bucket});
  }
  BRECCIA_TRY(read_tables(until));
  for (Way& way : ways_) {
    way.is_read = whole_bucket(bytes_in(&way.bucket)).has_value();
    way.has_doubt = way.is_lost = false;
    if (!way.is_read) ++counts_->torn;
  }
  return Status::OK();
}

/// Blocks that entries with a key's bits lead to. What is too much for once has not read its
/// bucket.
void Lookups::note_candidates() {
  candidates_.clear();
  bytes_used_ = 0;
  for (std::size_t i = 0; i < ways_.size(); ++i) {
    Way& way = ways_[i];
    way.is_read = way.is_read && bytes_used_ <= kBytesAtOnce;
    if (!way.is_read) continue;
    const std::uint32_t fingerprint = fingerprint_of(way.id.hash);
    for (const Slot slot : way.bucket.slot) {
      if (slot == 0 || fingerprint_in(slot) != fingerprint) continue;
      const Location location = location_in(slot);
      if (is_block(location)) {
        add_candidate(i, location);
      } else {
        way.has_doubt = true;
      }
    }
  }
}

void Lookups::look_at(const Candidate& candidate) {
  Way& way = ways_[candidate.way];
  if (way.of->found == Found::kValue || !way.is_read) return;
  const auto block = candidate.is_read ? whole_block(bytes_of(candidate)) : std::nullopt;
  if (!block.has_value()) {
    if (candidate.is_read) ++counts_->torn;
    (candidate.is_lost ? way.is_lost : way.has_doubt) = true;
    return;
  }
  if (block->key != way.of->key) return;
  if (!block->is_replaced) cache_->keep(way.id, candidate.location, block->generation);
  way.of->value->assign(block->value.data(), block->value.size());
  way.of->found = Found::kValue;
}

Status Lookups::go_on(bool is_late, TimeUs until) {
  for (const Candidate& one : candidates_) {
    if (!is_late) look_at(one);
  }
  for (Way& way : ways_) {
    if (!way.is_read || way.of->found == Found::kValue) continue;
    if (is_late) {
      begin_anew(&way);
    } else if (way.is_lost) {
      way.of->found = Found::kLost;
    } else if (!way.has_doubt) {
      seen_.push_back({.of = way.of, .at = way.at, .bucket = way.bucket});
      way.at = way.bucket.next;
      ++way.length;
      way.has_ended = way.at == 0;
    }
  }
  BRECCIA_TRY(settle_doubts(until));
  BRECCIA_TRY(settle_ends(until));
  std::erase_if(ways_, [](const Way& way) { return way.of->found != Found::kNotYet; });
  return Status::OK();
}

/// Reads once more what stands in bucket_reads_, into now_, in its order.
Status Lookups::read_again(TimeUs until) {
  now_.resize(bucket_reads_.size());
  for (std::size_t i = 0; i < now_.size(); ++i) bucket_reads_[i].into = &now_[i];
  BRECCIA_TRY(read_tables(until));
  return are_trusted() ? Status::OK() : no_hash_server();
}

/// An entry that leads to what is no value was changed since, or is spoiled.
Status Lookups::settle_doubts(TimeUs until) {
  const auto is_one = [](const Way& way) {
    return way.is_read && way.has_doubt && way.of->found == Found::kNotYet;
  };
  bucket_reads_.clear();
  for (const Way& way : ways_) {
    if (is_one(way)) bucket_reads_.push_back({.shard = way.shard, .at = way.at, .into = nullptr});
  }
  if (bucket_reads_.empty()) return Status::OK();
  BRECCIA_TRY(read_again(until));
  std::size_t n = 0;
  for (Way& way : ways_) {
    if (!is_one(way)) continue;
    const bool is_same = std::memcmp(&now_[n++], &way.bucket, sizeof(Bucket)) == 0;
    if (is_same) {
      way.of->found = Found::kSpoiled;
    } else {
      begin_anew(&way);
    }
  }
  BRECCIA_ASSERT(n == now_.size());
  return Status::OK();
}

/// That a key is nowhere is believed if all of its chain was so at one moment, the first look's
/// end.
Status Lookups::settle_ends(TimeUs until) {
  const auto way_of = [this](const Lookup* of) {
    return std::lower_bound(ways_.begin(), ways_.end(), of,
                            [](const Way& way, const Lookup* one) { return way.of < one; });
  };
  bucket_reads_.clear();
  std::vector<std::pair<Way*, const Seen*>> ended;
  for (const Seen& one : seen_) {
    const auto way = way_of(one.of);
    if (way == ways_.end() || way->of != one.of || !way->has_ended) continue;
    bucket_reads_.push_back({.shard = way->shard, .at = one.at, .into = nullptr});
    ended.emplace_back(&*way, &one);
  }
  if (ended.empty()) return Status::OK();
  BRECCIA_TRY(read_again(until));
  for (std::size_t i = 0; i < ended.size(); ++i) {
    const auto& [way, one] = ended[i];
    if (std::memcmp(&now_[i], &one->bucket, sizeof(Bucket)) != 0) way->has_changed = true;
  }
  for (Way& way : ways_) {
    if (!way.has_ended) continue;
    if (way.has_changed) {
      begin_anew(&way);
    } else {
      way.of->found = Found::kNothing;
    }
  }
  return Status::OK();
}

}  // namespace breccia::disagg
