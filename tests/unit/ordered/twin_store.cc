#include "unit/ordered/twin_store.h"

#include <breccia/merge_operators.h>

#include <utility>

#include "support/append_operator.h"
#include "support/sparse_files.h"

namespace breccia::ordered {

namespace {

constexpr char kSecond[] = "second";

std::shared_ptr<rocksdb::MergeOperator> random_operator(bool numbers, base::Random* random) {
  if (!numbers) return testing::make_append_operator(/*partial=*/random->one_in(2));
  switch (random->below(3)) {
    case 0:
      return NewInt64AddOperator();
    case 1:
      return NewBytesMaxOperator();
    default:
      return NewBytesMinOperator();
  }
}

}  // namespace

TwinStore::TwinStore(std::uint64_t seed,
                     std::shared_ptr<const rocksdb::SliceTransform> prefix_extractor)
    : random_(seed),
      distinct_(random_.one_in(2) ? 12 : 120),
      numbers_(random_.one_in(3)),
      merge_operator_(random_operator(numbers_, &random_)),
      prefix_extractor_(std::move(prefix_extractor)) {
  open_reference();
  reopen();
  contents_ = {{kDefaultFamily, {}}, {family_, {}}};
}

TwinStore::~TwinStore() {
  EXPECT_TRUE(reference_->DestroyColumnFamilyHandle(reference_family_).ok());
}

rocksdb::Options TwinStore::tree_options() const {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.info_log_level = rocksdb::InfoLogLevel::FATAL_LEVEL;
  options.compression = rocksdb::kNoCompression;
  options.max_file_opening_threads = 1;
  options.merge_operator = merge_operator_;
  options.prefix_extractor = prefix_extractor_;
  return options;
}

void TwinStore::open_reference() {
  env_.reset(rocksdb::NewMemEnv(rocksdb::Env::Default()));
  rocksdb::Options options = tree_options();
  options.env = env_.get();
  rocksdb::DB* db = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open(options, "/reference", &db).ok());
  reference_.reset(db);
  ASSERT_TRUE(db->CreateColumnFamily(options, kSecond, &reference_family_).ok());
}

void TwinStore::reopen() {
  const bool is_new = engine_ == nullptr;
  engine_.reset();
  constexpr std::uint32_t kDeviceMin[] = {1, 4, 32, 1'000'000};
  Options options;
  options.create_if_missing = true;
  options.memtable_bytes = 256 << 20;
  options.flush_threads = 1;
  options.rocksdb.env = testing::sparse_env();
  options.rocksdb = tree_options();
  options.families = {{kSecond, options.rocksdb}};
  options.device_requests_min = kDeviceMin[random_.below(4)];
  options.backend = random_.one_in(2) ? BackendChoice::kHost : BackendChoice::kSimulator;
  options.simulator_seed = random_.next();
  const bool fake = random_.one_in(3);
  if (fake) fake_gpu_.use(&options);
  described_ = std::string(fake                                      ? "fake device"
                           : options.backend == BackendChoice::kHost ? "host"
                                                                     : "simulator") +
               ", device_requests_min " + std::to_string(options.device_requests_min);
  const Status status = Engine::open(options, folder_ / "store", &engine_);
  ASSERT_TRUE(status.ok()) << status.ToString();
  for (const auto& [name, family] : engine_->Families()) {
    if (name != kSecond) continue;
    ASSERT_TRUE(is_new || family == family_);
    family_ = family;
  }
}

// Keys that collide in their first word, end in zeros, are empty.
std::string TwinStore::random_key() {
  if (random_.one_in(40)) return "";
  const std::uint64_t id = base::mix64(random_.below(distinct_));
  std::string key(id % 3 == 0 ? 8 : id % 3, 'p');
  key += std::to_string(id % 100);
  return key + std::string(id % 2, '\0');
}

