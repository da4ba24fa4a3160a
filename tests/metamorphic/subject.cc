#include "subject.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <sstream>
#include <string_view>

#include "base/assert.h"
#include "option_sets.h"

namespace breccia::metamorphic {

// ---- the history -------------------------------------------------------------------------------

bool History::goes_on(Status::Code code) {
  is_cut_ = is_cut_ || code == Status::Code::kTryAgain;
  return !is_cut_;
}

void History::add(const char* what, const Status& status) {
  if (!goes_on(status.code())) return;
  fmt::format_to(std::back_inserter(text_), "{} {} {}\n", op_, what,
                 static_cast<int>(status.code()));
}

void History::add_value(Status::Code code, const Slice& value) {
  if (!goes_on(code)) return;
  fmt::format_to(std::back_inserter(text_), "{} code {}", op_, static_cast<int>(code));
  if (code == Status::Code::kOk) add_bytes(value);
  text_ += '\n';
}

void History::add_entry(const Slice& key, const Slice& value) {
  if (is_cut_) return;
  fmt::format_to(std::back_inserter(text_), "{} key", op_);
  add_bytes(key);
  text_ += " value";
  add_bytes(value);
  text_ += '\n';
}

void History::add_end(Status::Code code) {
  if (!goes_on(code)) return;
  fmt::format_to(std::back_inserter(text_), "{} end {}\n", op_, static_cast<int>(code));
}

void History::add_fault(const std::string& what) {
  fmt::format_to(std::back_inserter(text_), "{} FAULT {}\n", op_, what);
}

// The first bytes are for people; the checksum is for all that may differ behind them.
void History::add_bytes(const Slice& bytes) {
  constexpr std::size_t kShownMax = 16;
  fmt::format_to(std::back_inserter(text_), " {}:", bytes.size());
  for (std::size_t i = 0; i < std::min(bytes.size(), kShownMax); ++i) {
    fmt::format_to(std::back_inserter(text_), "{:02x}", static_cast<unsigned char>(bytes[i]));
  }
  if (bytes.size() <= kShownMax) return;
  const std::string_view all(bytes.data(), bytes.size());
  fmt::format_to(std::back_inserter(text_), "~{:x}", std::hash<std::string_view>()(all));
}

// ---- running -----------------------------------------------------------------------------------

History Subject::run(const List& list) {
  History history;
  for (std::size_t i = 0; i < list.ops.size() && !stopped_ && !history.is_cut(); ++i) {
    history.begin(i);
    run_op(list.ops[i], &history);
  }
  end_readers();
  return history;
}

void Subject::end_readers() {
  for (auto& cursor : cursors_) cursor.reset();
  for (std::uint32_t slot = 0; slot < kSnapshots; ++slot) {
    if (taken_[slot]) release_snapshot(slot);
  }
  taken_.fill(false);
  for (std::uint32_t slot = 0; slot < kTransactions; ++slot) {
    if (begun_[slot]) roll_back(slot);
  }
  begun_.fill(false);
}

void Subject::run_op(const Op& op, History* history) {
  if (op.kind >= Kind::kIterator && op.kind <= Kind::kClose) return run_iterator_op(op, history);
  if (op.kind >= Kind::kIndexed && op.kind <= Kind::kRollback) {
    return run_transaction_op(op, history);
  }
  if (is_write(op.kind)) return history->add("write", write(op));
  if (op.kind == Kind::kGet) {
    std::string value;
    const Status status = get(op, &value);
    return history->add_value(status.code(), value);
  }
  if (has_parts(op.kind) || op.kind == Kind::kRange) {
    const Status status = run_parts(op, history);
    return history->add("done", status);
  }
  if (op.kind == Kind::kScan) {
    const auto iterator = iterate(rocksdb::ReadOptions(), op.family, op.snapshot);
    return add_entries(iterator.get(), op.variant, history);
  }
  run_store_op(op, history);
}

void Subject::run_transaction_op(const Op& op, History* history) {
  switch (op.kind) {
    case Kind::kIndexed:
      return history->add("indexed", run_indexed(op, history));
    case Kind::kBegin:
      begun_[op.transaction] = true;
      return begin(op);
    case Kind::kWithin:
      return history->add("within", run_within(op, history));
    case Kind::kRollback:
      begun_[op.transaction] = false;
      return roll_back(op.transaction);
    default:
      begun_[op.transaction] = false;
      return commit(op, history);
  }
}

void Subject::run_store_op(const Op& op, History* history) {
  if (ends_readers(op.kind)) end_readers();
  switch (op.kind) {
    case Kind::kSnapshot:
      taken_[op.snapshot] = true;
      return take_snapshot(op.snapshot);
    case Kind::kRelease:
      taken_[op.snapshot] = false;
      return release_snapshot(op.snapshot);
    case Kind::kCreate:
      return history->add("create", create_family(op.family));
    case Kind::kDrop:
      return history->add("drop", drop_family(op));
    case Kind::kFlush:
      return history->add("flush", flush());
    case Kind::kCompact:
      return history->add("compact", compact());
    case Kind::kSync:
      return history->add("sync", sync());
    default: {
      const Status status = reopen(op, history);
      stopped_ = !status.ok();
      if (stopped_) history->add_fault("reopen: " + status.ToString());
    }
  }
}

// ---- batches -----------------------------------------------------------------------------------

Status Subject::add_request(const Op& part, FamilyId family, Batch* batch) const {
  const Slice at = key(part.key);
  switch (part.kind) {
    case Kind::kPut:
      return batch->Put(family, at, make_value(part.value));
    case Kind::kDelete:
      return batch->Delete(family, at);
    case Kind::kSingleDelete:
      return batch->SingleDelete(family, at);
    case Kind::kMerge:
      return batch->Merge(family, at, make_value(part.value));
    case Kind::kDeleteRange:
      return batch->DeleteRange(family, at, key(part.end));
    case Kind::kGet:
      return batch->Get(family, at);
    default:
      return batch->Range(family, at, key(part.end), part.number);
  }
}

namespace {

/// What ranges found, as lists of strings.
class RangeLists {
 public:
  explicit RangeLists(const Batch& batch) {
    const std::size_t ranges = batch.ranges();
    lists_.resize(ranges + 1);
    found_.resize(ranges);
    BRECCIA_ASSERT(batch.RangeOffsets(0, ranges, lists_.data(), found_.data()).ok());
    const auto entries = static_cast<std::size_t>(lists_[ranges]);
    keys_.offsets.resize(entries + 1);
    values_.offsets.resize(entries + 1);
    BRECCIA_ASSERT(
        batch.EntryOffsets(0, ranges, lists_.data(), keys_.offsets.data(), values_.offsets.data())
            .ok());
    BRECCIA_ASSERT(batch.CopyEntries(0, ranges, lists_.data(), keys_.room(), values_.room()).ok());
  }

