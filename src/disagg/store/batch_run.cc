#include "disagg/store/batch_run.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "batch/answers.h"
#include "batch/single_keys.h"
#include "disagg/protocol.h"
#include "record/key_columns.h"
#include "record/record.h"

namespace breccia::disagg {

namespace {

using fabric::TimeUs;

/// Lookups whose keys and values are in memory at once beside the batch.
constexpr std::uint64_t kLookupsAtOnce = 4096;
/// Bytes of blocks that are read of a range at once.
constexpr std::uint64_t kRangeBytes = 1 << 20;
/// Writes that are handed over at once.
constexpr std::uint64_t kWritesAtOnce = 4096;

std::string key_at(const record::KeyColumnsRef& keys, std::uint64_t i) {
  std::string key(keys.bytes_at(i), '\0');
  record::restore_key(keys, i, key.data());
  return key;
}

/// A batch on its way.
class Run {
 public:
  Run(Client* client, batch::Requests* requests, TimeUs until)
      : client_(client),
        requests_(requests),
        writes_(batch::default_part(requests->writes())),
        reads_(batch::default_part(requests->reads())),
        ranges_(batch::default_part(requests->ranges())),
        until_(until) {}

  Status run() {
    if (writes_ != nullptr && !writes_->gather()) return Status::MemoryLimit("a batch's records");
    if (reads_ != nullptr) reads_->settle();
    BRECCIA_TRY(check_writes());
    while (true) {
      const std::uint64_t after = next_after();
      BRECCIA_TRY(write_up_to(after));
      BRECCIA_TRY(look_up(after));
      BRECCIA_TRY(look_through(after));
      if (after == kAll) return Status::OK();
    }
  }

 private:
  static constexpr std::uint64_t kAll = std::numeric_limits<std::uint64_t>::max();

  /// Behind how many bytes of writes the next lookup or range stands; kAll: there is none.
  [[nodiscard]] std::uint64_t next_after() const {
    std::uint64_t after = kAll;
    if (reads_ != nullptr && read_ < reads_->count()) after = reads_->after(read_);
    if (ranges_ != nullptr && range_ < ranges_->count()) {
      after = std::min(after, ranges_->after()[range_]);
    }
    return after;
  }
  [[nodiscard]] Status check_writes() const;
  [[nodiscard]] Change change_at(std::uint64_t i) const;
  Status write_up_to(std::uint64_t after);
  Status look_up(std::uint64_t after);
  Status look_up_some(std::uint64_t end);
  Status look_through(std::uint64_t after);
  Status find_range(std::uint64_t i, std::vector<std::pair<std::string, std::string>>* found) const;
  [[nodiscard]] bool keep_range(std::uint64_t i,
                                const std::vector<std::pair<std::string, std::string>>& found);

