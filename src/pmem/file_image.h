#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "pmem/lines.h"
#include "pmem/redo_log.h"

/// What a file region has in memory, and which of it a persist and a checkpoint take.

namespace breccia::pmem {

/// Threads the bytes anybody; the object one at a time.
class FileImage {
 public:
  virtual ~FileImage() = default;
  /// What the program stores into.
  [[nodiscard]] virtual std::byte* data() = 0;
  /// Takes what the medium holds at `offset`. Called while nobody else uses the bytes.
  virtual void load(std::uint64_t offset, std::span<const std::byte> durable) = 0;
  /// True if the bytes are what load() was given; may read them all.
  [[nodiscard]] virtual bool is_as_loaded() const = 0;
  /// Stages the lines of [begin, end) that the medium may hold otherwise, each copied once.
  /// Shape   offsets of whole lines.
  virtual void stage(std::uint64_t begin, std::uint64_t end, RedoLog& redo) = 0;
  /// Hears that the redo log holds this line for good.
  virtual void logged(const RedoEntry& entry) = 0;
  /// What a checkpoint writes to the file at `offset`: `bytes` or, in whole pages, fewer.
  /// Shape   `offset` of a whole page.
  /// Owner   the bytes stay as they are until the next call.
  virtual std::span<const std::byte> to_write(std::uint64_t offset, std::uint64_t bytes) = 0;
};

/// An image of the region's own with a shadow, what is durable: lines that have not changed are not
/// logged, and a checkpoint writes nothing that nobody has persisted.
/// Errors  MemoryLimit.
Result<std::unique_ptr<FileImage>> make_shadowed_image(std::uint64_t bytes);

/// The caller's memory alone: every line is logged, and a checkpoint writes what is there then.
/// Shape   `memory` is 4096-aligned, in whole lines, and all zeros.
std::unique_ptr<FileImage> make_lent_image(std::span<std::byte> memory);

}  // namespace breccia::pmem
