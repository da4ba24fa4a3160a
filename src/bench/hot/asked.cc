#include "bench/hot/asked.h"

#if __has_include(<boost/unordered/concurrent_flat_map.hpp>)
#define BRECCIA_HAVE_FLAT_MAP 1
#include <boost/unordered/concurrent_flat_map.hpp>
#endif

#include <utility>

#include "base/random.h"

namespace breccia::bench::hot {

namespace {

class AskedStore final : public Asked {
 public:
  explicit AskedStore(std::unique_ptr<Store> store) : store_(std::move(store)) {}

  Status put(std::uint64_t key, const std::string& value) override {
    return store_->Put(WriteOptions(), slice_of(key), value);
  }
  Status get(std::uint64_t key, std::string* value) override {
    return store_->Get(slice_of(key), value);
  }
  Result<Batch> new_batch() override { return store_->NewBatch(); }
  Status submit(Batch* batch) override { return store_->Submit(WriteOptions(), batch); }
  std::uint64_t figure(const std::string& name) override {
    std::string text;
    return store_->GetProperty(name, &text) ? std::stoull(text) : 0;
  }
  Status settle() override { return store_->Flush(); }

 private:
  static Slice slice_of(const std::uint64_t& key) {
    return {reinterpret_cast<const char*>(&key), sizeof key};
  }

  const std::unique_ptr<Store> store_;
};

#if defined(BRECCIA_HAVE_FLAT_MAP)
class AskedMap final : public Asked {
 public:
  explicit AskedMap(std::uint64_t keys) : map_(keys) {}

  Status put(std::uint64_t key, const std::string& value) override {
    map_.insert_or_assign(key, value);
    return Status::OK();
  }
  Status get(std::uint64_t key, std::string* value) override {
    const bool is_there = map_.cvisit(key, [&](const auto& pair) { *value = pair.second; }) > 0;
    return is_there ? Status::OK() : Status::NotFound();
  }
  Result<Batch> new_batch() override {
    return Status::NotSupported("a concurrent map takes single requests alone");
  }
  Status submit(Batch* /*batch*/) override { return Status::NotSupported("no batches"); }
  std::uint64_t figure(const std::string& /*name*/) override { return 0; }
  Status settle() override { return Status::OK(); }

 private:
  struct Mix {
    using is_avalanching = void;
    std::size_t operator()(std::uint64_t key) const { return base::mix64(key); }
  };
  boost::concurrent_flat_map<std::uint64_t, std::string, Mix> map_;
};
#endif

}  // namespace

std::unique_ptr<Asked> ask_store(std::unique_ptr<Store> store) {
  return std::make_unique<AskedStore>(std::move(store));
}

bool has_flat_map() {
#if defined(BRECCIA_HAVE_FLAT_MAP)
  return true;
#else
  return false;
#endif
}

Result<std::unique_ptr<Asked>> ask_flat_map(std::uint64_t keys) {
#if defined(BRECCIA_HAVE_FLAT_MAP)
  return std::unique_ptr<Asked>(std::make_unique<AskedMap>(keys));
#else
  (void)keys;
  return Status::NotSupported("a concurrent map beside", "this build has no boost");
#endif
}

}  // namespace breccia::bench::hot
