#include <breccia/disagg_options.h>
#include <breccia/hash_store.h>
#include <breccia/slab_options.h>
#include <breccia/store.h>

#include "base/memory.h"
#include "disagg/store/engine.h"
#include "hash/engine/engine.h"
#include "hot/tier.h"
#include "ordered/engine.h"
#include "slab/engine/engine.h"
#include "tree/read_defaults.h"

/// The choice of engine: by the type of the options.

namespace breccia {

namespace {

/// Before anything is opened.
Status check_tier(const StoreOptions& options) {
  return options.hot_tier.has_value() ? hot::Tier::check(*options.hot_tier) : Status::OK();
}

/// Whether a family's keys change without writes of them, of which copies would not hear.
bool changes_keys(const rocksdb::ColumnFamilyOptions& family) {
  return family.compaction_filter != nullptr || family.compaction_filter_factory != nullptr ||
         family.compaction_style == rocksdb::kCompactionStyleFIFO;
}

/// Copies are of the default family, whose options may also stand among those of the others.
Status check_tree(const Options& options) {
  if (!options.hot_tier.has_value()) return Status::OK();
  bool changes = changes_keys(options.rocksdb);
  for (const auto& [name, family] : options.families) {
    changes = changes || (name == rocksdb::kDefaultColumnFamilyName && changes_keys(family));
  }
  if (!changes) return Status::OK();
  return Status::InvalidArgument(
      "hot_tier beside a compaction filter, or FIFO compaction: they change what keys have");
}

/// The store, behind the tier that its options ask for.
Status stack(const StoreOptions& options, std::unique_ptr<Store> engine,
             std::unique_ptr<Store>* store) {
  if (!options.hot_tier.has_value()) {
    *store = std::move(engine);
    return Status::OK();
  }
  BRECCIA_TAKE(*store, hot::Tier::make(*options.hot_tier, std::move(engine)));
  return Status::OK();
}

}  // namespace

Status Store::Open(const Options& options, const std::string& path, std::unique_ptr<Store>* store) {
  BRECCIA_TRY(check_tier(options));
  BRECCIA_TRY(check_tree(options));
  return base::or_memory_limit([&] {
    Options chosen = options;
    if (options.read_defaults) tree::fill_read_defaults(&chosen);
    std::unique_ptr<ordered::Engine> engine;
    BRECCIA_TRY(ordered::Engine::open(chosen, path, &engine));
    engine->listeners().open(engine->below().db());
    return stack(options, std::move(engine), store);
  });
}

Status HashStore::Open(const HashOptions& options, const std::string& path,
                       std::unique_ptr<HashStore>* store) {
  if (options.hot_tier.has_value()) {
    return Status::InvalidArgument("hot_tier: a HashStore has none; Store::Open makes one");
  }
  return base::or_memory_limit([&] {
    std::unique_ptr<hash::Engine> engine;
    const hash::Ground ground{wal::real_files(), pmem::real_disk()};
    BRECCIA_TRY(hash::Engine::open(options, path, ground, &engine));
    *store = std::move(engine);
    return Status::OK();
  });
}

Status Store::Open(const HashOptions& options, const std::string& path,
                   std::unique_ptr<Store>* store) {
  BRECCIA_TRY(check_tier(options));
  return base::or_memory_limit([&] {
    HashOptions of_engine = options;
    of_engine.hot_tier.reset();
    std::unique_ptr<HashStore> engine;
    BRECCIA_TRY(HashStore::Open(of_engine, path, &engine));
    return stack(options, std::move(engine), store);
  });
}

Status Store::Open(const SlabOptions& options, std::unique_ptr<Store>* store) {
  BRECCIA_TRY(check_tier(options));
  return base::or_memory_limit([&] {
    std::unique_ptr<slab::Engine> engine;
    BRECCIA_TRY(slab::Engine::open(options, ~std::uint64_t{0}, &engine));
    return stack(options, std::move(engine), store);
  });
}

Status Store::Open(const DisaggOptions& options, std::unique_ptr<Store>* store) {
  if (options.hot_tier.has_value()) {
    return Status::InvalidArgument("hot_tier of a cluster: other clients change what keys have");
  }
  return base::or_memory_limit([&] {
    std::unique_ptr<disagg::Engine> engine;
    BRECCIA_TRY(disagg::Engine::open(options, &engine));
    *store = std::move(engine);
    return Status::OK();
  });
}

}  // namespace breccia
