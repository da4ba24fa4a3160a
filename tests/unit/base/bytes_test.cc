#include "base/bytes.h"

#include <gtest/gtest.h>
#include <rocksdb/slice.h>

#include <string>

#include "base/random.h"

namespace breccia::base {
namespace {

int sign(int number) { return number < 0 ? -1 : number > 0 ? 1 : 0; }

// Goal: compare_inline orders as Slice::compare does.
// Method: 20,000 pairs of up to 40 bytes of two values, so that many begin alike.
// Mutation: comparing the second word of keys of 15 bytes reads behind them, which ASan sees; words
// that are not big-endian order otherwise.
TEST(Bytes, ComparesAsSlicesDo) {
  Random random(1);
  const auto some = [&] {
    std::string bytes(random.below(41), 'a');
    for (char& byte : bytes) byte = random.below(12) == 0 ? '\xFE' : 'a';
    return bytes;
  };
  for (int i = 0; i < 20'000; ++i) {
    const std::string a = some();
    const std::string b = random.below(8) == 0 ? a : some();
    const rocksdb::Slice left(a);
    const rocksdb::Slice right(b);
    EXPECT_EQ(sign(compare_inline(left, right)), sign(left.compare(right)));
  }
}

}  // namespace
}  // namespace breccia::base
