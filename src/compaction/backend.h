#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "compaction/merge_job.h"
#include "exec/device.h"
#include "exec/host_vector.h"
#include "sst/algo/decode.cuh"
#include "sst/algo/encode.cuh"
#include "sst/filter.h"

namespace breccia::compaction {

/// Bytes of the host's memory; sst::algo::kPadBytes behind them may be read.
struct Part {
  const char* data = nullptr;
  std::uint64_t bytes = 0;
};

/// A data block that goes into a merge.
struct SliceBlock {
  std::uint32_t part = 0;
  std::uint32_t file = 0;
  std::uint64_t offset = 0;  // in the part
  std::uint32_t bytes = 0;   // without its trailer
};

/// What a merge of one range of keys reads. Bytes are not owned.
/// Shape   run_blocks[r]: how many of the blocks, one behind the other, are run r's.
struct Slice {
  std::vector<Part> parts;
  std::vector<SliceBlock> blocks;
  std::vector<std::uint64_t> run_blocks;
  std::vector<sst::algo::FilePlace> files;
  /// User keys from `begin` on, and below `end`; none: no bound. Blocks may have more.
  std::optional<std::string> begin;
  std::optional<std::string> end;
};

/// Ways that lead to the same entries.
struct MergeHow {
  Ordering ordering = Ordering::kAuto;
  std::uint64_t stock_file_bytes = 0;  // as sst::algo::Encoder::run has it
};

/// Hashes of keys in a backend's memory, for a filter.
class Hashes {
 public:
  virtual ~Hashes() = default;
};

/// What is left of a slice, as data blocks.
/// Shape   bytes: blocks with their trailers, one behind the other; sst::algo::kPadBytes more.
struct MergedSlice {
  explicit MergedSlice(exec::HostMemory& memory) : bytes(memory), blocks(memory) {}

  exec::HostVector<char> bytes;
  exec::HostVector<sst::algo::EncodedBlock> blocks;
  std::shared_ptr<const Hashes> hashes;  // null: no filter is wanted, or nothing is left
  std::uint64_t entries_read = 0;        // within the bounds
  std::uint64_t entries_kept = 0;
};

/// Bytes of a slice's blocks.
inline std::uint64_t encoded_bytes(const MergedSlice& merged) {
  return merged.bytes.size() == 0 ? 0 : merged.bytes.size() - sst::algo::kPadBytes;
}

/// Some of a slice's hashes.
struct HashRange {
  std::shared_ptr<const Hashes> hashes;
  std::uint64_t begin = 0;
  std::uint64_t count = 0;
};

/// The verbs of a merge, for a tenant of a device.
/// Threads any number of calls at once: those of one run beside those of others.
class Backend {
 public:
  explicit Backend(exec::TenantPtr tenant) : tenant_(std::move(tenant)) {}
  virtual ~Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  [[nodiscard]] exec::Tenant& tenant() const { return *tenant_; }
  [[nodiscard]] exec::Device& device() const { return tenant_->device(); }

  /// Decodes, merges, judges and encodes.
  /// Errors  Corruption, NotSupported: what the blocks hold; MemoryLimit; a device's.
  virtual Status merge(const Slice& slice, const MergeRules& rules, const sst::TableShape& shape,
                       const MergeHow& how, MergedSlice* merged) = 0;

  /// Writes the lines of a filter of those hashes.
  /// Shape   lines[shape.bytes()]
  /// Errors  MemoryLimit; a device's.
  virtual Status build_filter(std::span<const HashRange> ranges, const sst::FilterShape& shape,
                              char* lines) = 0;

 private:
  const exec::TenantPtr tenant_;
};

/// Errors  those of Device::admit.
Result<std::shared_ptr<Backend>> make_backend(const exec::DevicePtr& device,
                                              exec::TenantOptions options);

}  // namespace breccia::compaction
