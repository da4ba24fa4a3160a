#include "sst/session.h"

#include <rocksdb/env.h>
#include <unistd.h>

#include <array>
#include <random>
#include <string_view>

namespace breccia::sst {

std::string new_session() {
  constexpr std::string_view kDigits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  constexpr std::size_t kLength = 20;
  std::random_device random;
  std::uniform_int_distribution<std::size_t> digit(0, kDigits.size() - 1);
  std::string session;
  for (std::size_t i = 0; i < kLength; ++i) session.push_back(kDigits[digit(random)]);
  return session;
}

std::string host_id(const rocksdb::DBOptions& options) {
  if (options.db_host_id != rocksdb::kHostnameForDbHostId) return options.db_host_id;
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace breccia::sst
