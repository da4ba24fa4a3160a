#include "scripted.h"

#include <fmt/format.h>

#include "support/sparse_files.h"

namespace breccia::crash {

std::vector<Step> mixed_script() {
  using Kind = Step::Kind;
  return {
      {Kind::kPut, "a"},
      {Kind::kBatch, "many", 200},
      {Kind::kPut, "b", 1, 20, Durability::kSync},
      {Kind::kDelete, "a"},
      {Kind::kBatch, "few", 3},
      {Kind::kFlush, ""},
      {Kind::kPut, "a", 1, 3000},
      {Kind::kBatch, "many", 150},
      {Kind::kBatch, "few", 5, 20, Durability::kSync},
      {Kind::kBatch, "large", 40, 5000},
      {Kind::kPut, "", 1, 0},
      {Kind::kFlush, ""},
      {Kind::kDelete, "many7"},
      {Kind::kBatch, "large", 20, 100},
      {Kind::kPut, "c", 1, 20, Durability::kSync},
      {Kind::kFlush, ""},
      {Kind::kPut, "d"},
  };
}

std::vector<Step> rolling_script() {
  using Kind = Step::Kind;
  constexpr std::uint64_t kHalfSegment = 40 << 20;
  return {
      {Kind::kPut, "a"},
      {Kind::kPut, "first", 1, kHalfSegment},
      {Kind::kBatch, "many", 100},
      {Kind::kPut, "second", 1, kHalfSegment, Durability::kSync},
      {Kind::kPut, "third", 1, kHalfSegment},
      {Kind::kFlush, ""},
      {Kind::kPut, "b", 1, 20, Durability::kSync},
  };
}

Options quiet_options() {
  Options options;
  options.create_if_missing = true;
  options.backend = BackendChoice::kHost;
  options.device_requests_min = 32;
  options.memtable_bytes = 1 << 30;
  options.flush_threads = 1;
  options.log_files = testing::make_sparse_files();
  options.rocksdb.info_log_level = rocksdb::InfoLogLevel::FATAL_LEVEL;
  options.rocksdb.compression = rocksdb::kNoCompression;
  options.rocksdb.max_file_opening_threads = 1;
  return options;
}

Script::Content Script::writes_of(const Step& step, std::size_t number) const {
  Content writes;
  const auto value = [&](std::uint32_t i) {
    std::string text(step.value_bytes, static_cast<char>('a' + (number + i) % 26));
    return text.substr(0, text.size() / 2) + fmt::format("{}.{}", number, i);
  };
  if (step.kind == Step::Kind::kPut) writes[step.name] = value(0);
  if (step.kind == Step::Kind::kDelete) writes[step.name] = std::nullopt;
  for (std::uint32_t i = 0; step.kind == Step::Kind::kBatch && i < step.count; ++i) {
    auto& content = writes[fmt::format("{}{}", step.name, i)];
    if (i % 5 != 4) content = value(i);
  }
  return writes;
}

Status Script::run_step(Store* store, const Step& step, const Content& writes, std::string* error) {
  const WriteOptions options{step.durability};
  if (step.kind == Step::Kind::kFlush) return store->Flush();
  if (step.kind == Step::Kind::kPut) {
    return store->Put(options, step.name, *writes.begin()->second);
  }
  if (step.kind == Step::Kind::kDelete) return store->Delete(options, step.name);
  // Each write between two reads of its key: what was there before, and what it is now.
  Batch batch;
  for (const auto& [key, value] : writes) {
    (void)batch.Get(key);
    (void)(value ? batch.Put(key, *value) : batch.Delete(key));
    (void)batch.Get(key);
  }
  const Status status = store->Submit(options, &batch);
  if (!status.ok()) return status;
  std::size_t read = 0;
  const auto seen = [&] {
    const std::size_t i = read++;
    return batch.code(i) == Status::Code::kOk
               ? std::optional<std::string>(batch.value(i).ToString())
               : std::nullopt;
  };
  for (const auto& [key, value] : writes) {
    const auto before = acked_.find(key);
    if (seen() != (before == acked_.end() ? std::nullopt : before->second)) {
      *error = "the batch reads something else than was there at " + key;
    }
    if (seen() != value) *error = "the batch does not read its own write of " + key;
  }
  return status;
}

std::string Script::run(Store* store, bool stops, Status* failure) {
  *failure = Status::OK();
  for (std::size_t number = 0; number < steps_.size(); ++number) {
    const Step& step = steps_[number];
    const Content writes = writes_of(step, number);
    std::string error;
    const Status status = run_step(store, step, writes, &error);
    if (!error.empty()) return fmt::format("step {}: {}", number, error);
    if (stops && !failure->ok() && status.code() != failure->code()) {
      return fmt::format("step {}: {} after {}", number, status.ToString(), failure->ToString());
    }
    if (status.ok()) {
      for (const auto& [key, value] : writes) acked_[key] = value;
    } else if (failure->ok()) {
      *failure = status;
      refused_ = writes;
      for (const auto& [key, value] : writes) acked_.try_emplace(key, std::nullopt);
    }
    if (!status.ok() && !stops) return fmt::format("step {}: {}", number, status.ToString());
  }
  return check_acked(store);
}

std::string Script::compare(Store* store, const Content& expected) {
  for (const auto& [key, value] : expected) {
    std::string found;
    const Status status = store->Get(key, &found);
    const bool same = value ? status.ok() && found == *value : status.IsNotFound();
    if (!same) {
      return fmt::format("key {}: {}, {} bytes, expected {}", key, status.ToString(), found.size(),
                         value ? std::to_string(value->size()) : "none");
    }
  }
  return "";
}

std::string Script::check_acked(Store* store) const { return compare(store, acked_); }

std::string Script::check_recovered(Store* store) const {
  const std::string without = compare(store, acked_);
  if (without.empty() || refused_.empty()) return without;
  Content with = acked_;
  for (const auto& [key, value] : refused_) with[key] = value;
  const std::string error = compare(store, with);
  return error.empty() ? "" : without + "; with the refused write: " + error;
}

}  // namespace breccia::crash
