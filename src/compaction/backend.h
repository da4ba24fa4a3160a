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
#include "exec/executor.h"
#include "exec/host_vector.h"
#include "sst/algo/decode.cuh"
#include "sst/algo/encode.cuh"
#include "sst/filter.h"

namespace breccia::compaction {

/// Bytes of the host's memory, of which sst::algo::kPadBytes behind them may be read; or bytes that
/// are read when they are wanted.
struct Part {
  const char* data = nullptr;
  std::uint64_t bytes = 0;
  exec::Fill fill;  // in the place of data
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
  bool leaves_bytes = false;  // blocks that can be sealed unseen stay in the backend's memory
};

/// Hashes of keys in a backend's memory, for a filter.
class Hashes {
 public:
  virtual ~Hashes() = default;
};

/// Blocks in a backend's memory.
/// Shape   as MergedSlice::bytes.
class KeptBytes {
 public:
  explicit KeptBytes(std::uint64_t count) : count_(count) {}
  virtual ~KeptBytes() = default;
  KeptBytes(const KeptBytes&) = delete;
  KeptBytes& operator=(const KeptBytes&) = delete;
  [[nodiscard]] std::uint64_t count() const { return count_; }

 private:
  const std::uint64_t count_;
};

/// What is left of a slice, as data blocks.
/// Shape   bytes: blocks with their trailers, one behind the other; sst::algo::kPadBytes more; or
///         none where the backend has `kept` them.
struct MergedSlice {
  explicit MergedSlice(exec::HostMemory& memory) : bytes(memory), blocks(memory) {}

  exec::HostVector<char> bytes;
  std::shared_ptr<const KeptBytes> kept;
  exec::HostVector<sst::algo::EncodedBlock> blocks;
  std::shared_ptr<const Hashes> hashes;  // null: no filter is wanted, or nothing is left
  std::uint64_t entries_read = 0;        // within the bounds
  std::uint64_t entries_kept = 0;
};

/// Bytes of a slice's blocks.
inline std::uint64_t encoded_bytes(const MergedSlice& merged) {
  const std::uint64_t bytes = merged.kept != nullptr ? merged.kept->count() : merged.bytes.size();
  return bytes == 0 ? 0 : bytes - sst::algo::kPadBytes;
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

  /// Reads [begin, begin + count) of what a merge has left here.
  /// Errors  those of `drain`; a device's.
  virtual Status fetch(const KeptBytes& kept, std::uint64_t begin, std::uint64_t count,
                       const exec::Drain& drain) = 0;

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
