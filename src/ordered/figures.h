#pragma once

#include <breccia/options.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "batch/async_queue.h"
#include "cache/device_tags.h"
#include "cache/row_cache.h"
#include "compaction/service.h"
#include "ordered/resident_files.h"
#include "ordered/state.h"
#include "ordered/statistics.h"
#include "ordered/tree_filters.h"
#include "wal/log.h"

namespace breccia::ordered {

/// What a store's figures are read from.
struct FigureSources {
  const Options& options;  // in effect
  const Statistics& statistics;
  const ViewState& state;
  const Backends& backends;
  const wal::Log& log;
  const Fault& fault;
  const batch::AsyncQueue& async;
  const cache::RowCache* cache;         // null: there is none
  const cache::DeviceTags* cache_tags;  // null with it
  const TreeFilters& filters;
  const ResidentFiles& files;
  const compaction::Service* compactions;  // null: RocksDB does them
};

/// The store's figures by name, out of one table (figures.cc): counters, distributions, and how
/// things stand. docs/statistics.md says of each what it tells.
/// Owner   the sources live longer.
/// Threads any.
class Figures {
 public:
  /// Stands for all figures: as lines where a text is asked for.
  static constexpr const char* kAll = "breccia.stats";

  explicit Figures(const FigureSources& from) : from_(from) {}

  /// The figure `name`; of a distribution percentiles, count and sum.
  [[nodiscard]] std::optional<std::string> text(const std::string& name) const;
  /// The figure `name`, if it is a number.
  [[nodiscard]] std::optional<std::uint64_t> number(const std::string& name) const;
  /// Every figure by name.
  [[nodiscard]] std::map<std::string, std::string> map() const;
  /// The same as lines, numbers in the form of rocksdb::Statistics::ToString.
  [[nodiscard]] std::string lines() const;

 private:
  const FigureSources from_;
};

}  // namespace breccia::ordered
