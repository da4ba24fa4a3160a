#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "base/result.h"
#include "exec/device.h"
#include "runs/refs.h"
#include "runs/tags.h"

/// The verbs on sorted runs. A module meets a backend once per batch; what happens inside is one
/// source (runs/algo/) compiled for the host, for CUDA and for the simulator.

namespace breccia::runs {

/// A sorted run in a backend's memory. Immutable; freed with its last reference.
/// Threads any.
class Run {
 public:
  virtual ~Run() = default;
  [[nodiscard]] virtual std::uint64_t count() const = 0;
  /// Bytes that the run occupies in its backend's memory.
  [[nodiscard]] virtual std::uint64_t memory_bytes() const = 0;
  /// True if it has the values of its entries: all have 8 bytes.
  [[nodiscard]] virtual bool has_values() const = 0;
  /// Bytes of its keys if all have the same, else kVariableBytes.
  [[nodiscard]] virtual std::uint32_t uniform_bytes() const = 0;
  /// The run's columns if the host can read them where they are, else null.
  [[nodiscard]] virtual const RunRef* host_view() const = 0;
};
using RunPtr = std::shared_ptr<const Run>;

/// Operations of a batch that a backend has begun to work out.
/// Threads one owner.
class Update {
 public:
  virtual ~Update() = default;
};
using UpdatePtr = std::unique_ptr<const Update>;

/// Which versions of a key a merge of runs keeps.
enum class Keep {
  kAll,
  kNewest,  // and a single deletion right below it, which the tree may need to hear of
  kStacks,  // these, and below merge operands all down to the first version that is none
  kPuts,    // the newest, if it is a put
};

/// The verbs on runs, for one tenant of a device.
/// Threads any number, of all calls.
class Backend {
 public:
  explicit Backend(exec::TenantPtr tenant) : tenant_(std::move(tenant)) {}
  virtual ~Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  [[nodiscard]] exec::Tenant& tenant() const { return *tenant_; }
  [[nodiscard]] const exec::TenantPtr& tenant_ptr() const { return tenant_; }
  [[nodiscard]] exec::Device& device() const { return tenant_->device(); }
  [[nodiscard]] exec::HostMemory& host_memory() const { return device().host_memory(); }
  /// True if it can search and merge `run` where it lies.
  [[nodiscard]] bool holds(const Run& run) const {
    return device().host_reads() == (run.host_view() != nullptr);
  }

  /// Sorts the entries of a batch into a run.
  /// Shape   entries in host memory; descriptors (host memory, may be null): relative[] >> 3 in run
  ///         order.
  /// Errors  IOError: the device failed (it should be retired); MemoryLimit: no memory, nothing
  ///         changed. After an error nothing of the run exists; descriptors are garbage.
  /// Threads any number at once.
  [[nodiscard]] virtual Result<RunPtr> build_run(const record::EntriesRef& entries,
                                                 std::uint32_t* descriptors) = 0;

  /// Merges runs into one. It has values if all of them do.
  /// Errors  as build_run; the inputs stay as they are.
  [[nodiscard]] virtual Result<RunPtr> merge_runs(std::span<const RunPtr> runs, Keep keep) = 0;

  /// For each query what it finds: its newest version below its bound, or nothing (FoundRef).
  /// Shape   runs newest first, payload ranges disjoint; queries and found in host memory.
  /// Errors  as build_run; found is garbage then.
  [[nodiscard]] virtual Status search(std::span<const RunPtr> runs, const QueriesRef& queries,
                                      const FoundRef& found) = 0;

  /// Copies the tags of a table to the backend's memory.
  /// Shape   tags[set_count * kTagWays] in host memory.
  /// Errors  as build_run.
  [[nodiscard]] virtual Result<TagsPtr> copy_tags(const std::uint32_t* tags,
                                                  std::uint64_t set_count) = 0;

  /// As search with payloads, and for each query that finds nothing the place of its key's tag in
  /// `tags`, by the key's hash with `seed`: set * kTagWays + way + 1, or 0. Of those that find
  /// something: 0.
  /// Shape   refs[queries.keys.count] in host memory; at most 2^27 sets.
  /// Errors  as build_run; found and refs are garbage then.
  [[nodiscard]] virtual Status search_with_tags(std::span<const RunPtr> runs,
                                                const QueriesRef& queries, const Tags& tags,
                                                std::uint32_t seed, const FoundRef& found,
                                                std::uint32_t* refs) = 0;

  /// For each range its keys' newest versions below its bound, in key order.
  /// Shape   runs as for search; ranges and walked in host memory.
  /// Errors  as build_run; walked is garbage then.
  [[nodiscard]] virtual Status ranges(std::span<const RunPtr> runs, const RangesRef& ranges,
                                      const WalkedRef& walked) = 0;

  /// Brings operations to where they are worked out, in the order of their keys: what can be done
  /// before it is known whether others write their keys.
  /// Shape   updates in host memory, which stays as it is until they are worked out.
  /// Errors  as build_run.
  [[nodiscard]] virtual Result<UpdatePtr> begin_update(const UpdatesRef& updates) = 0;

  /// Works out what each operation leaves its key with, applied per key in arrival order. A key's
  /// first one comes upon its newest version in `newer`, and where those have none on its base.
  /// *fits false: some key's version there is a merge operand, and nothing was worked out.
  /// Shape   of this backend's; newer as for search, with values; result[updates.keys.count] in
  ///         host memory.
  /// Errors  as build_run; result is garbage then.
  [[nodiscard]] virtual Status finish_update(const Update& update, std::span<const RunPtr> newer,
                                             std::uint64_t* result, bool* fits) = 0;

  /// Copies a run's payloads, in run order, to host memory out[run.count()].
  [[nodiscard]] virtual Status read_payloads(const Run& run, std::uint64_t* out) = 0;

 private:
  const exec::TenantPtr tenant_;
};

/// Takes the verbs in as a tenant of `device`.
/// Errors  the loss of the device.
Result<std::shared_ptr<Backend>> make_backend(const exec::DevicePtr& device,
                                              exec::TenantOptions options);

/// The verbs on CPU threads; they never fail but for memory.
std::shared_ptr<Backend> make_host_backend();

}  // namespace breccia::runs
