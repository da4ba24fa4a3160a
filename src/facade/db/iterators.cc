#include "facade/db/iterators.h"

#include <breccia/rocks.h>

#include "base/memory.h"
#include "facade/db/user_statistics.h"

namespace breccia {

namespace facade {

namespace {

/// A tailing iterator: each seek sees the present, and there is no way back.
class Tailing final : public rocksdb::Iterator {
 public:
  explicit Tailing(std::unique_ptr<rocksdb::Iterator> iterator) : iterator_(std::move(iterator)) {}

  [[nodiscard]] bool Valid() const override { return refused_.ok() && iterator_->Valid(); }
  [[nodiscard]] Slice key() const override { return iterator_->key(); }
  [[nodiscard]] Slice value() const override { return iterator_->value(); }
  [[nodiscard]] const rocksdb::WideColumns& columns() const override {
    return iterator_->columns();
  }
  [[nodiscard]] Status status() const override {
    return refused_.ok() ? iterator_->status() : refused_;
  }
  void SeekToFirst() override {
    refused_ = Status::OK();
    iterator_->SeekToFirst();
  }
  void Seek(const Slice& target) override {
    refused_ = Status::OK();
    iterator_->Seek(target);
  }
  void Next() override { iterator_->Next(); }
  void SeekToLast() override { refuse("SeekToLast"); }
  void SeekForPrev(const Slice&) override { refuse("SeekForPrev"); }
  void Prev() override { refuse("Prev"); }

 private:
  void refuse(const char* function) {
    refused_ = Status::NotSupported(function, "a tailing iterator goes forward only");
  }

  const std::unique_ptr<rocksdb::Iterator> iterator_;
  Status refused_;
};

/// Keeps the engine until the iterator is gone.
void keep_engine(std::shared_ptr<ordered::Engine> engine, rocksdb::Iterator* iterator) {
  using Engine = std::shared_ptr<ordered::Engine>;
  const auto let_go = [](void* kept, void*) { delete static_cast<Engine*>(kept); };
  auto kept = std::make_unique<Engine>(std::move(engine));
  iterator->RegisterCleanup(let_go, kept.get(), nullptr);
  (void)kept.release();
}

}  // namespace

Status check_iterator_options(const rocksdb::ReadOptions& options) {
  if (options.managed) {
    return Status::NotSupported("Managed iterator is not supported anymore.");
  }
  if (options.read_tier == rocksdb::kPersistedTier) {
    return Status::NotSupported("ReadTier::kPersistedData is not yet supported in iterators.");
  }
  return Status::OK();
}

std::unique_ptr<rocksdb::Iterator> new_iterator(const Core& core,
                                                const rocksdb::ReadOptions& options,
                                                const Seen& seen) {
  if (seen.view == nullptr) {
    return std::unique_ptr<rocksdb::Iterator>(rocksdb::NewEmptyIterator());
  }
  std::function<ordered::Pin()> repin;
  if (options.snapshot == nullptr || options.tailing) {
    repin = [engine = &core.engine(), family = seen.family->shared_from_this()] {
      return family->seen_at(engine->pin());
    };
  }
  auto iterator =
      core.engine().lookups().iterate(options, seen.family->id(), seen.pin, std::move(repin));
  keep_engine(core.engine_for_iterator(), iterator.get());
  if (options.tailing) iterator = std::make_unique<Tailing>(std::move(iterator));
  if (core.given().statistics != nullptr || base::perf_counts()) {
    iterator = counted(core.given().statistics, std::move(iterator));
  }
  return iterator;
}

}  // namespace facade

rocksdb::Iterator* Rocks::NewIterator(const rocksdb::ReadOptions& options, Handle* handle) {
  const Status status = facade::check_iterator_options(options);
  if (!status.ok()) return rocksdb::NewErrorIterator(status);
  auto seen = core_->see(options, handle);
  if (!seen.ok()) return rocksdb::NewErrorIterator(seen.status());
  return facade::new_iterator(*core_, options, seen.value()).release();
}

Status Rocks::NewIterators(const rocksdb::ReadOptions& options, const std::vector<Handle*>& handles,
                           std::vector<rocksdb::Iterator*>* iterators) {
  return base::or_memory_limit([&] {
    BRECCIA_TRY(facade::check_iterator_options(options));
    BRECCIA_TRY(core_->check_open());
    BRECCIA_TAKE(const ordered::Pin pin, core_->pin_of(options));
    std::vector<std::unique_ptr<rocksdb::Iterator>> made;
    for (const Handle* handle : handles) {
      BRECCIA_TAKE(const facade::Seen seen, core_->see_at(pin, handle));
      made.push_back(facade::new_iterator(*core_, options, seen));
    }
    iterators->clear();
    iterators->reserve(made.size());
    for (auto& iterator : made) iterators->push_back(iterator.release());
    return Status::OK();
  });
}

}  // namespace breccia
