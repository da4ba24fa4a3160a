#pragma once

#include <string>

namespace breccia::testing {

/// Where a test keeps its files.
enum class Place {
  kMemory,  // /dev/shm where there is one, else as kDisk
  kDisk,    // TMPDIR, else /tmp
};

/// A folder of its own that goes with the object.
class Folder {
 public:
  explicit Folder(Place place);
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// Copies folder `from` to `to`, which must not exist, leaving out the holes of files: a log
/// segment costs what was written to it.
void copy_sparse(const std::string& from, const std::string& to);

}  // namespace breccia::testing
