#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/fault.h"
#include "batch/async_queue.h"
#include "exec/device.h"
#include "hash/engine/cleaner.h"
#include "hash/engine/log_view.h"
#include "hash/engine/state.h"
#include "wal/log.h"

namespace breccia::hash {

/// What the figures of a store come from.
struct FigureSources {
  const State& state;
  const Cleaner& cleaner;
  const wal::Log& log;
  const base::Fault& fault;
  const batch::AdmissionFigures admission;
  const exec::Device& device;
  const std::string& no_device;
  const Cache* row_cache;  // null: none
  const LogView& log_view;
  std::uint64_t gets;
  std::uint64_t writes;
};

/// A figure by the name that Store::GetProperty takes (docs/hash.md); none of another name.
[[nodiscard]] std::optional<std::string> figure_of(const FigureSources& from,
                                                   const std::string& name);

}  // namespace breccia::hash
