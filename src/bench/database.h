#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "bench/engines/engine.h"
#include "bench/step.h"

namespace breccia::bench {

/// Whether there is a state of that name.
bool is_state(std::string_view name);
/// The state that `--state` calls `name`.
/// Shape   is_state(name).
State state_of(std::string_view name);
/// memtable, clean, tree-warm or tree-cold.
const char* state_name(State state);

/// An engine's database in one place, and where its data lie.
/// Threads one owner.
class Database {
 public:
  Database(EngineConfig config, Place place)
      : config_(std::move(config)), place_(std::move(place)), clean_bytes_(config_.clean_bytes) {}

  /// Opens the engine, or opens it again.
  Status open();
  /// Opens it again for `tuning`, if that takes another opening.
  Status open_for(const RocksdbTuning& tuning);
  /// Shape   after open().
  [[nodiscard]] Engine* engine() const { return engine_.get(); }

  Status flush();
  /// Flushes and brings all files into the last level, by RocksDB alone; opens the engine again.
  /// Errors  InvalidArgument: an engine without a tree.
  Status compact();
  /// Says that requests wrote since.
  void was_written() { in_tree_ = warm_ = false; }
  /// Brings what was written to where `state` says. `step` knows how a tree is warmed; its clock
  /// has not begun.
  Status bring_into(State state, const Step& step);

 private:
  void settle();
  Status keep_clean();
  Status warm(const Step& step);

  EngineConfig config_;
  const Place place_;
  const std::optional<std::uint64_t> clean_bytes_;  // where the tree alone is not asked for
  std::unique_ptr<Engine> engine_;
  bool in_tree_ = false;
  bool warm_ = false;
};

/// Lets the operating system forget what it has cached of the SST files in `folder` and below, as
/// far as a program without rights can; returns the share of their bytes that stays cached.
/// Errors  IOError: a file cannot be opened, written back or asked about.
Result<double> drop_cached_tables(const std::string& folder);

}  // namespace breccia::bench
