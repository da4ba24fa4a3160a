#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "pmem/disk.h"

/// The file that says with which step of a training a store was flushed.

namespace breccia::hash {

/// Its name in the store's folder.
inline constexpr char kStepName[] = "STEP";

struct StepMark {
  std::uint64_t step = 0;
  std::uint64_t position = 0;  // of the log, below which all was durable before the file was
};

/// Reads and replaces the step of one store.
/// Threads one at a time.
class StepFile {
 public:
  StepFile(std::shared_ptr<pmem::Disk> disk, const std::string& folder, std::uint64_t store_id)
      : disk_(std::move(disk)), path_(folder + "/" + kStepName), store_id_(store_id) {}

  /// Errors  Corruption: what is there is no step of this store; IOError. None is no error.
  [[nodiscard]] Result<std::optional<StepMark>> read() const;
  /// Durable on return.
  /// Errors  IOError, NoSpace: this step is there, or the one before it.
  [[nodiscard]] Status write(const StepMark& step) const;

 private:
  const std::shared_ptr<pmem::Disk> disk_;
  const std::string path_;
  const std::uint64_t store_id_;
};

}  // namespace breccia::hash
