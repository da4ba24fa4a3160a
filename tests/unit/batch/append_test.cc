#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "batch/requests.h"
#include "support/seeds.h"
#include "unit/batch/same_requests.h"
#include "unit/batch/scarce_memory.h"

namespace breccia::batch {

namespace {

std::string bytes_of(base::Random* random, std::uint64_t length) {
  std::string bytes(length, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random->below(4));
  return bytes;
}

/// Adds the same random request to both.
void add_some(base::Random* random, std::uint64_t key_bytes, Requests* one, Requests* all) {
  const auto key_of = [&] {
    return bytes_of(random, random->one_in(4) ? random->below(30) : key_bytes);
  };
  const auto family = static_cast<FamilyId>(random->below(3));
  const std::string key = key_of();
  const std::string value = bytes_of(random, random->one_in(2) ? 8 : random->below(50));
  constexpr record::Op kOps[] = {record::Op::kPut, record::Op::kDelete, record::Op::kMerge,
                                 record::Op::kDeleteRange};
  const std::uint64_t kind = random->below(8);
  const auto limit = static_cast<std::uint32_t>(random->below(9));
  for (Requests* const to : {one, all}) {
    if (kind < 4) {
      const bool is_range = kOps[kind] == record::Op::kDeleteRange;
      ASSERT_TRUE(to->add_write(kOps[kind], family, key, is_range ? key + value : value).ok());
    } else if (kind < 7) {
      ASSERT_TRUE(to->add_read(family, key).ok());
    } else {
      ASSERT_TRUE(to->add_range(family, key, key + value, limit).ok());
    }
  }
}

}  // namespace

// Goal: batches put together are, to the byte, the batch of all their requests.
// Method: random batches of three families, empty ones among them, appended one by one, against a
//         batch to which each request was added; then results are handed back to each.
// Mutation: counting the family's name twice, or from a wrong place, fails.
TEST(Requests, AppendIsAddingAll) {
  for (const std::uint64_t seed : testing::seeds_to_run(300)) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + testing::replay_command(seed));
    base::Random random(seed);
    Requests together(exec::shared_plain_host_memory());
    Requests all(exec::shared_plain_host_memory());
    std::vector<std::unique_ptr<Requests>> batches;
    const std::uint64_t key_bytes = random.below(30);
    for (std::uint64_t i = 1 + random.below(8); i > 0; --i) {
      batches.push_back(std::make_unique<Requests>(exec::shared_plain_host_memory()));
      for (std::uint64_t n = random.below(12); n > 0; --n) {
        add_some(&random, key_bytes, batches.back().get(), &all);
      }
      ASSERT_TRUE(together.append(*batches.back()));
    }
    expect_same(together, all);

    // Each result names its place in the whole batch.
    ASSERT_TRUE(together.prepare_results(1, false));
    for (const auto& reads : together.reads()) {
      for (std::uint32_t i = 0; i < reads->count(); ++i) {
        reads->results()[i] = {nullptr, i, Status::Code::kOk};
      }
    }
    std::vector<std::uint32_t> next(3, 0);
    for (const auto& batch : batches) {
      ASSERT_TRUE(batch->prepare_results(0, false));
      together.hand_over(batch.get());
      for (const auto& reads : batch->reads()) {
        for (std::uint64_t i = 0; i < reads->count(); ++i) {
          ASSERT_EQ(reads->results()[i].bytes, next[reads->family()]++);
        }
      }
    }
  }
}

namespace {

/// A request as it was added, and its place in the batch's lists.
struct Added {
  enum class Kind : std::uint8_t { kPoint, kRangeDelete, kRead, kRange };
  Kind kind;
  record::Op op;
  FamilyId family;
  std::string key;
  std::string other;  // value, or end of a range
  std::uint32_t limit;
  std::uint64_t place;  // among those of its kind and family
};

Added random_request(base::Random* random) {
  constexpr record::Op kOps[] = {record::Op::kPut, record::Op::kDelete, record::Op::kMerge,
                                 record::Op::kSingleDelete};
  Added added{Added::Kind(random->below(4)),
              kOps[random->below(4)],
              static_cast<FamilyId>(random->below(3)),
              bytes_of(random, random->one_in(4) ? random->below(30) : 16),
              bytes_of(random, random->one_in(2) ? 8 : random->below(50)),
              static_cast<std::uint32_t>(random->below(30)),
              0};
  if (added.kind == Added::Kind::kRangeDelete) added.op = record::Op::kDeleteRange;
  if (record::is_deletion(added.op)) added.other.clear();
  const bool is_range =
      added.kind == Added::Kind::kRangeDelete || added.kind == Added::Kind::kRange;
  if (is_range) added.other = added.key + added.other;
  return added;
}

void add(const Added& added, Requests* to) {
  const Status status = added.kind == Added::Kind::kRead ? to->add_read(added.family, added.key)
                        : added.kind == Added::Kind::kRange
                            ? to->add_range(added.family, added.key, added.other, added.limit)
                            : to->add_write(added.op, added.family, added.key, added.other);
  ASSERT_TRUE(status.ok());
}

template <class Part>
std::size_t index_of(const std::vector<std::unique_ptr<Part>>& parts, FamilyId family) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i]->family() == family) return i;
  }
  return parts.size();
}

