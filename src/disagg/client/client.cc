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
      cache_(0),
      lookups_(port, &routes_, &cache_, &counts_),
      writes_(port, &routes_, &blocks_, &cache_,
              {.busy_us = options.try_us,
               .answer_us = options.ask_again_us,
               .seed = options.seed == 0 ? base::draw_secret_word() : options.seed}) {}

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
  Lookup one{.key = key, .value = value};
  BRECCIA_TRY(get({&one, 1}, until));
  return one.status();
}

Status Client::get(std::span<Lookup> lookups, TimeUs until) {
  for (const Lookup& one : lookups) {
    if (one.found == Lookup::Found::kNotYet) BRECCIA_TRY(check_key(one.key));
  }
  return again_and_again(until, [&]() -> Status {
    BRECCIA_TRY(routes_.trust(until));
    forget_other_table();
    if (routes_.is_whole()) return lookups_.run(lookups, until);
    for (Lookup& one : lookups) BRECCIA_TRY(get_in_order(&one, until));
    return Status::OK();
  });
}

/// A range of one key.
Status Client::get_in_order(Lookup* lookup, TimeUs until) {
  if (lookup->found != Lookup::Found::kNotYet) return Status::OK();
  ++counts_.ordered;
  const std::string behind = lookup->key.ToString() + '\0';
  Pairs found;
  bool is_cut = false;
  BRECCIA_TRY(scan_once(lookup->key, behind, 1, kAllBytes, &found, &is_cut, until));
  lookup->found = found.empty() ? Lookup::Found::kNothing : Lookup::Found::kValue;
  if (!found.empty()) *lookup->value = std::move(found.front().second);
  return Status::OK();
}

// ---- ranges ------------------------------------------------------------------------------------

Status Client::scan(const Slice& begin, const Slice& end, std::uint32_t limit, Pairs* found,
                    TimeUs until) {
  bool is_cut = false;
  return scan_part(begin, end, limit, kAllBytes, found, &is_cut, until);
}

Status Client::scan_part(const Slice& begin, const Slice& end, std::uint32_t limit,
                         std::uint64_t bytes_max, Pairs* found, bool* is_cut, TimeUs until) {
  if (limit > kScanMax) return Status::InvalidArgument("a range of more than 4096 keys");
  // Behind the longest key a range begins with one byte more.
  if (begin.size() > kKeyBytesMax + 1 || end.size() > kKeyBytesMax + 1) {
    return Status::InvalidArgument("a key has up to 65536 bytes");
  }
  return again_and_again(until, [&]() -> Status {
    BRECCIA_TRY(ready(until));
    return scan_once(begin, end, limit, bytes_max, found, is_cut, until);
  });
}

Status Client::scan_once(const Slice& begin, const Slice& end, std::uint32_t limit,
                         std::uint64_t bytes_max, Pairs* found, bool* is_cut, TimeUs until) {
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
  *is_cut = cut(bytes_max, &slots);
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
    if (port_->now_us() >= tries_until) {
      routes_.doubt_table();
      return Status::TryAgain("a watermark that stands still");
    }
    // Answers to what was given up may come meanwhile.
    (void)port_->poll(std::min(until, port_->now_us() + kWatermarkUs));
  }
}

// ---- writes ------------------------------------------------------------------------------------

Status Client::put(const Slice& key, const Slice& value, TimeUs until) {
  const Change one{.key = key, .value = value};
  std::size_t done = 0;
  return write({&one, 1}, &done, until);
}

Status Client::erase(const Slice& key, TimeUs until) {
  const Change one{.key = key, .value = {}};
  std::size_t done = 0;
  return write({&one, 1}, &done, until);
}

Status Client::write(std::span<const Change> changes, std::size_t* done, TimeUs until) {
  *done = 0;
  for (const Change& one : changes) BRECCIA_TRY(check(one));
  bool is_again = false;
  return again_and_again(until, [&]() -> Status {
    // What was refused is not put again where its answer may come too late: then it would not be
    // known whether it was written.
    const bool is_late = port_->now_us() + options_.ask_again_us >= until;
    if (std::exchange(is_again, true) && is_late) return Status::TimedOut("servers refused it");
    while (*done < changes.size()) {
      BRECCIA_TRY(ready(until));
      BRECCIA_TRY(blocks_.tend(until));
      BRECCIA_TAKE(const std::size_t more, writes_.run(changes.subspan(*done), until));
      *done += more;
    }
    return Status::OK();
  });
}

Status Client::close(TimeUs until) { return blocks_.close(until); }

}  // namespace breccia::disagg
