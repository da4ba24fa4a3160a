#include <breccia/slab_options.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/memory.h"
#include "hot/tier.h"
#include "memory/fail_each.h"
#include "slab/engine/engine.h"

/// A store in memory alone, in a process that has none.

namespace breccia {

namespace {

using testing::fail_each;
using testing::tried;
using Entries = std::map<std::uint64_t, std::uint64_t>;

Slice slice_of(const std::uint64_t& word) {
  return {reinterpret_cast<const char*>(&word), sizeof word};
}

/// How a store keeps what it has, and whether there are copies of hot keys in front of it.
struct Kind {
  bool in_place;
  bool has_tier;
};

/// A store, and what must be in it.
class Session {
 public:
  static constexpr std::uint64_t kKeys = 10;

  explicit Session(const Kind& kind) : kind_(kind) {}
  ~Session() { testing::disarm_allocations(); }

  bool open() {
    const Status status =
        tried([&] { return base::or_memory_limit([&] { return open_store(); }); });
    EXPECT_TRUE(status.ok() || status.IsMemoryLimit()) << status.ToString();
    return status.ok();
  }
  /// Looks all keys up, so often that some are hot.
  void look() {
    for (std::uint64_t i = 0; i < 4 * kKeys; ++i) {
      const std::uint64_t key = i % kKeys;
      std::string value;
      const Status status = tried([&] { return store_->Get(slice_of(key), &value); });
      expect_found(key, status, value);
    }
  }
  void put(std::uint64_t key, std::uint64_t value) {
    note(tried([&] { return store_->Put({}, slice_of(key), slice_of(value)); }), {{key, value}});
  }
  /// Puts `count` keys, and looks them up before, between or behind.
  void batch(std::uint64_t first, std::uint64_t count, std::uint64_t value) {
    Batch batch = store_->NewBatch();
    Entries entries;
    for (std::uint64_t i = 0; i < count; ++i) entries[(first + i) % kKeys] = value + i;
    if (!build(entries, count % 3 * count / 2, &batch)) return;
    const Status status = tried([&] { return store_->Submit({}, &batch); });
    note(status, entries);
  }
  void batches_together() {
    constexpr int kBatches = 4;
    std::vector<Batch> batches;
    std::vector<std::promise<Status>> done(kBatches);
    std::vector<Entries> entries(kBatches);
    for (int i = 0; i < kBatches; ++i) {
      batches.push_back(store_->NewBatch());
      entries[i][i] = 1000 + i;
      if (!build(entries[i], 0, &batches.back())) return;
    }
    for (int i = 0; i < kBatches; ++i) {
      const testing::ExposedCall exposed;
      store_->SubmitAsync({}, &batches[i], [one = &done[i]](Status status) {
        const testing::SparedThread spared;
        one->set_value(std::move(status));
      });
    }
    for (int i = 0; i < kBatches; ++i) note(done[i].get_future().get(), entries[i]);
  }
  void transaction(std::uint64_t key, std::uint64_t value) {
    std::unique_ptr<Transaction> open;
    try {
      const testing::ExposedCall exposed;
      open = store_->OpenTransaction();
    } catch (const std::bad_alloc&) {
      return;  // it has no other way to say so
    }
    Batch reads = store_->NewBatch();
    EXPECT_TRUE(reads.Get(slice_of(key)).ok());
    const Status read = tried([&] { return open->Read(&reads); });
    const Status built = tried([&] { return open->batch().Put(slice_of(key), slice_of(value)); });
    if (!read.ok() || !built.ok()) return;
    note(tried([&] { return open->Close({}); }), {{key, value}});
  }

  /// Without failures: what is acknowledged is there, all else is not, and nothing is left of what
  /// is deleted.
  void check() {
    testing::disarm_allocations();
    if (store_ == nullptr) return;
    look();
    if (is_lost_) {
      EXPECT_TRUE(store_->Put({}, slice_of(1), slice_of(1)).IsIOError());
      return;
    }
    expect_figure("breccia.slab.keys", model_.size());
    for (std::uint64_t key = 0; key < kKeys; ++key) {
      EXPECT_TRUE(store_->Delete({}, slice_of(key)).ok());
    }
    model_.clear();
    look();
    expect_figure("breccia.slab.keys", 0);
    if (!kind_.in_place) expect_figure("breccia.slab.record_bytes", 0);
    EXPECT_TRUE(store_->Close().ok());
  }