/// A batch whose requests are known.
struct KnownBatch {
  KnownBatch(std::uint64_t size, base::Random* random)
      : requests(exec::shared_plain_host_memory()) {
    std::map<std::pair<Added::Kind, FamilyId>, std::uint64_t> places;
    for (std::uint64_t i = 0; i < size; ++i) {
      Added one = random_request(random);
      one.place = places[{one.kind, one.family}]++;
      add(one, &requests);
      added.push_back(std::move(one));
    }
  }

  void choose(const Added& one, Selection* selection) const {
    switch (one.kind) {
      case Added::Kind::kPoint:
        selection->writes[index_of(requests.writes(), one.family)].points[one.place] = 1;
        return;
      case Added::Kind::kRangeDelete:
        selection->writes[index_of(requests.writes(), one.family)].range_deletes[one.place] = 1;
        return;
      case Added::Kind::kRead:
        selection->reads[index_of(requests.reads(), one.family)][one.place] = 1;
        return;
      case Added::Kind::kRange:
        selection->ranges[index_of(requests.ranges(), one.family)][one.place] = 1;
        return;
    }
  }

  Requests requests;
  std::vector<Added> added;
};

/// Answers every read with its key, in the part's arena, and every range with a pair: its limit
/// and how many requests of its kind and family the part had before it.
void answer(Requests* part) {
  ASSERT_TRUE(part->prepare_results(1, /*with_bounds=*/false));
  for (const auto& reads : part->reads()) {
    for (std::uint64_t i = 0; i < reads->count(); ++i) {
      const std::uint64_t bytes = reads->keys().bytes_at(i);
      char* const value = part->arena(0).allocate(bytes);
      record::restore_key(reads->keys(), i, value);
      reads->results()[i] = {value, static_cast<std::uint32_t>(bytes), Status::Code::kOk};
    }
  }
  for (const auto& ranges : part->ranges()) {
    std::uint64_t* const pairs = ranges->make_pairs(ranges->count());
    for (std::uint64_t i = 0; i < ranges->count(); ++i) {
      pairs[2 * i] = ranges->limits()[i];
      pairs[2 * i + 1] = ranges->begin().bytes_at(i);
      ranges->results()[i] = {pairs + 2 * i, nullptr, 1, Status::Code::kOk};
    }
  }
}

void expect_answers(const KnownBatch& batch) {
  std::uint64_t read = 0;
  std::uint64_t range = 0;
  for (const Added& one : batch.added) {
    if (one.kind == Added::Kind::kRead) {
      const ReadResult& result = batch.requests.result(read++);
      ASSERT_EQ(Slice(result.data, result.bytes), one.key);
    } else if (one.kind == Added::Kind::kRange) {
      const RangeResult& result = batch.requests.range_result(range++);
      ASSERT_EQ(result.count, 1u);
      ASSERT_EQ(result.pairs[0], one.limit);
      ASSERT_EQ(result.pairs[1], one.key.size());
    }
  }
  ASSERT_EQ(batch.requests.result_count(), read);
  ASSERT_EQ(batch.requests.range_result_count(), range);
}

/// Batches that are divided among others: request r of batch b goes to part_of[b][r].
struct Division {
  Division(const std::vector<std::uint64_t>& sizes, std::uint64_t parts, base::Random* random) {
    for (const std::uint64_t size : sizes) {
      batches.push_back(std::make_unique<KnownBatch>(size, random));
      auto& selections = chosen.emplace_back();
      selections.assign(parts, batches.back()->requests.none_chosen());
      for (const Added& one : batches.back()->added) {
        part_of.emplace_back(random->below(parts));
        batches.back()->choose(one, &selections[part_of.back()]);
      }
    }
  }

  /// What should be in a part: a batch to which its requests were added.
  void add_expected(std::uint64_t part, Requests* to) const {
    std::size_t next = 0;
    for (const auto& batch : batches) {
      for (const Added& one : batch->added) {
        if (part_of[next++] == part) add(one, to);
      }
    }
  }

  std::vector<std::unique_ptr<KnownBatch>> batches;
  std::vector<std::vector<Selection>> chosen;
  std::vector<std::uint64_t> part_of;
};

