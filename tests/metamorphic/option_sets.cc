#include "option_sets.h"

#include <breccia/merge_operators.h>
#include <rocksdb/convenience.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/slice_transform.h>

#include <cstring>

#include "base/assert.h"
#include "base/random.h"
#include "list.h"
#include "support/backend.h"

namespace breccia::metamorphic {

namespace {

constexpr std::uint64_t kKiB = 1 << 10;
constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint32_t kNever = 1'000'000;
constexpr auto kLevel = rocksdb::kCompactionStyleLevel;
constexpr auto kUniversal = rocksdb::kCompactionStyleUniversal;

constexpr OptionSet kSets[] = {
    {"all on the backend", Backend::kUnderTest, 1, 64 * kMiB, 1, LogFiles::kPwrite, kLevel, 4},
    {"from 8, tiny memtable", Backend::kUnderTest, 8, 64 * kKiB, 2, LogFiles::kPwrite, kLevel, 2},
    {"from 128", Backend::kUnderTest, 128, kMiB, 3, LogFiles::kPwrite, kLevel, 4},
    {"CPU path", Backend::kUnderTest, kNever, 256 * kMiB, 1, LogFiles::kPwrite, kLevel, 4},
    {"CPU path, tiny memtable", Backend::kUnderTest, kNever, 64 * kKiB, 2, LogFiles::kPwrite,
     kUniversal, 2},
    {"ring log", Backend::kUnderTest, 8, 256 * kKiB, 2, LogFiles::kRing, kUniversal, 2},
    {"mapped log", Backend::kUnderTest, 1, 64 * kMiB, 1, LogFiles::kMapped, kLevel, 4},
    {"simulator", Backend::kSimulator, 1, 64 * kMiB, 1, LogFiles::kPwrite, kLevel, 4},
    {"simulator, tiny memtable", Backend::kSimulator, 8, 64 * kKiB, 2, LogFiles::kPwrite, kLevel,
     2},
    {"simulator, mapped log", Backend::kSimulator, 32, 16 * kMiB, 1, LogFiles::kMapped, kUniversal,
     3},
    {"device", Backend::kDevice, 1, kMiB, 1, LogFiles::kPwrite, kLevel, 4},
    {"failing device", Backend::kFailingDevice, 8, 64 * kKiB, 2, LogFiles::kPwrite, kLevel, 3},
};

constexpr const char* kNames[kFamilies] = {"default", "numbers",  "largest", "chains",
                                           "sums",    "smallest", "latest",  "plain"};

/// Chains checksums: every operand, their order and what they begin with all show in the value, and
/// operands cannot be combined without it.
class Chain final : public rocksdb::MergeOperator {
 public:
  bool FullMergeV2(const MergeOperationInput& in, MergeOperationOutput* out) const override {
    std::uint64_t sum = 0;
    if (in.existing_value != nullptr) sum = mixed(1, *in.existing_value);
    if (in.existing_value != nullptr && in.existing_value->size() == sizeof sum) {
      std::memcpy(&sum, in.existing_value->data(), sizeof sum);  // maybe the chain so far
    }
    for (const rocksdb::Slice& operand : in.operand_list) sum = mixed(sum, operand);
    out->new_value.assign(reinterpret_cast<const char*>(&sum), sizeof sum);
    return true;
  }
  [[nodiscard]] const char* Name() const override { return "breccia.test.Chain"; }

 private:
  static std::uint64_t mixed(std::uint64_t sum, const rocksdb::Slice& bytes) {
    for (const char byte : bytes.ToStringView()) {
      sum = base::mix64(sum ^ static_cast<unsigned char>(byte));
    }
    return base::mix64(sum + bytes.size());
  }
};

std::shared_ptr<rocksdb::MergeOperator> built_in(const std::string& name) {
  std::shared_ptr<rocksdb::MergeOperator> made;
  BRECCIA_ASSERT(
      rocksdb::MergeOperator::CreateFromString(rocksdb::ConfigOptions(), name, &made).ok());
  return made;
}

}  // namespace

std::span<const OptionSet> option_sets() { return kSets; }

std::shared_ptr<rocksdb::MergeOperator> merge_operator_of(std::uint32_t family) {
  static const std::shared_ptr<rocksdb::MergeOperator> operators[kFamilies] = {
      built_in("stringappend"), built_in("uint64add"), built_in("max"), std::make_shared<Chain>(),
      NewInt64AddOperator(),    NewBytesMinOperator(), built_in("put"), nullptr};
  return operators[family];
}

std::string family_name(std::uint32_t family) { return kNames[family]; }

std::uint32_t family_of(const std::string& name) {
  for (std::uint32_t family = 0; family < kFamilies; ++family) {
    if (name == kNames[family]) return family;
  }
  return kNone;
}

rocksdb::ColumnFamilyOptions family_options(std::uint32_t family) {
  rocksdb::ColumnFamilyOptions options;
  options.merge_operator = merge_operator_of(family);
  options.compression = rocksdb::kNoCompression;
  options.prefix_extractor.reset(rocksdb::NewCappedPrefixTransform(2));
  return options;
}

rocksdb::Options database_options() {
  rocksdb::Options options{rocksdb::DBOptions(), family_options(0)};
  options.info_log_level = rocksdb::InfoLogLevel::FATAL_LEVEL;
  options.max_file_opening_threads = 1;
  options.allow_fallocate = false;  // in memory, what is reserved is cleared at once
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  return options;
}

Options store_options(const OptionSet& set, std::uint64_t seed, testing::FakeGpu* gpu) {
  Options options;
  options.create_if_missing = true;
  options.backend = set.backend == Backend::kSimulator ? BackendChoice::kSimulator
                                                       : testing::backend_under_test();
  options.simulator_seed = seed;
  if (set.backend == Backend::kDevice || set.backend == Backend::kFailingDevice) {
    gpu->use(&options);
  }
  if (set.backend == Backend::kFailingDevice) {
    constexpr exec::Fault kFaults[] = {exec::Fault::kOutOfMemory, exec::Fault::kLaunchFailure,
                                       exec::Fault::kDeviceLost};
    base::Random random(seed);
    const exec::Fault fault = kFaults[random.below(3)];
    gpu->faults.fail_after(1 + random.below(500), fault);
  }
  options.device_requests_min = set.device_requests_min;
  options.memtable_bytes = set.memtable_bytes;
  constexpr std::uint64_t kCleanBytes[] = {0, 16 << 10, 1 << 30};  // none, tiny, ample
  options.clean_bytes = kCleanBytes[seed % 3];
  constexpr std::uint64_t kFilterBytes[] = {256 << 20, 0, 24 << 10};  // ample, none, for few keys
  options.tree_filter_bytes = kFilterBytes[seed / 3 % 3];
  constexpr std::uint64_t kResidencyBytes[] = {1 << 30, 0, 16 << 10};  // ample, none, a few files
  options.residency_bytes = kResidencyBytes[seed / 9 % 3];
  options.flush_threads = set.flush_threads;
  options.rocksdb = database_options();
  options.rocksdb.compaction_style = set.compaction;
  options.rocksdb.level0_file_num_compaction_trigger = set.level0_files;
  return options;
}

}  // namespace breccia::metamorphic
