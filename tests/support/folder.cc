#include "support/folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "base/assert.h"

namespace breccia::testing {

namespace fs = std::filesystem;

namespace {

std::string parent_of(Place place) {
  if (place == Place::kMemory && ::access("/dev/shm", W_OK) == 0) return "/dev/shm";
  const char* const folder = std::getenv("TMPDIR");
  return folder != nullptr && *folder != '\0' ? folder : "/tmp";
}

void copy_file_sparse(const std::string& from, const std::string& to) {
  constexpr std::uint64_t kPieceBytes = 64 << 10;
  const int in = ::open(from.c_str(), O_RDONLY | O_CLOEXEC);
  const int out = ::open(to.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  BRECCIA_ASSERT(in >= 0 && out >= 0);
  const auto size = static_cast<off_t>(fs::file_size(from));
  BRECCIA_ASSERT(::ftruncate(out, size) == 0);
  std::vector<char> piece(kPieceBytes);
  const std::vector<char> zeros(kPieceBytes, 0);
  off_t at = 0;
  while (at < size) {
    const off_t data = ::lseek(in, at, SEEK_DATA);
    if (data < 0) break;
    const ssize_t got = ::pread(in, piece.data(), piece.size(), data);
    BRECCIA_ASSERT(got > 0);
    const auto bytes = static_cast<std::size_t>(got);
    if (std::memcmp(piece.data(), zeros.data(), bytes) != 0) {
      BRECCIA_ASSERT(::pwrite(out, piece.data(), bytes, data) == got);
    }
    at = data + got;
  }
  ::close(in);
  ::close(out);
}

}  // namespace

Folder::Folder(Place place) : path_(parent_of(place) + "/breccia_test_XXXXXX") {
  BRECCIA_ASSERT(::mkdtemp(path_.data()) != nullptr);
}

Folder::~Folder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void copy_sparse(const std::string& from, const std::string& to) {
  fs::create_directories(to);
  for (const auto& entry : fs::directory_iterator(from)) {
    const std::string target = to + "/" + entry.path().filename().string();
    if (entry.is_directory()) {
      copy_sparse(entry.path().string(), target);
    } else {
      copy_file_sparse(entry.path().string(), target);
    }
  }
}

}  // namespace breccia::testing
