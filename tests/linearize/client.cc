#include "client.h"

#include <fmt/format.h>

namespace breccia::linearize {

namespace {

/// What the batch's only range has found.
std::vector<std::pair<std::string, std::string>> pairs_of(const Batch& batch) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (std::size_t i = 0; i < batch.range_size(0); ++i) {
    const auto [key, value] = batch.range_entry(0, i);
    pairs.emplace_back(key.ToString(), value.ToString());
  }
  return pairs;
}

}  // namespace

Client::Client(Store* store, ordered::Engine* ordered, std::string prefix, int number,
               std::uint64_t seed)
    : store_(store),
      ordered_(ordered),
      prefix_(std::move(prefix)),
      number_(number),
      random_(seed),
      recorder_(number) {}

void Client::run(int operations) {
  for (int i = 0; i < operations && error_.empty(); ++i) run_one();
}

void Client::run_one() {
  const std::uint64_t dice = random_.below(100);
  if (dice < 30) return write_single();
  if (dice < 55) return read_single();
  if (dice < 65) return read_many();
  if (dice < 73) return ordered_ != nullptr ? read_range() : read_many();
  if (dice < 86) return run_batch();
  if (dice < 93) return ordered_ != nullptr ? read_snapshot() : read_single();
  run_transaction();
}

std::string Client::key() {
  return prefix_ + static_cast<char>('a' + static_cast<char>(random_.below(kKeys)));
}

std::string Client::fresh_value() { return fmt::format("{:02}.{:05}", number_, values_++); }

std::string Client::end_of_keys() const { return prefix_ + '~'; }

WriteOptions Client::options() {
  WriteOptions options;
  if (random_.one_in(8)) options.durability = Durability::kNone;
  if (random_.one_in(16)) options.durability = Durability::kSync;
  return options;
}

void Client::check(const Status& status) {
  if (!status.ok() && !status.IsNotFound() && error_.empty()) error_ = status.ToString();
}

void Client::write_single() {
  const std::string on = key();
  const std::string value = fresh_value();
  const std::int64_t called = Recorder::now();
  switch (random_.below(4)) {
    case 0:
      check(store_->Delete(options(), on));
      return recorder_.done(called, delete_body(on));
    case 1:
      if (ordered_ == nullptr) break;
      check(store_->Merge(options(), on, value));
      return recorder_.done(called, append_body(on, value));
    default:
      break;
  }
  check(store_->Put(options(), on, value));
  recorder_.done(called, put_body(on, value));
}

void Client::read_single() {
  const std::string on = key();
  std::string value;
  const std::int64_t called = Recorder::now();
  const Status status = store_->Get(on, &value);
  check(status);
  recorder_.done(called, get_body(on, status, value));
}

void Client::read_many() {
  const std::vector<std::string> keys{key(), key(), key()};
  const std::vector<Slice> slices(keys.begin(), keys.end());
  std::vector<std::string> values;
  const std::int64_t called = Recorder::now();
  const std::vector<Status> statuses = store_->MultiGet(slices, &values);
  const std::int64_t returned = Recorder::now();
  for (const Status& status : statuses) check(status);
  recorder_.add(called, returned, multi_get_body(keys, statuses, values));
}

void Client::read_range() {
  const auto limit = static_cast<std::uint32_t>(1 + random_.below(kKeys));
  const std::string begin = key();
  batch_.Clear();
  check(batch_.Range(begin, end_of_keys(), limit));
  const std::int64_t called = Recorder::now();
  check(store_->Submit(WriteOptions(), &batch_));
  const std::int64_t returned = Recorder::now();
  if (!error_.empty()) return;
  recorder_.add(called, returned, range_body(begin, end_of_keys(), limit, pairs_of(batch_)));
}

