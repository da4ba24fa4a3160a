#include "base/huge_pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/memory.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

namespace breccia::base {
namespace {

constexpr std::uint64_t kSmallPageBytes = 4096;

Status cannot_map(const std::string& path, int error) {
  Status status = Status::IOError();
  as_memory_allows([&] { status = Status::IOError("map " + path, std::strerror(error)); });
  return status;
}

/// Makes one page of the huge one at `at`, so that there is something to collapse, and collapses
/// it. Not by a store: on a full medium that ends the process. What errno says; 0: it is huge.
/// EAGAIN: somebody held the page for a moment, which says nothing of others.
int make_huge_page(int fd, std::byte* image, std::uint64_t at) {
  constexpr int kTries = 3;
  if (::fallocate(fd, 0, static_cast<off_t>(at), kSmallPageBytes) != 0) return errno;
  for (int i = 0; i < kTries; ++i) {
    if (::madvise(image + at, kHugePageBytes, MADV_COLLAPSE) == 0) return 0;
    if (errno != EAGAIN) return errno;
  }
  return EAGAIN;
}

}  // namespace

Result<std::byte*> map_file(int fd, const std::string& path, std::uint64_t bytes, int rights) {
  if (bytes == 0) return static_cast<std::byte*>(nullptr);
  // The address must divide as the place in the file does: room is taken, and the ends given back.
  const std::uint64_t room = bytes + kHugePageBytes;
  void* const taken = ::mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (taken == MAP_FAILED) return cannot_map(path, errno);
  auto* const begin = static_cast<std::byte*>(taken);
  const auto address = reinterpret_cast<std::uintptr_t>(taken);
  const std::uint64_t before = round_up(address, kHugePageBytes) - address;
  void* const at = ::mmap(begin + before, bytes, rights, MAP_SHARED | MAP_FIXED, fd, 0);
  const int error = errno;
  const std::uint64_t end = before + round_up(bytes, kSmallPageBytes);
  BRECCIA_ASSERT(end <= room);
  if (before > 0) ::munmap(begin, before);
  if (end < room) ::munmap(begin + end, room - end);
  // What lies between may be another thread's by now, and is only addresses.
  if (at == MAP_FAILED) return cannot_map(path, error);
  return static_cast<std::byte*>(at);
}

void fetch_pages(const std::byte* data, std::uint64_t bytes) {
  auto* const at = const_cast<std::byte*>(data);
  if (::madvise(at, bytes, MADV_COLLAPSE) == 0) return;
  (void)::madvise(at, bytes, MADV_POPULATE_READ);
}

void make_huge_pages(int fd, std::uint64_t bytes) {
  if (bytes < kHugePageBytes || ::ftruncate(fd, static_cast<off_t>(bytes)) != 0) return;
  auto image = map_file(fd, "", bytes, PROT_READ | PROT_WRITE);
  if (!image.ok()) return;
  for (std::uint64_t at = 0; at + kHugePageBytes <= bytes; at += kHugePageBytes) {
    const int error = make_huge_page(fd, image.value(), at);
    if (error != 0 && error != EAGAIN) break;
  }
  ::munmap(image.value(), bytes);
}

bool gives_huge_pages(const std::string& dir) {
  const int fd = ::open(dir.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  bool gives = ::ftruncate(fd, kHugePageBytes) == 0;
  auto image = map_file(fd, dir, kHugePageBytes, PROT_READ | PROT_WRITE);
  gives = gives && image.ok() && make_huge_page(fd, image.value(), 0) == 0;
  if (image.ok()) ::munmap(image.value(), kHugePageBytes);
  ::close(fd);
  return gives;
}

}  // namespace breccia::base