std::string TwinStore::new_value() {
  if (!numbers_ || random_.one_in(60)) return "v" + std::to_string(written_);
  const std::uint64_t number = random_.one_in(2) ? random_.below(5) : random_.next();
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

void TwinStore::merge(Batch* batch, FamilyId family, const std::string& key) {
  const std::string operand = new_value();
  ASSERT_TRUE(batch->Merge(family, key, operand).ok());
  ASSERT_TRUE(reference_->Merge({}, reference_family(family), key, operand).ok());
  const auto entry = contents_[family].find(key);
  const bool exists = entry != contents_[family].end();
  const Slice existing = exists ? Slice(entry->second) : Slice();
  const std::vector<Slice> operands{operand};
  const rocksdb::MergeOperator::MergeOperationInput input(key, exists ? &existing : nullptr,
                                                          operands, nullptr);
  std::string merged;
  Slice as_it_was(nullptr, 0);
  rocksdb::MergeOperator::MergeOperationOutput output(merged, as_it_was);
  ASSERT_TRUE(merge_operator_->FullMergeV2(input, &output));
  contents_[family][key] = as_it_was.data() != nullptr ? as_it_was.ToString() : merged;
}

void TwinStore::delete_range(Batch* batch, FamilyId family) {
  std::string begin = random_key();
  std::string end = random_key();
  if (end < begin) std::swap(begin, end);
  ASSERT_TRUE(batch->DeleteRange(family, begin, end).ok());
  ASSERT_TRUE(reference_->DeleteRange({}, reference_family(family), begin, end).ok());
  Content& content = contents_[family];
  content.erase(content.lower_bound(begin), content.lower_bound(end));
}

void TwinStore::add_write(Batch* batch, bool points_only) {
  const FamilyId family = random_family();
  const std::string key = random_key();
  ++written_;
  switch (random_.below(12)) {
    case 0:
      if (!points_only) return delete_range(batch, family);
      [[fallthrough]];
    case 1:
      ASSERT_TRUE(batch->Delete(family, key).ok());
      break;
    case 2:
      ASSERT_TRUE(batch->SingleDelete(family, key).ok());
      break;
    case 3:
    case 4:
    case 5:
    case 6:
      return merge(batch, family, key);
    default:
      const std::string value = new_value();
      ASSERT_TRUE(batch->Put(family, key, value).ok());
      ASSERT_TRUE(reference_->Put({}, reference_family(family), key, value).ok());
      contents_[family][key] = value;
      return;
  }
  ASSERT_TRUE(reference_->Delete({}, reference_family(family), key).ok());
  contents_[family].erase(key);
}

void TwinStore::add_read(Batch* batch, Expected* expected) {
  const FamilyId family = random_family();
  const Content& content = contents_[family];
  const std::string key = random_key();
  if (random_.one_in(2)) {
    ASSERT_TRUE(batch->Get(family, key).ok());
    const auto found = content.find(key);
    expected->reads.emplace_back(
        found == content.end() ? Status::Code::kNotFound : Status::Code::kOk,
        found == content.end() ? "" : found->second);
    return;
  }
  std::string end = random_key();
  if (end < key && !random_.one_in(10)) end = "~";
  const auto limit = static_cast<std::uint32_t>(random_.one_in(3) ? 1000 : random_.below(6));
  ASSERT_TRUE(batch->Range(family, key, end, limit).ok());
  auto& entries = expected->ranges.emplace_back();
  for (auto at = content.lower_bound(key);
       at != content.end() && at->first < end && entries.size() < limit; ++at) {
    entries.emplace_back(*at);
  }
}

void TwinStore::compare(const Batch& batch, const Expected& expected) {
  for (std::size_t i = 0; i < expected.reads.size(); ++i) {
    ASSERT_EQ(batch.code(i), expected.reads[i].first) << "read " << i;
    ASSERT_EQ(batch.value(i).ToString(), expected.reads[i].second) << "read " << i;
  }
  for (std::size_t i = 0; i < expected.ranges.size(); ++i) {
    ASSERT_EQ(batch.range_code(i), Status::Code::kOk) << "range " << i;
    ASSERT_EQ(batch.range_size(i), expected.ranges[i].size()) << "range " << i;
    for (std::size_t j = 0; j < expected.ranges[i].size(); ++j) {
      const auto [key, value] = batch.range_entry(i, j);
      ASSERT_EQ(key.ToString(), expected.ranges[i][j].first) << "range " << i;
      ASSERT_EQ(value.ToString(), expected.ranges[i][j].second) << "range " << i;
    }
  }
}

void TwinStore::write(std::uint64_t writes_max) {
  Batch batch = random_.one_in(2) ? engine_->NewBatch() : Batch();
  Expected expected;
  const std::uint64_t reads_in = 1 + random_.below(8);  // one in so many
  const bool points_only = random_.one_in(2);
  for (std::uint64_t i = 1 + random_.below(writes_max); i > 0; --i) {
    if (random_.one_in(reads_in)) add_read(&batch, &expected);
    add_write(&batch, points_only);
  }
  if (random_.one_in(3)) add_read(&batch, &expected);
  const Status status = engine_->Submit(WriteOptions(), &batch);
  ASSERT_TRUE(status.ok()) << status.ToString();
  compare(batch, expected);
}

Moment TwinStore::now() const {
  const auto release = [this](const rocksdb::Snapshot* at) { reference_->ReleaseSnapshot(at); };
  return {engine_->pin(), contents_, {reference_->GetSnapshot(), release}};
}

std::unique_ptr<rocksdb::Iterator> TwinStore::reference_iterator(rocksdb::ReadOptions options,
                                                                 FamilyId family,
                                                                 const Moment& moment) const {
  options.snapshot = moment.snapshot.get();
  return std::unique_ptr<rocksdb::Iterator>(
      reference_->NewIterator(options, reference_family(family)));
}

}  // namespace breccia::ordered