  void add_to(History* history, std::size_t range) const {
    const auto end = static_cast<std::size_t>(lists_[range + 1]);
    for (auto i = static_cast<std::size_t>(lists_[range]); i < end; ++i) {
      history->add_entry(keys_.at(i), values_.at(i));
    }
  }
  [[nodiscard]] bool found(std::size_t range) const { return found_[range] != 0; }

 private:
  struct Strings {
    std::vector<std::int64_t> offsets;
    std::string bytes;

    BytesRoom room() {
      bytes.resize(static_cast<std::size_t>(offsets.back()));
      return BytesRoom::Variable(bytes.data(), offsets.data());
    }
    [[nodiscard]] Slice at(std::size_t i) const {
      const auto begin = static_cast<std::size_t>(offsets[i]);
      return {bytes.data() + begin, static_cast<std::size_t>(offsets[i + 1]) - begin};
    }
  };

  std::vector<std::int64_t> lists_;
  std::vector<std::uint8_t> found_;
  Strings keys_;
  Strings values_;
};

}  // namespace

/// Every other batch's ranges are taken as columns.
void Subject::add_results(const std::vector<Op>& parts, const Batch& batch, History* history) {
  std::size_t read = 0;
  std::size_t range = 0;
  std::optional<RangeLists> lists;
  if (batch.ranges() > 0 && parts.size() % 2 == 1) lists.emplace(batch);
  for (const Op& part : parts) {
    if (part.kind == Kind::kGet) {
      const Status::Code code = batch.code(read);
      history->add_value(code, code == Status::Code::kOk ? batch.value(read) : Slice());
      ++read;
    } else if (part.kind == Kind::kRange) {
      if (lists.has_value()) {
        lists->add_to(history, range);
        BRECCIA_ASSERT(lists->found(range) == (batch.range_code(range) == Status::Code::kOk));
      }
      for (std::size_t i = 0; !lists.has_value() && i < batch.range_size(range); ++i) {
        const auto [found, value] = batch.range_entry(range, i);
        history->add_entry(found, value);
      }
      history->add_end(batch.range_code(range));
      ++range;
    }
  }
}

// ---- iterators ---------------------------------------------------------------------------------

void Subject::add_entries(rocksdb::Iterator* iterator, bool backwards, History* history) {
  if (backwards) {
    for (iterator->SeekToLast(); iterator->Valid(); iterator->Prev()) {
      history->add_entry(iterator->key(), iterator->value());
    }
  } else {
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
      history->add_entry(iterator->key(), iterator->value());
    }
  }
  history->add_end(iterator->status().code());
}

