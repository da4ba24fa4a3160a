#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/result.h"

/// What the real disk and the DAX region share: descriptors, errors, creation.

namespace breccia::pmem {

/// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor();
  [[nodiscard]] int get() const { return number_; }

 private:
  int number_;
};

/// The Status of `error`, an errno value: NoSpace, NotFound or IOError.
Status status_of_errno(const std::string& what, int error);

/// Opens an existing file for reading and writing and locks it.
/// Errors  NotFound; Busy: somebody has it open.
Result<Descriptor> open_locked(const std::string& path);

/// Opens or creates a file, locks it and makes it `bytes` zero bytes with their space reserved.
Result<Descriptor> create_locked(const std::string& path, std::uint64_t bytes);

Status rename_file(const std::string& from, const std::string& to);

/// Makes creations and renames in the folder of `path` durable.
Status sync_folder_of_file(const std::string& path);

}  // namespace breccia::pmem
