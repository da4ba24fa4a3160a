#include <breccia/options.h>
#include <breccia/stackable_store.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "support/folder.h"
#include "support/small_options.h"

namespace breccia {

namespace {

/// Notes what is called. Answers are of no sense but different from those of an empty store.
class NotingStore final : public Store {
 public:
  explicit NotingStore(std::vector<std::string>* calls) : calls_(calls) {}

  Status Close() override { return note("Close"); }
  Status Submit(const WriteOptions&, Batch*) override { return note("Submit"); }
  std::unique_ptr<Transaction> OpenTransaction() override {
    note("OpenTransaction").PermitUncheckedError();
    return nullptr;
  }
  void SubmitAsync(const WriteOptions&, Batch*, std::function<void(Status)> done) override {
    done(note("SubmitAsync"));
  }
  Batch NewBatch() override {
    note("NewBatch").PermitUncheckedError();
    return {};
  }
  Status RegisterMemory(void*, std::size_t, MemoryRegistration*) override {
    return note("RegisterMemory");
  }
  Status Put(const WriteOptions&, const Slice&, const Slice&) override { return note("Put"); }
  Status Delete(const WriteOptions&, const Slice&) override { return note("Delete"); }
  Status Merge(const WriteOptions&, const Slice&, const Slice&) override { return note("Merge"); }
  Status Get(const Slice&, std::string* value) override {
    *value = "below";
    return note("Get");
  }
  std::vector<Status> MultiGet(std::span<const Slice> keys, std::vector<std::string>*) override {
    return {keys.size(), note("MultiGet")};
  }
  Status CreateFamily(const std::string&, FamilyId* family) override {
    *family = 7;
    return note("CreateFamily");
  }
  Status DropFamily(FamilyId) override { return note("DropFamily"); }
  std::vector<std::pair<std::string, FamilyId>> Families() const override {
    note("Families").PermitUncheckedError();
    return {{"one", 1}};
  }
  Status Changes(std::uint64_t, const ChangesOptions&, std::unique_ptr<ChangeStream>*) override {
    return note("Changes");
  }
  std::uint64_t Position() const override {
    note("Position").PermitUncheckedError();
    return 42;
  }
  Status SyncLog() override { return note("SyncLog"); }
  Status Flush() override { return note("Flush"); }
  bool GetProperty(const std::string&, std::string*) override { return note("GetProperty").ok(); }
  RecoveryReport recovery() const override {
    note("recovery").PermitUncheckedError();
    RecoveryReport report;
    report.frames = 3;
    return report;
  }

 private:
  Status note(const char* call) const {
    calls_->emplace_back(call);
    return Status::OK();
  }
  std::vector<std::string>* const calls_;
};

/// A tier that answers one key itself and counts what it is asked.
class CountingStore final : public StackableStore {
 public:
  using StackableStore::StackableStore;
  Status Get(const Slice& key, std::string* value) override {
    ++gets;
    if (key != "mine") return StackableStore::Get(key, value);
    *value = "tier";
    return Status::OK();
  }
  int gets = 0;
};

}  // namespace

// Goal: whatever a tier does not do itself, the store below does.
// Method: every function once over a store that notes its calls.
// Mutation: a function that answers by itself, or calls another one, fails.
TEST(StackableStore, ForwardsEveryFunction) {
  std::vector<std::string> calls;
  StackableStore store(std::make_unique<NotingStore>(&calls));
  Batch batch;
  std::string value;
  std::vector<std::string> values;
  FamilyId family = 0;
  std::unique_ptr<ChangeStream> stream;
  bool is_done = false;
  const Slice keys[] = {"a", "b"};
  EXPECT_TRUE(store.Submit({}, &batch).ok());
  EXPECT_EQ(store.OpenTransaction(), nullptr);
  store.SubmitAsync({}, &batch, [&](const Status& status) { is_done = status.ok(); });
  EXPECT_TRUE(is_done);
  EXPECT_EQ(store.NewBatch().writes(), 0u);
  MemoryRegistration registration;
  EXPECT_TRUE(store.RegisterMemory(&value, sizeof value, &registration).ok());
  EXPECT_TRUE(store.Put({}, "a", "1").ok());
  EXPECT_TRUE(store.Delete({}, "a").ok());
  EXPECT_TRUE(store.Merge({}, "a", "1").ok());
  EXPECT_TRUE(store.Get("a", &value).ok());
  EXPECT_EQ(value, "below");
  EXPECT_EQ(store.MultiGet(keys, &values).size(), 2u);
  EXPECT_TRUE(store.CreateFamily("one", &family).ok());
  EXPECT_EQ(family, 7u);
  EXPECT_TRUE(store.DropFamily(family).ok());
  EXPECT_EQ(store.Families().size(), 1u);
  EXPECT_TRUE(store.Changes(0, {}, &stream).ok());
  EXPECT_EQ(store.Position(), 42u);
  EXPECT_TRUE(store.SyncLog().ok());
  EXPECT_TRUE(store.Flush().ok());
  EXPECT_TRUE(store.GetProperty("breccia.stats", &value));
  EXPECT_EQ(store.recovery().frames, 3u);
  EXPECT_TRUE(store.Close().ok());
  EXPECT_EQ(calls,
            (std::vector<std::string>{
                "Submit",       "OpenTransaction", "SubmitAsync", "NewBatch", "RegisterMemory",
                "Put",          "Delete",          "Merge",       "Get",      "MultiGet",
                "CreateFamily", "DropFamily",      "Families",    "Changes",  "Position",
                "SyncLog",      "Flush",           "GetProperty", "recovery", "Close"}));
}

// Goal: a tier works over an engine, and a tier over a tier.
// Method: two counting tiers over a store of the ordered engine.
// Mutation: a tier that does not own what is below leaks or ends it twice (asan).
TEST(StackableStore, OverAnEngine) {
  const testing::Folder folder(testing::Place::kMemory);
  std::unique_ptr<Store> engine;
  ASSERT_TRUE(Store::Open(testing::small_options(), folder / "store", &engine).ok());
  Store* const bottom = engine.get();
  auto middle = std::make_unique<CountingStore>(std::move(engine));
  EXPECT_EQ(middle->below(), bottom);
  CountingStore* const inner = middle.get();
  CountingStore store(std::move(middle));
  ASSERT_TRUE(store.Put({}, "key", "value").ok());
  std::string value;
  EXPECT_TRUE(store.Get("key", &value).ok());
  EXPECT_EQ(value, "value");
  EXPECT_TRUE(store.Get("mine", &value).ok());
  EXPECT_EQ(value, "tier");
  EXPECT_EQ(store.gets, 2);
  EXPECT_EQ(inner->gets, 1);
  EXPECT_TRUE(store.Close().ok());
  EXPECT_TRUE(bottom->Put({}, "key", "value").IsShutdownInProgress());
}

}  // namespace breccia