void Subject::add_range(rocksdb::Iterator* iterator, const Slice& begin, std::uint32_t limit,
                        History* history) {
  std::uint32_t count = 0;
  for (iterator->Seek(begin); iterator->Valid() && count < limit; iterator->Next()) {
    history->add_entry(iterator->key(), iterator->value());
    ++count;
  }
  history->add_end(iterator->status().code());
}

void Subject::open_iterator(const Op& op) {
  auto cursor = std::make_unique<Cursor>();
  rocksdb::ReadOptions options;
  options.tailing = op.number == kTailing;
  options.prefix_same_as_start = op.number == kSamePrefix;
  options.total_order_seek = op.number == kTotalOrder;
  options.auto_prefix_mode = op.number == kAutoPrefix;
  if (op.key != kNone) {
    cursor->lower = key(op.key).ToString();
    cursor->lower_slice = cursor->lower;
    options.iterate_lower_bound = &cursor->lower_slice;
  }
  if (op.end != kNone) {
    cursor->upper = key(op.end).ToString();
    cursor->upper_slice = cursor->upper;
    options.iterate_upper_bound = &cursor->upper_slice;
  }
  cursor->iterator = iterate(options, op.family, op.snapshot);
  cursors_[op.iterator] = std::move(cursor);
}

void Subject::run_iterator_op(const Op& op, History* history) {
  if (op.kind == Kind::kIterator) return open_iterator(op);
  if (op.kind == Kind::kClose) return cursors_[op.iterator].reset();
  rocksdb::Iterator* const iterator = cursors_[op.iterator]->iterator.get();
  if (op.kind == Kind::kRefresh) return history->add("refresh", iterator->Refresh());
  move(op, iterator, history);
}

void Subject::move(const Op& op, rocksdb::Iterator* iterator, History* history) {
  const auto show = [&] {
    if (iterator->Valid()) {
      history->add_entry(iterator->key(), iterator->value());
    } else {
      history->add_end(iterator->status().code());
    }
  };
  switch (op.kind) {
    case Kind::kSeek:
      iterator->Seek(key(op.key));
      return show();
    case Kind::kSeekForPrev:
      iterator->SeekForPrev(key(op.key));
      return show();
    case Kind::kSeekToFirst:
      iterator->SeekToFirst();
      return show();
    case Kind::kSeekToLast:
      iterator->SeekToLast();
      return show();
    default:
      break;
  }
  for (std::uint32_t step = 0; step < op.number && iterator->Valid(); ++step) {
    op.kind == Kind::kNext ? iterator->Next() : iterator->Prev();
    show();
  }
}

// ---- comparing ---------------------------------------------------------------------------------

namespace {

/// The first line in which two histories differ, with its operation.
std::string difference(const List& list, const std::string& expected, const std::string& found) {
  std::istringstream expected_lines(expected);
  std::istringstream found_lines(found);
  std::string expected_line;
  std::string found_line;
  std::size_t same = 0;  // lines of the same operation before
  std::string last_op;
  do {
    expected_line = found_line = "(nothing more)";
    std::getline(expected_lines, expected_line);
    std::getline(found_lines, found_line);
    const std::string op = found_line.substr(0, found_line.find(' '));
    same = op == last_op ? same + 1 : 0;
    last_op = op;
  } while (expected_line == found_line);
  const std::string& line = expected_line[0] != '(' ? expected_line : found_line;
  const auto op = static_cast<std::size_t>(std::strtoull(line.c_str(), nullptr, 10));
  return fmt::format("operation {}, result {} ({})\n  expected {}\n  found    {}", op, same,
                     print(list.ops[op]).substr(0, 200), expected_line, found_line);
}

void count_outcomes(const History& history, Met* met) {
  std::istringstream lines(history.text());
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with(" 9")) ++met->locked;  // TimedOut
    if (line.find(" commit ") == std::string::npos) continue;
    ++(line.ends_with(" 0") ? met->commits : met->conflicts);
  }
}

}  // namespace

std::string check_list(const List& list, Met* met) {
  const model::Universe universe = universe_of(list);
  const History expected = make_reference(universe, list.api)->run(list);
  if (met != nullptr) count_outcomes(expected, met);
  const auto make = [&](std::uint32_t set) {
    return list.api == Api::kStore ? make_store(universe, set, list.seed)
                                   : make_facade(universe, list.api, set, list.seed);
  };
  for (const std::uint32_t set : list.sets) {
    const History found = make(set)->run(list);
    if (met != nullptr && found.is_cut()) ++met->cuts;
    const bool same = found.is_cut() ? expected.text().starts_with(found.text())
                                     : expected.text() == found.text();
    if (same) continue;
    return fmt::format("option set {} ({}): {}", set, option_sets()[set].name,
                       difference(list, expected.text(), found.text()));
  }
  return "";
}

}  // namespace breccia::metamorphic
