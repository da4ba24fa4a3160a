#include "disagg/client/client.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "disagg/watermark.h"

namespace breccia::disagg {

namespace {

using fabric::TimeUs;

/// Between two looks at a watermark.
constexpr TimeUs kWatermarkUs = 10;
/// Who is told to try again does so behind a pause, each time a longer one.
constexpr TimeUs kPauseUs = 50;
constexpr TimeUs kPauseUsMax = 5000;

/// Nothing has happened, and something may be another way next time.
bool is_to_try_again(const Status& status) {
  return status.IsTryAgain() || status.IsBusy() || status.IsTimedOut();
}

/// Of a write whose question had no answer that tells.
Status not_known(const Status& why) {
  const char* const sentence = "whether it was written is not known";
  return why.IsTimedOut() ? Status::IOError(sentence, "the time is over")
                          : Status::IOError(sentence, why.ToString());
}

bool is_known_not(const Status& status) {
  return status.IsMemoryLimit() || status.IsInvalidArgument() || status.IsBusy() ||
         status.IsTryAgain();
}

/// Where a bucket lies in its region.
std::uint64_t offset_of(std::uint32_t bucket) {
  return sizeof(Watermark) + std::uint64_t{bucket} * sizeof(Bucket);
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

Status check_key(const Slice& key) {
  if (!key.empty() && key.size() <= kKeyBytesMax) return Status::OK();
  return Status::InvalidArgument("a key has 1 to 65536 bytes");
}

}  // namespace

Client::Client(fabric::Port* port, Coordinator* coordinator, const ClientOptions& options)
    : port_(port),
      options_(options),
      random_(options.seed == 0 ? base::draw_secret_word() : options.seed),
      routes_(port, coordinator, {.again_us = options.ask_again_us, .try_us = options.try_us}),
      blocks_(port, &routes_, options.lease_max),
      cache_(0) {}

Result<std::unique_ptr<Client>> Client::open(fabric::Port* port, Coordinator* coordinator,
                                             const ClientOptions& options, TimeUs until) {
  if (options.lease_max == 0) return Status::InvalidArgument("no block at once");
  std::unique_ptr<Client> client(new Client(port, coordinator, options));
  BRECCIA_TRY(client->again_and_again(until, [&] { return client->ready(until); }));
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

/// The hash server's table is known, and where values of its keys lie is remembered.
Status Client::ready(TimeUs until) {
  BRECCIA_TRY(routes_.find(until));
  forget_other_table();
  return Status::OK();
}

void Client::forget_other_table() {
  if (tables_ == routes_.tables()) return;
  tables_ = routes_.tables();
  cache_ = LocationCache(options_.cached_places);
}

// ---- lookups -----------------------------------------------------------------------------------

Status Client::get(const Slice& key, std::string* value, TimeUs until) {
  BRECCIA_TRY(check_key(key));
  return again_and_again(until, [&] { return get_once(key, value, until); });
}

Status Client::get_once(const Slice& key, std::string* value, TimeUs until) {
  BRECCIA_TRY(routes_.trust(until));
  forget_other_table();
  if (!routes_.is_whole()) return get_in_order(key, value, until);
  const KeyId id = routes_.table().seeds.id_of(key);
  BRECCIA_TAKE(const bool is_where_it_was, look_where_it_was(key, id, value, until));
  if (is_where_it_was) return Status::OK();
  while (port_->now_us() < until) {
    BRECCIA_TAKE(const Found found, look(key, id, value, until));
    if (!routes_.is_trusted()) return Status::TryAgain("there may be another hash server");
    if (found == Found::kValue) return Status::OK();
    if (found == Found::kNothing) return Status::NotFound();
    ++counts_.anew;
  }
  return Status::TimedOut("a lookup");
}

/// A range of one key.
Status Client::get_in_order(const Slice& key, std::string* value, TimeUs until) {
  ++counts_.ordered;
  const std::string behind = key.ToString() + '\0';
  Pairs found;
  BRECCIA_TRY(scan_once(key, behind, 1, &found, until));
  if (found.empty()) return Status::NotFound();
  *value = std::move(found.front().second);
  return Status::OK();
}

/// One read, of the block that had the key's value: of the same use of the block, and live, it is
/// the value as long as its server has not answered the next write.
Result<bool> Client::look_where_it_was(const Slice& key, const KeyId& id, std::string* value,
                                       TimeUs until) {
  const LocationCache::Known* const known = cache_.find(id);
  if (known == nullptr) return false;
  const TimeUs begin = port_->now_us();
  std::vector<std::byte> bytes;
  const auto block = read_block(location_in(known->slot), &bytes, until);
  // What was read may be of many uses of the block behind that time.
  const bool is_late = port_->now_us() - begin > routes_.table().read_us;
  const bool is_it = block.ok() && !is_late && routes_.is_trusted() && block.value().has_value() &&
                     block.value()->generation == known->generation &&
                     !block.value()->is_replaced && block.value()->key == key;
  if (!is_it) {
    ++counts_.stale;
    cache_.forget(id);
    // By now it may lie elsewhere, where nothing is wrong.
    return block.status().IsTimedOut() ? Result<bool>(block.status()) : Result<bool>(false);
  }
  ++counts_.cached;
  value->assign(block.value()->value.data(), block.value()->value.size());
  return true;
}

/// Goes along a chain.
Result<Client::Found> Client::look(const Slice& key, const KeyId& id, std::string* value,
                                   TimeUs until) {
  std::vector<std::pair<std::uint32_t, Bucket>> seen;
  std::uint32_t at = routes_.table().shape.first_bucket(id.hash);
  do {
    // So long is no chain: the table changed on the way.
    const bool is_chain =
        at < routes_.table().shape.buckets && seen.size() < routes_.table().shape.buckets;
    if (!is_chain) return Found::kAnew;
    const TimeUs begin = port_->now_us();
    BRECCIA_TAKE(const Bucket bucket, read_bucket(at, until));
    BRECCIA_TAKE(const Found found, look_in(bucket, key, id, value, until));
    // Behind that time a block that the entry led to may be another's.
    if (port_->now_us() - begin > routes_.table().read_us) {
      cache_.forget(id);
      return Found::kAnew;
    }
    if (found == Found::kValue) return found;
    seen.emplace_back(at, bucket);
    if (found == Found::kAnew) {
      BRECCIA_TAKE(const bool is_same, are_same(std::span(seen).last(1), until));
      if (is_same && routes_.is_trusted())
        return Status::Corruption("an entry leads to what is no value");
      return Found::kAnew;
    }
    at = bucket.next;
  } while (at != 0);
  // That it is nowhere is believed if all was so at one moment, the first look's end.
  BRECCIA_TAKE(const bool is_same, are_same(seen, until));
  return is_same ? Found::kNothing : Found::kAnew;
}

Result<Bucket> Client::read_bucket(std::uint32_t bucket, TimeUs until) {
  while (true) {
    std::array<std::byte, sizeof(Bucket)> bytes;
    const fabric::Read read{routes_.table().region, offset_of(bucket), bytes};
    ++counts_.reads;
    BRECCIA_TRY(routes_.read_table({&read, 1}, until));
    if (const auto whole = whole_bucket(bytes)) return *whole;
    ++counts_.torn;
    const bool goes_on = routes_.is_trusted() && port_->now_us() < until;
    if (!goes_on) return Status::TryAgain("a bucket that is never whole");
  }
}

Result<Client::Found> Client::look_in(const Bucket& bucket, const Slice& key, const KeyId& id,
                                      std::string* value, TimeUs until) {
  const std::uint32_t fingerprint = fingerprint_of(id.hash);
  Found found = Found::kNothing;
  for (const Slot slot : bucket.slot) {
    if (slot == 0 || fingerprint_in(slot) != fingerprint) continue;
    BRECCIA_TAKE(const Found here, look_at(location_in(slot), key, id, value, until));
    if (here == Found::kValue) return here;
    if (here == Found::kAnew) found = here;
  }
  return found;
}

/// kNothing: it is another key's.
Result<Client::Found> Client::look_at(const Location& location, const Slice& key, const KeyId& id,
                                      std::string* value, TimeUs until) {
  if (!is_block(location)) return Found::kAnew;
  std::vector<std::byte> bytes;
  BRECCIA_TAKE(const auto block, read_block(location, &bytes, until));
  if (!block.has_value()) return Found::kAnew;
  if (block->key != key) return Found::kNothing;
  if (!block->is_replaced) cache_.keep(id, location, block->generation);
  value->assign(block->value.data(), block->value.size());
  return Found::kValue;
}

/// None: it is not whole. What is told lies in `bytes`.
/// Shape   its class is one.
Result<std::optional<BlockView>> Client::read_block(const Location& location,
                                                    std::vector<std::byte>* bytes, TimeUs until) {
  bytes->resize(location.bytes());
  const Routes::BlockRead read{location.offset(), *bytes};
  ++counts_.reads;
  BRECCIA_TRY(routes_.read_memory(location.node, {&read, 1}, until));
  auto block = whole_block(*bytes);
  if (!block.has_value()) ++counts_.torn;
  return block;
}

/// Whether buckets are as they were, byte by byte.
Result<bool> Client::are_same(std::span<const std::pair<std::uint32_t, Bucket>> seen,
                              TimeUs until) {
  std::vector<Bucket> now(seen.size());
  std::vector<fabric::Read> reads;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    reads.push_back({routes_.table().region, offset_of(seen[i].first),
                     std::as_writable_bytes(std::span(now).subspan(i, 1))});
  }
  counts_.reads += reads.size();
  BRECCIA_TRY(routes_.read_table(reads, until));
  return std::equal(seen.begin(), seen.end(), now.begin(), [](const auto& before, const Bucket& b) {
    return std::memcmp(&before.second, &b, sizeof b) == 0;
  });
}

// ---- ranges ------------------------------------------------------------------------------------

Status Client::scan(const Slice& begin, const Slice& end, std::uint32_t limit, Pairs* found,
                    TimeUs until) {
  if (limit > kScanMax) return Status::InvalidArgument("a range of more than 4096 keys");
  if (begin.size() > kKeyBytesMax || end.size() > kKeyBytesMax) {
    return Status::InvalidArgument("a key has up to 65536 bytes");
  }
  return again_and_again(until, [&]() -> Status {
    BRECCIA_TRY(ready(until));
    return scan_once(begin, end, limit, found, until);
  });
}

Status Client::scan_once(const Slice& begin, const Slice& end, std::uint32_t limit, Pairs* found,
                         TimeUs until) {
  WireWriter question;
  question.add_bytes(begin).add_bytes(end).add(limit);
  const TimeUs asked = port_->now_us();
  BRECCIA_TAKE(const auto answer, routes_.ask_ordered(Ask::kScan, question, until));
  WireReader reader(answer);
  const auto head = reader.take<ScanHead>();
  std::vector<Slot> slots;
  while (reader.left() >= sizeof(Slot)) slots.push_back(reader.take<Slot>());
  if (!reader.is_whole() || slots.size() > limit) return Status::IOError("no answer to a scan");
  if (port_->now_us() - asked >= head.for_us) {
    return Status::TryAgain("there may be another ordered server");
  }
  found->clear();
  BRECCIA_TAKE(const bool is_whole, read_values(slots, found, until));
  // Behind that time a block may be another's.
  if (port_->now_us() - asked > routes_.table().read_us) {
    ++counts_.anew;
    return Status::TryAgain("a range that took too long");
  }
  if (!is_whole || !is_in_order(begin, end, *found)) {
    return Status::Corruption("the index leads to what is no value of the range");
  }
  return wait_for(head.sequence, until);
}

/// Keys and values of blocks, those of each server at once. False: one is not whole.
Result<bool> Client::read_values(std::span<const Slot> slots,
                                 std::vector<std::pair<std::string, std::string>>* found,
                                 TimeUs until) {
  std::vector<std::vector<std::byte>> bytes(slots.size());
  std::map<std::uint32_t, std::vector<Routes::BlockRead>> reads;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const Location location = location_in(slots[i]);
    if (!is_block(location)) return false;
    bytes[i].resize(location.bytes());
    reads[location.node].push_back({location.offset(), bytes[i]});
  }
  for (const auto& [node, of_node] : reads) {
    counts_.reads += of_node.size();
    BRECCIA_TRY(routes_.read_memory(node, of_node, until));
  }
  for (const std::vector<std::byte>& one : bytes) {
    const auto block = whole_block(one);
    if (!block.has_value()) {
      ++counts_.torn;
      return false;
    }
    found->emplace_back(block->key.ToString(), block->value.ToString());
  }
  return true;
}

/// Until lookups find all that a scan has found, so that none behind it is older.
Status Client::wait_for(std::uint64_t sequence, TimeUs until) {
  const TimeUs tries_until = std::min(until, port_->now_us() + options_.try_us);
  while (true) {
    std::array<std::byte, sizeof(Watermark)> bytes;
    const fabric::Read read{routes_.table().region, 0, bytes};
    ++counts_.reads;
    BRECCIA_TRY(routes_.read_table({&read, 1}, until));
    const auto watermark = Watermark::in(bytes);
    if (watermark.has_value() && *watermark >= sequence) return Status::OK();
    if (port_->now_us() >= tries_until) return Status::TryAgain("a watermark that stands still");
    // Answers to what was given up may come meanwhile.
    (void)port_->poll(std::min(until, port_->now_us() + kWatermarkUs));
  }
}

// ---- writes ------------------------------------------------------------------------------------

Status Client::put(const Slice& key, const Slice& value, TimeUs until) {
  BRECCIA_TRY(check_key(key));
  if (value.size() > kValueBytesMax) return Status::InvalidArgument("a value has up to 1 MiB");
  return again_and_again(until, [&] { return put_once(key, value, until); });
}

Status Client::put_once(const Slice& key, const Slice& value, TimeUs until) {
  const TimeUs since = port_->now_us();
  BRECCIA_TRY(ready(until));
  BRECCIA_TRY(blocks_.tend(until));
  const auto generation = static_cast<std::uint32_t>(random_.next());
  const std::vector<std::byte> block = make_block(generation, key, value);
  BRECCIA_TAKE(const Location location, blocks_.take(class_of(block.size()), &random_, until));
  Status written = routes_.write_memory(location, block, until);
  if (!written.ok()) {
    blocks_.lose_unwritten(location);
    return written;
  }
  WireWriter question;
  question.add(slot_of(0, location)).add_bytes(key);
  const auto replaced = ask_for_change(Ask::kPut, question, blocks_.ask_until(location, until));
  if (!replaced.ok()) {
    is_known_not(replaced.status()) ? blocks_.let_rest(location, since) : blocks_.lose();
    return replaced.status();
  }
  if (replaced.value().slot != 0) blocks_.let_rest(location_in(replaced.value().slot), since);
  cache_.keep(routes_.table().seeds.id_of(key), location, generation);
  return Status::OK();
}

Status Client::erase(const Slice& key, TimeUs until) {
  BRECCIA_TRY(check_key(key));
  return again_and_again(until, [&]() -> Status {
    const TimeUs since = port_->now_us();
    BRECCIA_TRY(ready(until));
    BRECCIA_TRY(blocks_.tend(until));
    WireWriter question;
    question.add_bytes(key);
    BRECCIA_TAKE(const Replaced replaced, ask_for_change(Ask::kErase, question, until));
    if (replaced.slot != 0) blocks_.let_rest(location_in(replaced.slot), since);
    cache_.forget(routes_.table().seeds.id_of(key));
    return Status::OK();
  });
}

/// Errors  what is to be tried again: nothing has happened. IOError: that is not known.
Result<Replaced> Client::ask_for_change(Ask what, const WireWriter& question, TimeUs until) {
  // Who is busy for long may have another one in its place.
  const TimeUs busy_until = std::min(until, port_->now_us() + options_.try_us);
  auto answer = routes_.ask_hash(what, question, until);
  for (TimeUs pause = kPauseUs; answer.status().IsBusy() && port_->now_us() < busy_until;) {
    (void)port_->poll(std::min(busy_until, port_->now_us() + pause));
    pause = std::min(2 * pause, kPauseUsMax);
    answer = routes_.ask_hash(what, question, until);
  }
  if (!answer.ok()) {
    return is_known_not(answer.status()) ? answer.status() : not_known(answer.status());
  }
  WireReader reader(answer.value());
  const auto replaced = reader.take<Replaced>();
  if (!reader.is_whole()) return not_known(Status::IOError("no answer to a write"));
  return replaced;
}

Status Client::close(TimeUs until) { return blocks_.close(until); }

}  // namespace breccia::disagg
