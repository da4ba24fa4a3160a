#include "disagg/client.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "disagg/watermark.h"

namespace breccia::disagg {

namespace {

using fabric::TimeUs;

/// Blocks that are asked for at once: of small ones many.
constexpr std::uint64_t kLeaseBytes = 64 << 10;
constexpr std::size_t kGiveBackMax = 256;
/// Between two looks at a watermark.
constexpr TimeUs kWatermarkUs = 10;
/// Who is told to try again does so behind a pause, each time a longer one.
constexpr TimeUs kPauseUs = 50;
constexpr TimeUs kPauseUsMax = 5000;

Status over(const char* what) { return Status::TimedOut(what); }

Status not_known(const Status& why) {
  const char* const sentence = "whether it was written is not known";
  return why.IsTimedOut() ? Status::TimedOut(sentence) : Status::IOError(sentence, why.ToString());
}

bool is_known_not(const Status& status) {
  return status.IsMemoryLimit() || status.IsInvalidArgument() || status.IsBusy();
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

Result<std::unique_ptr<Client>> Client::open(fabric::Port* port, const ClientOptions& options,
                                             TimeUs until) {
  if (options.memory_servers.empty()) {
    return Status::InvalidArgument("no memory server", "name one at least");
  }
  if (options.lease_max == 0) return Status::InvalidArgument("no block at once");
  std::unique_ptr<Client> client(new Client(port, options));
  BRECCIA_TRY(client->meet(until));
  return client;
}

Client::~Client() {
  for (const auto& [number, node] : memory_) port_->disconnect(node.of.peer);
  if (ordered_server_.has_value()) port_->disconnect(*ordered_server_);
  if (hash_server_.has_value()) port_->disconnect(*hash_server_);
}

Status Client::meet(TimeUs until) {
  BRECCIA_TAKE(hash_server_, port_->connect(options_.hash_server, until));
  BRECCIA_TAKE(const std::vector<std::byte> told,
               asking_.ask(*hash_server_, Ask::kTable, {}, until));
  WireReader table(told);
  table_ = table.take<TableInfo>();
  const TableShape& shape = table_.shape;
  const bool is_table =
      table.is_whole() && shape.bucket_bits <= 30 && shape.buckets >= 1U << shape.bucket_bits &&
      table_.region.bytes == offset_of(shape.buckets) && table_.read_us < table_.rest_us;
  if (!is_table) return Status::IOError("what a hash server told is no table");
  if (table_.marks == 1) cache_ = LocationCache(options_.cached_places);
  if (!options_.ordered_server.empty()) {
    BRECCIA_TAKE(ordered_server_, port_->connect(options_.ordered_server, until));
  }
  for (const std::string& address : options_.memory_servers) {
    BRECCIA_TAKE(const MemoryPeer of, meet_memory(port_, &asking_, address, until));
    if (!memory_.emplace(of.node, MemoryNode{.of = of, .leased = {}}).second) {
      port_->disconnect(of.peer);
      return Status::InvalidArgument("two memory servers have one number: " + address);
    }
    nodes_.push_back(of.node);
  }
  return Status::OK();
}

// ---- questions ---------------------------------------------------------------------------------

Result<Replaced> Client::ask_for_change(Ask what, const WireWriter& question, TimeUs until) {
  auto answer = asking_.ask(*hash_server_, what, question, until);
  for (TimeUs pause = kPauseUs; answer.status().IsBusy() && port_->now_us() < until;) {
    (void)port_->poll(std::min(until, port_->now_us() + pause));
    pause = std::min(2 * pause, kPauseUsMax);
    answer = asking_.ask(*hash_server_, what, question, until);
  }
  if (!answer.ok()) {
    return is_known_not(answer.status()) ? answer.status() : not_known(answer.status());
  }
  WireReader reader(answer.value());
  const auto replaced = reader.take<Replaced>();
  if (!reader.is_whole()) return not_known(Status::IOError("no answer to a write"));
  return replaced;
}

// ---- lookups -----------------------------------------------------------------------------------

Status Client::get(const Slice& key, std::string* value, TimeUs until) {
  BRECCIA_TRY(check_key(key));
  const KeyId id = table_.seeds.id_of(key);
  BRECCIA_TAKE(const bool is_where_it_was, look_where_it_was(key, id, value, until));
  if (is_where_it_was) return Status::OK();
  while (port_->now_us() < until) {
    BRECCIA_TAKE(const Found found, look(key, id, value, until));
    if (found == Found::kValue) return Status::OK();
    if (found == Found::kNothing) return Status::NotFound();
    ++counts_.anew;
  }
  return over("a lookup");
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
  const bool is_late = port_->now_us() - begin > table_.read_us;
  const bool is_it = block.ok() && !is_late && block.value().has_value() &&
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
  std::uint32_t at = table_.shape.first_bucket(id.hash);
  do {
    // So long is no chain: the table changed on the way.
    const bool is_chain = at < table_.shape.buckets && seen.size() < table_.shape.buckets;
    if (!is_chain) return Found::kAnew;
    const TimeUs begin = port_->now_us();
    BRECCIA_TAKE(const Bucket bucket, read_bucket(at, until));
    BRECCIA_TAKE(const Found found, look_in(bucket, key, id, value, until));
    // Behind that time a block that the entry led to may be another's.
    if (port_->now_us() - begin > table_.read_us) {
      cache_.forget(id);
      return Found::kAnew;
    }
    if (found == Found::kValue) return found;
    seen.emplace_back(at, bucket);
    if (found == Found::kAnew) {
      BRECCIA_TAKE(const bool is_same, are_same(std::span(seen).last(1), until));
      if (is_same) return Status::Corruption("an entry leads to what is no value");
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
    const fabric::Read read{table_.region, offset_of(bucket), bytes};
    ++counts_.reads;
    BRECCIA_TRY(port_->read(*hash_server_, {&read, 1}, until));
    if (const auto whole = whole_bucket(bytes)) return *whole;
    ++counts_.torn;
    if (port_->now_us() >= until) return over("a bucket that always changes");
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
  if (!memory_.contains(location.node) || location.size_class >= kSizeClasses) return Found::kAnew;
  std::vector<std::byte> bytes;
  BRECCIA_TAKE(const auto block, read_block(location, &bytes, until));
  if (!block.has_value()) return Found::kAnew;
  if (block->key != key) return Found::kNothing;
  if (!block->is_replaced) cache_.keep(id, location, block->generation);
  value->assign(block->value.data(), block->value.size());
  return Found::kValue;
}

/// None: it is not whole. What is told lies in `bytes`.
/// Shape   the location's node is known, and its class one.
Result<std::optional<BlockView>> Client::read_block(const Location& location,
                                                    std::vector<std::byte>* bytes, TimeUs until) {
  const MemoryNode& node = memory_.at(location.node);
  bytes->resize(location.bytes());
  const fabric::Read read{node.of.region, location.offset(), *bytes};
  ++counts_.reads;
  BRECCIA_TRY(port_->read(node.of.peer, {&read, 1}, until));
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
    reads.push_back({table_.region, offset_of(seen[i].first),
                     std::as_writable_bytes(std::span(now).subspan(i, 1))});
  }
  counts_.reads += reads.size();
  BRECCIA_TRY(port_->read(*hash_server_, reads, until));
  return std::equal(seen.begin(), seen.end(), now.begin(), [](const auto& before, const Bucket& b) {
    return std::memcmp(&before.second, &b, sizeof b) == 0;
  });
}

// ---- ranges ------------------------------------------------------------------------------------

Status Client::scan(const Slice& begin, const Slice& end, std::uint32_t limit,
                    std::vector<std::pair<std::string, std::string>>* found, TimeUs until) {
  if (!ordered_server_.has_value()) return Status::NotSupported("there is no ordered server");
  if (limit > kScanMax) return Status::InvalidArgument("a range of more than 4096 keys");
  if (begin.size() > kKeyBytesMax || end.size() > kKeyBytesMax) {
    return Status::InvalidArgument("a key has up to 65536 bytes");
  }
  WireWriter question;
  question.add_bytes(begin).add_bytes(end).add(limit);
  while (port_->now_us() < until) {
    const TimeUs asked = port_->now_us();
    BRECCIA_TAKE(const std::vector<std::byte> answer,
                 asking_.ask(*ordered_server_, Ask::kScan, question, until));
    WireReader reader(answer);
    const auto through = reader.take<std::uint64_t>();
    std::vector<Slot> slots;
    while (reader.left() >= sizeof(Slot)) slots.push_back(reader.take<Slot>());
    if (!reader.is_whole() || slots.size() > limit) return Status::IOError("no answer to a scan");
    found->clear();
    BRECCIA_TAKE(const bool is_whole, read_values(slots, found, until));
    // Behind that time a block may be another's.
    const bool is_late = port_->now_us() - asked > table_.read_us;
    const bool is_range = is_whole && is_in_order(begin, end, *found);
    if (is_range && !is_late) return wait_for(through, until);
    if (!is_late) return Status::Corruption("the index leads to what is no value of the range");
    ++counts_.anew;
  }
  return over("a scan");
}

/// Keys and values of blocks, those of each server at once. False: one is not whole.
Result<bool> Client::read_values(std::span<const Slot> slots,
                                 std::vector<std::pair<std::string, std::string>>* found,
                                 TimeUs until) {
  std::vector<std::vector<std::byte>> bytes(slots.size());
  std::map<std::uint32_t, std::vector<fabric::Read>> reads;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const Location location = location_in(slots[i]);
    const auto node = memory_.find(location.node);
    if (node == memory_.end() || location.size_class >= kSizeClasses) return false;
    bytes[i].resize(location.bytes());
    reads[location.node].push_back({node->second.of.region, location.offset(), bytes[i]});
  }
  for (const auto& [node, of_node] : reads) {
    counts_.reads += of_node.size();
    BRECCIA_TRY(port_->read(memory_.at(node).of.peer, of_node, until));
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
  while (true) {
    std::array<std::byte, sizeof(Watermark)> bytes;
    const fabric::Read read{table_.region, 0, bytes};
    ++counts_.reads;
    BRECCIA_TRY(port_->read(*hash_server_, {&read, 1}, until));
    const auto watermark = Watermark::in(bytes);
    if (watermark.has_value() && *watermark >= sequence) return Status::OK();
    if (port_->now_us() >= until) return over("a scan");
    // Answers to what was given up may come meanwhile.
    (void)port_->poll(std::min(until, port_->now_us() + kWatermarkUs));
  }
}

// ---- writes ------------------------------------------------------------------------------------

Status Client::put(const Slice& key, const Slice& value, TimeUs until) {
  BRECCIA_TRY(check_key(key));
  if (value.size() > kValueBytesMax) return Status::InvalidArgument("a value has up to 1 MiB");
  BRECCIA_TRY(tend(until));
  const auto generation = static_cast<std::uint32_t>(random_.next());
  const std::vector<std::byte> block = make_block(generation, key, value);
  BRECCIA_TAKE(const Location location, take_block(class_of(block.size()), until));
  const MemoryNode& node = memory_.at(location.node);
  const fabric::Write write{node.of.region, location.offset(), block};
  Status written = port_->write(node.of.peer, {&write, 1}, until);
  if (!written.ok()) {
    ++counts_.lost;  // it may come yet
    return written;
  }
  WireWriter question;
  question.add(slot_of(0, location)).add_bytes(key);
  const auto replaced = ask_for_change(Ask::kPut, question, until);
  if (!replaced.ok()) {
    is_known_not(replaced.status()) ? let_rest(location) : void(++counts_.lost);
    return replaced.status();
  }
  if (replaced.value().slot != 0) let_rest(location_in(replaced.value().slot));
  cache_.keep(table_.seeds.id_of(key), location, generation);
  return Status::OK();
}

Status Client::erase(const Slice& key, TimeUs until) {
  BRECCIA_TRY(check_key(key));
  BRECCIA_TRY(tend(until));
  WireWriter question;
  question.add_bytes(key);
  BRECCIA_TAKE(const Replaced replaced, ask_for_change(Ask::kErase, question, until));
  if (replaced.slot != 0) let_rest(location_in(replaced.slot));
  cache_.forget(table_.seeds.id_of(key));
  return Status::OK();
}

// ---- blocks ------------------------------------------------------------------------------------

/// Of any server that has one, a random one first.
Result<Location> Client::take_block(std::uint32_t size_class, TimeUs until) {
  const std::uint64_t count = std::clamp<std::uint64_t>(
      kLeaseBytes / (lines_of(size_class) * kLineBytes), 1, options_.lease_max);
  const std::size_t first = random_.below(nodes_.size());
  Status none = Status::MemoryLimit("no memory server has room");
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const std::uint32_t number = nodes_[(first + i) % nodes_.size()];
    MemoryNode& node = memory_.at(number);
    std::vector<std::uint64_t>& lines = node.leased[size_class];
    if (lines.empty()) {
      WireWriter question;
      question.add(size_class).add(static_cast<std::uint32_t>(count));
      const auto answer = asking_.ask(node.of.peer, Ask::kLease, question, until);
      if (!answer.ok()) {
        none = answer.status();
        continue;
      }
      WireReader reader(answer.value());
      while (reader.left() >= sizeof(std::uint64_t)) lines.push_back(reader.take<std::uint64_t>());
      const std::uint64_t of_node = node.of.region.bytes / kLineBytes;
      const bool are_lines = std::all_of(lines.begin(), lines.end(), [&](std::uint64_t line) {
        return line > 0 && line < of_node && lines_of(size_class) <= of_node - line;
      });
      if (!reader.is_whole() || lines.empty() || !are_lines) {
        lines.clear();
        return Status::IOError("what a memory server leased is none of its lines");
      }
    }
    const std::uint64_t line = lines.back();
    lines.pop_back();
    return Location{.node = number, .size_class = size_class, .line = line};
  }
  return none;
}

void Client::let_rest(const Location& block) {
  resting_.push_back({port_->now_us() + table_.rest_us, block});
}

/// Gives back what has rested.
Status Client::tend(TimeUs until) {
  const TimeUs now = port_->now_us();
  if (resting_.empty() || resting_.front().until > now) return Status::OK();
  std::map<std::uint32_t, WireWriter> blocks;
  for (std::size_t n = 0; n < kGiveBackMax && !resting_.empty(); ++n) {
    if (resting_.front().until > now) break;
    const Location block = resting_.front().block;
    resting_.pop_front();
    blocks[block.node].add(block.size_class).add(block.line);
  }
  Status all;
  for (const auto& [node, of_node] : blocks) {
    Status one = give_back(node, of_node, until);
    if (all.ok()) all = std::move(one);
  }
  return all;
}

Status Client::give_back(std::uint32_t node, const WireWriter& blocks, TimeUs until) {
  const auto found = memory_.find(node);
  if (found == memory_.end()) return Status::OK();  // a server that this client does not know
  const auto answer = asking_.ask(found->second.of.peer, Ask::kGiveBack, blocks, until);
  if (!answer.ok()) ++counts_.lost;
  // Who has no answer cannot ask again: the blocks may be others' by now.
  return answer.status().IsInvalidArgument()
             ? Status::Corruption("a block was given back that is not in use")
             : Status::OK();
}

Status Client::close(TimeUs until) {
  for (auto& [number, node] : memory_) {
    for (auto& [size_class, lines] : node.leased) {
      WireWriter blocks;
      for (const std::uint64_t line : lines) blocks.add(size_class).add(line);
      if (!lines.empty()) BRECCIA_TRY(give_back(number, blocks, until));
      lines.clear();
    }
  }
  while (!resting_.empty()) {
    if (port_->now_us() >= until) return over("blocks rest");
    (void)port_->poll(std::min(until, resting_.front().until));
    BRECCIA_TRY(tend(until));
  }
  return Status::OK();
}

}  // namespace breccia::disagg
