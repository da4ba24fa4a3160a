#include "sst/table_names.h"

#include <unistd.h>

#include <mutex>
#include <random>
#include <string_view>
#include <utility>

namespace breccia::sst {

namespace {

std::string random_session() {
  constexpr std::string_view kDigits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  constexpr std::size_t kLength = 20;
  std::random_device random;
  std::uniform_int_distribution<std::size_t> digit(0, kDigits.size() - 1);
  std::string session;
  for (std::size_t i = 0; i < kLength; ++i) session.push_back(kDigits[digit(random)]);
  return session;
}

}  // namespace

TableNames take_table_names(std::uint64_t count) {
  static std::mutex mutex;
  static pid_t process = 0;
  static std::string session;
  static std::uint64_t next_number = 1;
  const std::lock_guard lock(mutex);
  if (process != getpid()) {
    session = random_session();
    next_number = 1;
    process = getpid();
  }
  return {session, std::exchange(next_number, next_number + count)};
}

}  // namespace breccia::sst