// Bodies of the reads are known only when the batch has run.
void Client::run_batch() {
  struct Item {
    std::string key;
    std::string body;  // empty: a read
  };
  std::vector<Item> items(1 + random_.below(6));
  batch_.Clear();
  for (Item& item : items) {
    item.key = key();
    const std::string value = fresh_value();
    const std::uint64_t dice = random_.below(5);
    switch (dice == 1 && ordered_ == nullptr ? 4 : dice) {
      case 0:
        item.body = delete_body(item.key);
        check(batch_.Delete(item.key));
        break;
      case 1:
        item.body = append_body(item.key, value);
        check(batch_.Merge(item.key, value));
        break;
      case 2:
        check(batch_.Get(item.key));
        break;
      default:
        item.body = put_body(item.key, value);
        check(batch_.Put(item.key, value));
    }
  }
  const std::int64_t called = Recorder::now();
  check(store_->Submit(options(), &batch_));
  const std::int64_t returned = Recorder::now();
  if (!error_.empty()) return;
  std::vector<std::string> bodies;
  std::size_t read = 0;
  for (const Item& item : items) {
    if (!item.body.empty()) {
      bodies.push_back(item.body);
      continue;
    }
    const Status status =
        batch_.code(read) == Status::Code::kOk ? Status::OK() : Status::NotFound();
    bodies.push_back(get_body(item.key, status, batch_.value(read).ToString()));
    ++read;
  }
  recorder_.add(called, returned, list_body("batch", "items", bodies));
}

void Client::read_snapshot() {
  const std::int64_t called = Recorder::now();
  const ordered::Pin pin = ordered_->pin();
  const std::int64_t returned = Recorder::now();
  std::vector<std::string> bodies;
  for (std::uint64_t i = 0; i < 1 + random_.below(4); ++i) {
    const std::string on = key();
    rocksdb::PinnableSlice value;
    const Status status = ordered_->lookups().get(pin, kDefaultFamily, on, &value, nullptr);
    check(status);
    bodies.push_back(get_body(on, status, value.ToString()));
  }
  recorder_.add(called, returned, list_body("snapshot", "reads", bodies));
}

// A conflict is no error; its reads were those of one moment all the same.
void Client::run_transaction() {
  std::vector<std::string> keys(1 + random_.below(3));
  for (std::string& one : keys) one = key();
  const bool has_range = ordered_ != nullptr && random_.one_in(3);
  const std::int64_t called = Recorder::now();
  const auto transaction = store_->OpenTransaction();
  std::int64_t seen = Recorder::now();
  Batch reads;
  for (const std::string& one : keys) check(reads.Get(one));
  if (has_range) check(reads.Range(keys[0], end_of_keys(), 3));
  check(transaction->Read(&reads));
  // The hash engine's are as of that call.
  if (ordered_ == nullptr) seen = Recorder::now();
  std::vector<std::string> writes;
  const std::uint64_t count = random_.below(4);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string on = key();
    const std::string value = fresh_value();
    const bool appends = ordered_ != nullptr && random_.one_in(3);
    check(appends ? transaction->batch().Merge(on, value) : transaction->batch().Put(on, value));
    writes.push_back(appends ? append_body(on, value) : put_body(on, value));
  }
  const Status status = transaction->Close(options());
  const std::int64_t returned = Recorder::now();
  if (!status.IsBusy() && !status.IsTryAgain()) check(status);
  if (!error_.empty()) return;
  if (!writes.empty()) {
    ++transactions_;
    commits_ += status.ok() ? 1 : 0;
  }
  std::vector<std::string> read;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const Status found = reads.code(i) == Status::Code::kOk ? Status::OK() : Status::NotFound();
    read.push_back(get_body(keys[i], found, reads.value(i).ToString()));
  }
  if (has_range) read.push_back(range_body(keys[0], end_of_keys(), 3, pairs_of(reads)));
  recorder_.add(called, returned, transaction_body(status.ok(), read, writes));
  if (!status.ok()) recorder_.add(called, seen, list_body("snapshot", "reads", read));
}

}  // namespace breccia::linearize