constexpr std::uint64_t kSizes[] = {0, 1, 31, 32, 33, 63, 64, 65};

std::uint64_t random_size(base::Random* random) {
  return random->one_in(3) ? random->below(200) : kSizes[random->below(std::size(kSizes))];
}

}  // namespace

// Goal: the chosen requests of batches are, to the byte, the batch to which those were added, and
//   each result comes back to its request and lives on, however often batches are divided.
// Method: random batches of three families and all kinds, divided at random among one to three
//   parts, each of which is answered from what it holds; the batches then hold the parts alone.
// Mutation: counting what was not chosen into a read's place, naming a family that has no chosen
//   write, or handing results to all requests in turn fails.
TEST(Requests, ChosenOnesAreAddedAndAnswered) {
  for (const std::uint64_t seed : testing::seeds_to_run(300)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const std::uint64_t part_count = 1 + random.below(3);
    std::vector<std::uint64_t> sizes(1 + random.below(3));
    for (std::uint64_t& size : sizes) size = random_size(&random);
    const Division division(sizes, part_count, &random);
    auto parts = std::make_shared<std::vector<std::unique_ptr<Requests>>>();
    for (std::uint64_t p = 0; p < part_count; ++p) {
      parts->push_back(std::make_unique<Requests>(exec::shared_plain_host_memory()));
      Requests expected(exec::shared_plain_host_memory());
      division.add_expected(p, &expected);
      for (std::size_t b = 0; b < division.batches.size(); ++b) {
        ASSERT_TRUE(parts->back()->append(division.batches[b]->requests, division.chosen[b][p]));
      }
      expect_same(*parts->back(), expected);
      answer(parts->back().get());
    }
    for (const auto& batch : division.batches) {
      ASSERT_TRUE(batch->requests.prepare_results(/*parts=*/0, /*with_bounds=*/false));
    }
    for (std::uint64_t p = 0; p < part_count; ++p) {
      for (std::size_t b = 0; b < division.batches.size(); ++b) {
        (*parts)[p]->hand_over(&division.batches[b]->requests, division.chosen[b][p]);
      }
    }
    for (const auto& batch : division.batches) batch->requests.hold(parts);
    parts.reset();
    for (const auto& batch : division.batches) expect_answers(*batch);
    if (HasFailure()) return;
  }
}

// Goal: a selection and its others are all requests, each once.
// Method: random selections of random batches; both divide the batch between two parts.
// Mutation: leaving a kind as it is fails.
TEST(Requests, OthersAreTheRest) {
  for (const std::uint64_t seed : testing::seeds_to_run(100)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const Division division({random_size(&random)}, 2, &random);
    const Selection others = division.chosen[0][0].others();
    const Selection& expected = division.chosen[0][1];
    ASSERT_EQ(others.reads, expected.reads);
    ASSERT_EQ(others.ranges, expected.ranges);
    for (std::size_t i = 0; i < expected.writes.size(); ++i) {
      ASSERT_EQ(others.writes[i].points, expected.writes[i].points);
      ASSERT_EQ(others.writes[i].range_deletes, expected.writes[i].range_deletes);
    }
  }
}

// Goal: whoever finds no memory for the chosen requests leaves the batch as it was.
// Method: allocation 1, 2, 3, ... of a part fails; then another part takes the same, is answered,
//   and the batch has its answers.
// Mutation: taking requests out of the batch fails.
TEST(Requests, WantOfMemoryLeavesTheWhole) {
  base::Random random(1);
  for (const std::uint64_t size : {1, 65, 200}) {
    const Division division({size}, 2, &random);
    KnownBatch& batch = *division.batches[0];
    bool done = false;
    for (std::uint64_t k = 1; !done; ++k) {
      SCOPED_TRACE("allocation " + std::to_string(k));
      const auto memory = std::make_shared<ScarceMemory>();
      memory->fail_at(k);
      Requests first(memory);
      done = first.append(batch.requests, division.chosen[0][0]);
      ASSERT_TRUE(done || memory->calls() == k);
      ASSERT_TRUE(batch.requests.prepare_results(/*parts=*/0, /*with_bounds=*/false));
      const auto parts = std::make_shared<std::vector<std::unique_ptr<Requests>>>();
      for (std::uint64_t p = 0; p < 2; ++p) {
        parts->push_back(std::make_unique<Requests>(exec::shared_plain_host_memory()));
        ASSERT_TRUE(parts->back()->append(batch.requests, division.chosen[0][p]));
        answer(parts->back().get());
        parts->back()->hand_over(&batch.requests, division.chosen[0][p]);
      }
      batch.requests.hold(parts);
      expect_answers(batch);
    }
  }
}

}  // namespace breccia::batch
