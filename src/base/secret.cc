#include "base/secret.h"

#include <unistd.h>

#include "base/assert.h"

namespace breccia::base {

std::uint64_t draw_secret_word() {
  std::uint64_t word = 0;
  // It has no other errors than that of a system older than Linux 3.17.
  const int failed = ::getentropy(&word, sizeof word);
  BRECCIA_ASSERT(failed == 0);
  return word;
}

}  // namespace breccia::base
