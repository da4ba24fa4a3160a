#include "base/machine.h"

#include <algorithm>
#include <fstream>
#include <limits>

namespace breccia::base {

namespace {

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

/// The number in a file; kNoLimit for "max", or where there is none.
std::uint64_t number_in(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  return file >> number ? number : kNoLimit;
}

/// The least limit of the group at `path` below `mount`, and of those above it. A container may see
/// its own group as the root while its path is the host's: what is not there says nothing.
std::uint64_t least_limit(const std::string& mount, std::string path, const std::string& file) {
  std::uint64_t least = kNoLimit;
  while (true) {
    while (!path.empty() && path.back() == '/') path.pop_back();
    least = std::min(least, number_in(mount + path + "/" + file));
    if (path.empty()) return least;
    const std::size_t parent = path.rfind('/');
    path.resize(parent == std::string::npos ? 0 : parent);
  }
}

/// True if `name` is one of `list`, which has commas between them.
bool is_among(const std::string& name, const std::string& list) {
  return ("," + list + ",").find("," + name + ",") != std::string::npos;
}

}  // namespace

std::optional<std::uint64_t> cgroup_memory_max(const std::string& groups,
                                               const std::string& mount) {
  std::uint64_t least = kNoLimit;
  std::ifstream file(groups);
  // A line is number:controllers:path; version 2 has the number 0 and names no controllers.
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      least = std::min(least, least_limit(mount, path, "memory.max"));
    } else if (is_among("memory", controllers)) {
      least = std::min(least, least_limit(mount + "/memory", path, "memory.limit_in_bytes"));
    }
  }
  if (least == kNoLimit) return std::nullopt;
  return least;
}

std::uint64_t usable_memory_bytes() {
  static const std::uint64_t bytes =
      std::min(machine_memory_bytes(),
               cgroup_memory_max("/proc/self/cgroup", "/sys/fs/cgroup").value_or(kNoLimit));
  return bytes;
}

}  // namespace breccia::base
