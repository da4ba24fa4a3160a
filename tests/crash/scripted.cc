#include "scripted.h"

#include <fmt/format.h>

#include <utility>

#include "support/append_operator.h"
#include "support/sparse_files.h"
#include "wal/format.h"

namespace breccia::crash {

namespace {

constexpr char kOtherFamily[] = "other";

FamilyId family_id(Store* store, bool other) {
  for (const auto& [name, family] : store->Families()) {
    if (other && name == kOtherFamily) return family;
  }
  return kDefaultFamily;
}

/// The value that step `number` gives key `i`.
std::string value_of(const Step& step, std::size_t number, std::uint32_t i) {
  const std::string text(step.value_bytes, static_cast<char>('a' + (number + i) % 26));
  return text.substr(0, text.size() / 2) + fmt::format("{}.{}", number, i);
}

}  // namespace

std::vector<Step> mixed_script() {
  using Kind = Step::Kind;
  return {
      {Kind::kPut, "a"},
      {Kind::kBatch, "many", 200},
      {Kind::kPut, "b", 1, 20, Durability::kSync},
      {Kind::kDelete, "a"},
      {Kind::kBatch, "few", 3},
      {Kind::kMixed, "mix", 4},
      {Kind::kFlush, ""},
      {Kind::kPut, "a", 1, 3000},
      {Kind::kMixed, "mix", 40},
      {Kind::kBatch, "many", 150},
      {Kind::kBatch, "few", 5, 20, Durability::kSync},
      {Kind::kBatch, "large", 40, 5000},
      {Kind::kPut, "", 1, 0},
      {Kind::kFlush, ""},
      {Kind::kDelete, "many7"},
      {Kind::kBatch, "large", 20, 100},
      {Kind::kMixed, "mix", 30, 20, Durability::kSync},
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
  options.rocksdb.env = testing::sparse_env();
  options.rocksdb.info_log_level = rocksdb::InfoLogLevel::FATAL_LEVEL;
  options.rocksdb.compression = rocksdb::kNoCompression;
  options.rocksdb.max_file_opening_threads = 1;
  options.rocksdb.merge_operator = testing::make_append_operator(/*partial=*/true);
  options.families = {{kOtherFamily, options.rocksdb}};
  return options;
}

/// The requests of a mixed batch, and what they make of a content.
class Script::Mixed {
 public:
  Mixed(const Step& step, std::size_t number, const Content& before)
      : step_(step), number_(number), before_(before) {}

  /// What the batch changes.
  [[nodiscard]] Content changes() {
    for_each([&](bool other, record::Op op, const std::string& key, const std::string& value) {
      if (op == record::Op::kDeleteRange) {
        delete_range(other, key, value);
      } else if (op == record::Op::kMerge && now({other, key})) {
        changes_[{other, key}] = *now({other, key}) + "," + value;
      } else {
        changes_[{other, key}] = value;
      }
    });
    return changes_;
  }
  void add_to(Store* store, Batch* batch) const {
    for_each([&](bool other, record::Op op, const std::string& key, const std::string& value) {
      const FamilyId family = family_id(store, other);
      (void)(op == record::Op::kPut     ? batch->Put(family, key, value)
             : op == record::Op::kMerge ? batch->Merge(family, key, value)
                                        : batch->DeleteRange(family, key, value));
    });
  }

 private:
  /// Puts and merges in both families; in the middle, a range deletion in each: one of what came
  /// before and is in the batch too, one of all keys with the name.
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (std::uint32_t i = 0; i < step_.count; ++i) {
      const std::string key = fmt::format("{}{}", step_.name, i);
      const std::string value = value_of(step_, number_, i);
      visit(i % 2 == 0, i % 3 == 0 ? record::Op::kMerge : record::Op::kPut, key, value);
      visit(i % 2 != 0, record::Op::kMerge, key, value);
      if (i != step_.count / 2) continue;
      visit(false, record::Op::kDeleteRange, step_.name + "1", step_.name + "2");
      if (number_ % 2 == 0) visit(true, record::Op::kDeleteRange, step_.name, step_.name + "~");
    }
  }

  [[nodiscard]] std::optional<std::string> now(const Content::key_type& key) const {
    const auto changed = changes_.find(key);
    if (changed != changes_.end()) return changed->second;
    const auto found = before_.find(key);
    return found == before_.end() ? std::nullopt : found->second;
  }
  void delete_range(bool other, const std::string& begin, const std::string& end) {
    for (const Content* content : {&before_, &std::as_const(changes_)}) {
      std::vector<Content::key_type> keys;
      for (auto at = content->lower_bound({other, begin});
           at != content->end() && at->first < Content::key_type{other, end}; ++at) {
        keys.push_back(at->first);
      }
      for (const auto& key : keys) changes_[key] = std::nullopt;
    }
  }

  const Step& step_;
  const std::size_t number_;
  const Content& before_;
  Content changes_;
};

Script::Content Script::writes_of(const Step& step, std::size_t number) const {
  if (step.kind == Step::Kind::kMixed) return Mixed(step, number, acked_).changes();
  Content writes;
  if (step.kind == Step::Kind::kPut) writes[{false, step.name}] = value_of(step, number, 0);
  if (step.kind == Step::Kind::kDelete) writes[{false, step.name}] = std::nullopt;
  for (std::uint32_t i = 0; step.kind == Step::Kind::kBatch && i < step.count; ++i) {
    auto& content = writes[{false, fmt::format("{}{}", step.name, i)}];
    if (i % 5 != 4) content = value_of(step, number, i);
  }
  return writes;
}

Status Script::run_step(Store* store, const Step& step, std::size_t number, const Content& writes,
                        std::string* error) {
  const WriteOptions options{step.durability};
  if (step.kind == Step::Kind::kFlush) return store->Flush();
  if (step.kind == Step::Kind::kPut) {
    return store->Put(options, step.name, *writes.begin()->second);
  }
  if (step.kind == Step::Kind::kDelete) return store->Delete(options, step.name);
  // Each write between two reads of its key: what was there before, and what it is now. Those of a
  // mixed batch come all together between the reads.
  Batch batch;
  const bool mixed = step.kind == Step::Kind::kMixed;
  for (const auto& [key, value] : writes) {
    (void)batch.Get(family_id(store, key.first), key.second);
    if (mixed) continue;
    (void)(value ? batch.Put(key.second, *value) : batch.Delete(key.second));
    (void)batch.Get(key.second);
  }
  if (mixed) {
    Mixed(step, number, acked_).add_to(store, &batch);
    for (const auto& [key, value] : writes) {
      (void)batch.Get(family_id(store, key.first), key.second);
    }
  }
  const Status status = store->Submit(options, &batch);
  if (!status.ok()) return status;
  const auto seen = [&](std::size_t i) {
    return batch.code(i) == Status::Code::kOk
               ? std::optional<std::string>(batch.value(i).ToString())
               : std::nullopt;
  };
  std::size_t i = 0;
  for (const auto& [key, value] : writes) {
    const auto before = acked_.find(key);
    if (seen(mixed ? i : 2 * i) != (before == acked_.end() ? std::nullopt : before->second)) {
      *error = "the batch reads something else than was there at " + key.second;
    }
    if (seen(mixed ? writes.size() + i : 2 * i + 1) != value) {
      *error = "the batch does not read its own write of " + key.second;
    }
    ++i;
  }
  return status;
}

std::string Script::run(Store* store, bool stops, Status* failure) {
  *failure = Status::OK();
  for (std::size_t number = 0; number < steps_.size(); ++number) {
    const Step& step = steps_[number];
    const Content writes = writes_of(step, number);
    std::string error;
    const Status status = run_step(store, step, number, writes, &error);
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
  Batch reads;
  for (const auto& [key, value] : expected) {
    (void)reads.Get(family_id(store, key.first), key.second);
  }
  const Status submitted = store->Submit(WriteOptions(), &reads);
  if (!submitted.ok()) return "reading: " + submitted.ToString();
  std::size_t i = 0;
  for (const auto& [key, value] : expected) {
    // By the batch, and by itself where there is such a call.
    std::string single = reads.value(i).ToString();
    Status::Code code = reads.code(i++);
    if (!key.first) {
      std::string found;
      const Status status = store->Get(key.second, &found);
      if (status.code() != code || (status.ok() && found != single)) {
        return fmt::format("key {}: a batch reads otherwise than Get", key.second);
      }
    }
    const bool same =
        value ? code == Status::Code::kOk && single == *value : code == Status::Code::kNotFound;
    if (!same) {
      return fmt::format("key {} of family {}: code {}, {} bytes, expected {}", key.second,
                         key.first ? kOtherFamily : "default", static_cast<int>(code),
                         single.size(), value ? std::to_string(value->size()) : "none");
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