 private:
  Status open_store() {
    SlabOptions options;
    options.backend = BackendChoice::kHost;
    options.keys_expected = 8;
    options.admission_requests_min = 4;
    options.in_place = kind_.in_place;
    std::unique_ptr<slab::Engine> engine;
    Status status = slab::Engine::open(options, kind_.in_place ? ~std::uint64_t{0} : 3, &engine);
    if (!status.ok() || !kind_.has_tier) {
      store_ = std::move(engine);
      return status;
    }
    auto tier = hot::Tier::make(
        {.keys_max = 8, .sample_one_in = 1, .samples_of_window = 128, .gain_min = -1},
        std::move(engine));
    if (!tier.ok()) return base::copy_of(tier.status());
    store_ = tier.take();
    return Status::OK();
  }
  static bool build(const Entries& entries, std::uint64_t lookups_at, Batch* batch) {
    const Status built = tried([&] {
      std::uint64_t i = 0;
      for (const auto& [key, value] : entries) {
        if (i++ == lookups_at) {
          for (const auto& [looked_up, unused] : entries) {
            Status status = batch->Get(slice_of(looked_up));
            if (!status.ok()) return status;
          }
        }
        Status status = batch->Put(slice_of(key), slice_of(value));
        if (!status.ok()) return status;
      }
      return Status::OK();
    });
    EXPECT_TRUE(built.ok() || built.IsMemoryLimit());
    return built.ok();
  }
  /// What became of a write: there, or not; a store whose keys lie in the table may be lost.
  void note(const Status& status, const Entries& entries) {
    if (status.ok()) {
      EXPECT_FALSE(is_lost_);
      for (const auto& [key, value] : entries) model_[key] = value;
      return;
    }
    EXPECT_TRUE(status.IsMemoryLimit() || status.IsIOError()) << status.ToString();
    if (status.IsIOError()) is_lost_ = kind_.in_place;
  }
  void expect_found(std::uint64_t key, const Status& status, const std::string& value) {
    if (status.IsMemoryLimit() || status.IsIOError()) return;
    ASSERT_TRUE(status.ok() || status.IsNotFound()) << status.ToString();
    ASSERT_EQ(status.ok(), model_.contains(key)) << key;
    if (!status.ok()) return;
    ASSERT_EQ(Slice(value), slice_of(model_[key])) << key;
  }
  void expect_figure(const std::string& name, std::uint64_t figure) {
    std::string text;
    ASSERT_TRUE(store_->GetProperty(name, &text));
    EXPECT_EQ(text, std::to_string(figure)) << name;
  }

  const Kind kind_;
  std::unique_ptr<Store> store_;
  Entries model_;
  bool is_lost_ = false;
};

class SlabMemory : public ::testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, SlabMemory,
                         ::testing::Values(Kind{false, false}, Kind{true, false}, Kind{false, true},
                                           Kind{true, true}),
                         [](const auto& kind) {
                           return std::string(kind.param.in_place ? "InPlace" : "Records") +
                                  (kind.param.has_tier ? "BehindATier" : "");
                         });

}  // namespace

// Goal: what a write says is true, whatever found no memory, and a store in memory alone gives all
//   of it back.
// Method: each allocation fails of opening, of single writes, batches, batches that go together,
//   transactions and lookups.
// Mutation: an answer that wants memory behind the writes; entries of a batch that failed that an
//   index still knows; a key's copy that is not what the store has.
TEST_P(SlabMemory, WritesAndReads) {
  fail_each<Session>(
      [](Session* session, const auto& arm) {
        ASSERT_TRUE(session->open());
        session->batch(0, 7, 100);
        session->look();
        arm();
        session->put(1, 1);
        session->batch(3, 3, 200);
        session->batch(5, 4, 300);
        session->batch(8, 5, 400);
        session->batches_together();
        session->transaction(2, 500);
        session->look();
        session->put(9, 600);
      },
      GetParam());
}

// Goal: a store that finds no memory to open says so, and keeps none.
// Method: each allocation of opening one fails.
TEST_P(SlabMemory, Opens) {
  fail_each<Session>(
      [](Session* session, const auto& arm) {
        arm();
        if (session->open()) session->put(1, 1);
      },
      GetParam());
}

}  // namespace breccia
