#pragma once

#include <breccia/options.h>
#include <breccia/store.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

/// A fixed workload on a store, step by step, that knows what must be there after a failure.

namespace breccia::crash {

struct Step {
  enum class Kind {
    kPut,
    kDelete,
    kBatch,
    kMixed,  // a batch of puts, merges and range deletions, in two column families
    kFlush
  };
  Kind kind;
  std::string name;  // of the key; of a batch, the beginning of its keys
  std::uint32_t count = 1;
  std::uint64_t value_bytes = 20;
  Durability durability = Durability::kDefault;
};

/// Single writes, small and large batches with reads among them, also of two column families,
/// flushes; some 20 steps.
[[nodiscard]] std::vector<Step> mixed_script();
/// Values so large that the log needs a second and a third segment.
[[nodiscard]] std::vector<Step> rolling_script();

/// A store's expected content while a script runs.
class Script {
 public:
  explicit Script(std::vector<Step> steps) : steps_(std::move(steps)) {}

  /// Runs the steps up to the first that fails, and the rest, which must then be refused as well
  /// (`stops`), or up to the end. Reads are compared with what was acknowledged.
  /// Returns what went wrong with that; *failure is the first error, ok if there was none.
  std::string run(Store* store, bool stops, Status* failure);

  /// Compares a store that was opened again: everything acknowledged is there, the refused write
  /// whole or not at all.
  [[nodiscard]] std::string check_recovered(Store* store) const;
  /// Compares all keys with what was acknowledged.
  [[nodiscard]] std::string check_acked(Store* store) const;

 private:
  /// By family and key; the families are the default one and the other one.
  using Content = std::map<std::pair<bool, std::string>, std::optional<std::string>>;
  class Mixed;

  [[nodiscard]] Content writes_of(const Step& step, std::size_t number) const;
  Status run_step(Store* store, const Step& step, std::size_t number, const Content& writes,
                  std::string* error);
  [[nodiscard]] static std::string compare(Store* store, const Content& expected);

  const std::vector<Step> steps_;
  Content acked_;    // every key of the script that was tried: its value, or nothing
  Content refused_;  // what the step that failed would have written
};

/// Options for these tests: no noise, no compression, sparse log files, a second column family, a
/// merge operator that appends.
[[nodiscard]] Options quiet_options();

}  // namespace breccia::crash
