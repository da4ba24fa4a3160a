#include "hash/engine/common.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "base/random.h"
#include "support/seeds.h"

namespace breccia::hash {
namespace {

using record::Op;
using record::RecordHeader;

RecordHeader some_header(base::Random& random, std::uint64_t kinds) {
  const RecordHeader headers[] = {
      RecordHeader::make(Op::kPut, 8, 128, 6), RecordHeader::make(Op::kDelete, 8, 0),
      RecordHeader::make(Op::kPut, 8, 128),    RecordHeader::make(Op::kSingleDelete, 9, 0),
      RecordHeader::make(Op::kPut, 8, 64),     RecordHeader::make(Op::kPut, 9, 128, 6)};
  return headers[random.below(kinds)];
}

/// What all of `headers` say.
void expect(const Common& common, const std::vector<RecordHeader>& headers) {
  std::optional<RecordHeader> first;
  bool is_one = true;
  bool only_words = true;
  for (const RecordHeader& one : headers) {
    only_words = only_words && one.key_bytes() == 8;
    if (one.op() != Op::kPut) continue;
    is_one = is_one && (!first.has_value() || *first == one);
    if (!first.has_value()) first = one;
  }
  EXPECT_EQ(common.only_words, only_words);
  EXPECT_EQ(common.put.shared(), is_one ? first : std::nullopt);
}

}  // namespace

// Goal: records that were added one by one, or in parts, share what all of them have.
// Method: random headers of few kinds, in parts that are added up in their order.
// Mutation: the header that came last; a deletion's header; a part without puts that has an effect,
//   or one with several that has none; one header that is forgotten where others come.
TEST(HashCommon, IsOfAll) {
  for (const std::uint64_t seed : testing::seeds_to_run(2000)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const std::uint64_t kinds = 1 + random.below(6);
    std::vector<RecordHeader> headers;
    Common all;
    for (std::uint64_t parts = random.below(5); parts > 0; --parts) {
      Common part;
      for (std::uint64_t i = random.below(4); i > 0; --i) {
        headers.push_back(some_header(random, kinds));
        part.add(headers.back());
      }
      all.add(part);
      expect(all, headers);
    }
    if (HasFailure()) return;
  }
}

// Goal: of puts of which nothing is known there is no header, whatever comes before or behind.
TEST(HashCommon, SeveralStaySo) {
  CommonPut puts;
  puts.add(RecordHeader::make(Op::kPut, 8, 128));
  EXPECT_TRUE(puts.shared().has_value());
  puts.add(CommonPut());
  EXPECT_TRUE(puts.shared().has_value());
  puts.add(CommonPut::several());
  EXPECT_FALSE(puts.shared().has_value());
  puts.add(RecordHeader::make(Op::kPut, 8, 128));
  EXPECT_FALSE(puts.shared().has_value());
}

}  // namespace breccia::hash
