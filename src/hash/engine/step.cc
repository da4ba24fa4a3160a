#include "hash/engine/step.h"

#include <cstddef>
#include <span>
#include <type_traits>

#include "base/checksum.h"
#include "base/memory.h"
#include "hash/engine/engine.h"
#include "pmem/small_file.h"

namespace breccia::hash {

namespace {

/// The file's bytes.
struct Bytes {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t padding;  // zero
  std::uint64_t store_id;
  std::uint64_t step;
  std::uint64_t position;
  std::uint32_t zero;
  std::uint32_t crc;  // CRC32C of the bytes before it
};
static_assert(sizeof(Bytes) == 48 && std::is_trivial_v<Bytes>);
constexpr std::uint64_t kMagic = 0x5045'5453'4343'5242;  // "BRCCSTEP"
constexpr std::uint32_t kVersion = 1;

std::uint32_t crc_of(const Bytes& bytes) { return base::crc32c(0, &bytes, offsetof(Bytes, crc)); }

}  // namespace

Result<std::optional<StepMark>> StepFile::read() const {
  Bytes bytes;
  BRECCIA_TAKE(
      const bool is_there,
      pmem::read_small_file(disk_.get(), path_, std::as_writable_bytes(std::span(&bytes, 1))));
  if (!is_there) return std::optional<StepMark>();
  if (bytes.magic != kMagic || bytes.crc != crc_of(bytes) || bytes.store_id != store_id_) {
    return Status::Corruption(path_ + " is not the flushed step of this store",
                              "Nothing was changed. Restore the file from a copy, or remove it: "
                              "then the store knows of no step.");
  }
  if (bytes.version != kVersion) {
    return Status::NotSupported(path_ + " is of version " + std::to_string(bytes.version),
                                "open the store with a newer breccia");
  }
  return std::optional(StepMark{bytes.step, bytes.position});
}

Status StepFile::write(const StepMark& step) const {
  Bytes bytes{kMagic, kVersion, 0, store_id_, step.step, step.position, 0, 0};
  bytes.crc = crc_of(bytes);
  return pmem::replace_small_file(disk_.get(), path_, std::as_bytes(std::span(&bytes, 1)));
}

// ---- the store's calls -----------------------------------------------------------------------

Status Engine::Flush(std::uint64_t step) {
  return base::or_memory_limit([&] {
    BRECCIA_TRY(check_open());
    const std::lock_guard lock(step_mutex_);
    const StepMark flushed{step, state_->visible()};
    BRECCIA_TRY(commits_->keep(/*sync=*/true));
    BRECCIA_TRY(step_file_->write(flushed));
    flushed_ = flushed;
    return Status::OK();
  });
}

std::optional<std::uint64_t> Engine::FlushedStep() const {
  const std::lock_guard lock(step_mutex_);
  return flushed_.has_value() ? std::optional(flushed_->step) : std::nullopt;
}

}  // namespace breccia::hash
