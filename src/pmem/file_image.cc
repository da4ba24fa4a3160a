#include "pmem/file_image.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "pmem/page_memory.h"

namespace breccia::pmem {
namespace {

class ShadowedImage final : public FileImage {
 public:
  ShadowedImage(std::uint64_t bytes, PageMemory image, PageMemory shadow)
      : end_(base::round_up(bytes, kPageBytes)),
        image_(std::move(image)),
        shadow_(std::move(shadow)) {
    BRECCIA_ASSERT(end_ > 0);
  }

  std::byte* data() override { return image_.data(); }

  void load(std::uint64_t offset, std::span<const std::byte> durable) override {
    BRECCIA_ASSERT(offset <= end_ && durable.size() <= end_ - offset);
    std::memcpy(image_.data() + offset, durable.data(), durable.size());
    std::memcpy(shadow_.data() + offset, durable.data(), durable.size());
  }

  bool is_as_loaded() const override {
    return std::memcmp(image_.data(), shadow_.data(), end_) == 0;
  }

  void stage(std::uint64_t begin, std::uint64_t end, RedoLog& redo) override {
    BRECCIA_ASSERT(begin <= end && end <= end_);
    for (std::uint64_t offset = begin; offset < end; offset += kLineBytes) {
      // One copy serves comparison, log and shadow: a neighbour may store into the line meanwhile,
      // and a shadow that is newer than the log would hide that store from the next persist.
      const Line line = load_line(image_.data() + offset);
      if (std::memcmp(&line, shadow_.data() + offset, kLineBytes) != 0) redo.stage(offset, line);
    }
  }

  void logged(const RedoEntry& entry) override {
    BRECCIA_ASSERT(entry.offset % kLineBytes == 0 && entry.offset < end_);
    store_line(shadow_.data() + entry.offset, entry.line);
  }

  // Not from image_, which may hold stores that nobody has persisted.
  std::span<const std::byte> to_write(std::uint64_t offset, std::uint64_t bytes) override {
    BRECCIA_ASSERT(offset % kPageBytes == 0 && offset <= end_ && bytes <= end_ - offset);
    return {shadow_.data() + offset, bytes};
  }

 private:
  std::uint64_t end_;  // of the memory; a region need not end with a line
  PageMemory image_;
  PageMemory shadow_;
};

class LentImage final : public FileImage {
 public:
  explicit LentImage(std::span<std::byte> memory)
      : memory_(memory), copied_(std::min<std::uint64_t>(kCopyBytes, memory.size()) / kLineBytes) {
    BRECCIA_ASSERT(reinterpret_cast<std::uintptr_t>(memory.data()) % kPageBytes == 0);
    BRECCIA_ASSERT(!memory.empty() && memory.size() % kLineBytes == 0);
    BRECCIA_INVARIANT(
        std::all_of(memory.begin(), memory.end(), [](std::byte b) { return b == std::byte{0}; }));
  }

  std::byte* data() override { return memory_.data(); }

  void load(std::uint64_t offset, std::span<const std::byte> durable) override {
    BRECCIA_ASSERT(offset <= memory_.size() && durable.size() <= memory_.size() - offset);
    std::memcpy(memory_.data() + offset, durable.data(), durable.size());
  }

  bool is_as_loaded() const override { return true; }  // there is nothing to compare with

  void stage(std::uint64_t begin, std::uint64_t end, RedoLog& redo) override {
    BRECCIA_ASSERT(begin <= end && end <= memory_.size());
    for (std::uint64_t offset = begin; offset < end; offset += kLineBytes) {
      redo.stage(offset, load_line(memory_.data() + offset));
    }
  }

  void logged(const RedoEntry&) override {}

  // Others store into the memory meanwhile. A write straight from it could tear their words.
  std::span<const std::byte> to_write(std::uint64_t offset, std::uint64_t bytes) override {
    BRECCIA_ASSERT(offset % kPageBytes == 0 && bytes % kLineBytes == 0);
    BRECCIA_ASSERT(offset <= memory_.size() && bytes <= memory_.size() - offset);
    const std::uint64_t lines = std::min<std::uint64_t>(bytes / kLineBytes, copied_.size());
    for (std::uint64_t i = 0; i < lines; ++i) {
      copied_[i] = load_line(memory_.data() + offset + i * kLineBytes);
    }
    return std::as_bytes(std::span(copied_).first(lines));
  }

 private:
  static constexpr std::uint64_t kCopyBytes = 1ULL << 20;
  static_assert(kCopyBytes % kPageBytes == 0);

  std::span<std::byte> memory_;
  std::vector<Line> copied_;
};

}  // namespace

Result<std::unique_ptr<FileImage>> make_shadowed_image(std::uint64_t bytes) {
  BRECCIA_TAKE(PageMemory image, PageMemory::allocate(bytes));
  BRECCIA_TAKE(PageMemory shadow, PageMemory::allocate(bytes));
  return std::unique_ptr<FileImage>(
      std::make_unique<ShadowedImage>(bytes, std::move(image), std::move(shadow)));
}

std::unique_ptr<FileImage> make_lent_image(std::span<std::byte> memory) {
  return std::make_unique<LentImage>(memory);
}

}  // namespace breccia::pmem