  Client* const client_;
  batch::Requests* const requests_;
  const batch::Writes* const writes_;
  batch::Reads* const reads_;
  batch::Ranges* const ranges_;
  const TimeUs until_;
  std::uint64_t write_ = 0, read_ = 0, range_ = 0;  // that comes next
};

/// Before anything happens.
Status Run::check_writes() const {
  for (std::uint64_t i = 0; writes_ != nullptr && i < writes_->point_count(); ++i) {
    BRECCIA_TRY(check(change_at(i)));
  }
  return Status::OK();
}

/// In the batch's records.
Change Run::change_at(std::uint64_t i) const {
  const std::uint64_t word = writes_->offsets()[i];
  const std::byte* const at = writes_->records() + record::position_of(word);
  const record::RecordHeader header = record::record_header(at);
  Change change{.key = Slice(record::record_key(at), header.key_bytes()), .value = {}};
  if (!record::is_deletion(record::op_of(word))) {
    change.value = Slice(record::record_value(at), header.value_bytes);
  }
  return change;
}

Status Run::write_up_to(std::uint64_t after) {
  if (writes_ == nullptr) return Status::OK();
  std::vector<Change> changes;
  const std::uint64_t n = writes_->point_count();
  const auto is_next = [&] {
    return write_ < n && record::position_of(writes_->offsets()[write_]) < after;
  };
  while (is_next()) {
    changes.clear();
    for (; is_next() && changes.size() < kWritesAtOnce; ++write_) {
      changes.push_back(change_at(write_));
    }
    BRECCIA_TRY(client_->write(changes, until_));
  }
  return Status::OK();
}

Status Run::look_up(std::uint64_t after) {
  if (reads_ == nullptr) return Status::OK();
  std::uint64_t end = read_;
  while (end < reads_->count() && reads_->after(end) <= after) ++end;
  while (read_ < end) BRECCIA_TRY(look_up_some(std::min(end, read_ + kLookupsAtOnce)));
  return Status::OK();
}

/// One that cannot be answered has a code of its own.
Status Run::look_up_some(std::uint64_t end) {
  const record::KeyColumnsRef keys = reads_->keys();
  const std::uint64_t begin = std::exchange(read_, end);
  std::vector<std::string> key(end - begin), value(end - begin);
  std::vector<Lookup> lookups(end - begin);
  for (std::uint64_t i = begin; i < end; ++i) {
    key[i - begin] = key_at(keys, i);
    Lookup& one = lookups[i - begin];
    one.key = key[i - begin];
    one.value = &value[i - begin];
    // Nobody can have written such a key.
    const bool may_be_there = !one.key.empty() && one.key.size() <= kKeyBytesMax;
    if (!may_be_there) one.found = Lookup::Found::kNothing;
  }
  BRECCIA_TRY(client_->get(lookups, until_));
  batch::Answers answers(reads_, &requests_->arena(0));
  for (std::uint64_t i = begin; i < end; ++i) {
    const Status status = lookups[i - begin].status();
    status.ok() ? answers.add_value(i, value[i - begin]) : answers.add(i, status.code());
  }
  return Status::OK();
}

Status Run::look_through(std::uint64_t after) {
  for (; ranges_ != nullptr && range_ < ranges_->count() && ranges_->after()[range_] <= after;
       ++range_) {
    std::vector<std::pair<std::string, std::string>> found;
    BRECCIA_TRY(find_range(range_, &found));
    if (!keep_range(range_, found)) return Status::MemoryLimit("what a range has found");
  }
  return Status::OK();
}

/// Part by part, none of more bytes than can be read while blocks rest.
Status Run::find_range(std::uint64_t i,
                       std::vector<std::pair<std::string, std::string>>* found) const {
  std::string begin = key_at(ranges_->begin(), i);
  const std::string end = key_at(ranges_->end(), i);
  const std::uint64_t limit = ranges_->limits()[i];
  std::vector<std::pair<std::string, std::string>> part;
  while (found->size() < limit) {
    const auto more =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(kScanMax, limit - found->size()));
    bool is_cut = false;
    BRECCIA_TRY(client_->scan_part(begin, end, more, kRangeBytes, &part, &is_cut, until_));
    const bool are_all = part.size() < more && !is_cut;
    if (!part.empty()) begin = part.back().first + '\0';
    std::move(part.begin(), part.end(), std::back_inserter(*found));
    if (are_all) break;
  }
  return Status::OK();
}

/// As records. False: there is no memory.
bool Run::keep_range(std::uint64_t i,
                     const std::vector<std::pair<std::string, std::string>>& found) {
  // Places of two records are as long as a pair.
  static_assert(sizeof(const std::byte*) == sizeof(std::uint64_t));
  std::uint64_t* const places = ranges_->make_pairs((found.size() + 1) / 2);
  if (places == nullptr && !found.empty()) return false;
  for (std::size_t j = 0; j < found.size(); ++j) {
    const auto& [key, value] = found[j];
    const auto header = record::RecordHeader::make(record::Op::kPut, key.size(), value.size());
    constexpr std::uint64_t kAlignment = 8;
    char* const room = requests_->arena(0).allocate(header.record_bytes() + kAlignment);
    const auto address = reinterpret_cast<std::uintptr_t>(room);
    auto* const record =
        reinterpret_cast<std::byte*>(room + ((kAlignment - address % kAlignment) % kAlignment));
    record::write_record(record, header, key.data(), key.size(), value.data(), value.size());
    std::memcpy(places + j, &record, sizeof record);
  }
  ranges_->results()[i] = {.pairs = nullptr,
                           .records = reinterpret_cast<const std::byte* const*>(places),
                           .count = static_cast<std::uint32_t>(found.size()),
                           .code = Status::Code::kOk};
  return true;
}

}  // namespace

Status run_batch(Client* client, batch::Requests* requests, TimeUs until) {
  if (!requests->prepare_results(/*parts=*/1, /*with_bounds=*/false)) {
    return Status::MemoryLimit("no memory for the results");
  }
  BRECCIA_TRY(Run(client, requests, until).run());
  requests->deliver();
  return Status::OK();
}

}  // namespace breccia::disagg
