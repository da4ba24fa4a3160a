#include "ordered/tree_changes.h"

#include <rocksdb/db.h>

#include "base/memory.h"
#include "ordered/background/clean_runs.h"

namespace breccia::ordered {

namespace {

void drop_filters(View* view) {
  const auto families = view->families;
  for (const FamilyViewPtr& family : families) {
    if (family->filter == nullptr) continue;
    auto changed = std::make_shared<FamilyView>(*family);
    changed->filter = nullptr;
    view->set_family(std::move(changed));
  }
}

/// RocksDB alone is asked, until files are listed anew.
void forget_files(View* view) {
  const auto families = view->families;
  for (const FamilyViewPtr& family : families) {
    auto changed = std::make_shared<FamilyView>(*family);
    changed->note_tree_change();
    view->set_family(std::move(changed));
  }
}

}  // namespace

std::shared_ptr<FamilyView> new_family(const tree::TreeFamily& family, const tree::Tree& below) {
  auto view = std::make_shared<FamilyView>();
  view->id = family->GetID();
  view->active = std::make_shared<memtable::HostMemtable>();
  view->tree = family;
  view->tree_has_data = below.has_data(family.get());
  const rocksdb::Options options = below.db()->GetOptions(family.get());
  view->merge_operator = options.merge_operator;
  // Elsewhere a compaction may change what readers see.
  view->tree_is_cached = options.compaction_filter == nullptr &&
                         options.compaction_filter_factory == nullptr &&
                         options.compaction_style != rocksdb::kCompactionStyleFIFO;
  return view;
}

Result<tree::TreeFamily> TreeChanges::create_family(const std::string& name,
                                                    const rocksdb::ColumnFamilyOptions& options) {
  BRECCIA_TRY(parts_.closed->check());
  BRECCIA_TAKE(const tree::TreeFamily family, parts_.below->create_family(name, options));
  BRECCIA_TRY(publish_family(family));
  return family;
}

Result<tree::TreeFamily> TreeChanges::import_family(
    const std::string& name, const rocksdb::ColumnFamilyOptions& options,
    const rocksdb::ImportColumnFamilyOptions& how,
    const rocksdb::ExportImportFilesMetaData& files) {
  BRECCIA_TAKE(const tree::TreeFamily family,
               parts_.below->import_family(name, options, how, files));
  BRECCIA_TRY(publish_family(family));
  return family;
}

/// Publishes what happened to the tree already. Without memory for that the store stops.
Status TreeChanges::publish(const std::function<void(View*)>& change) {
  const Status status = base::with_patience([&] {
    publisher_->change(change);
    return Status::OK();
  });
  if (status.ok()) return Status::OK();
  const Status stopped =
      base::io_error("no memory to show a change of the tree; open the store again");
  parts_.fault->set(Fault::Place::kFlush, stopped);
  return base::copy_of(stopped);
}

Status TreeChanges::publish_family(const tree::TreeFamily& family) {
  return publish([&](View* next) {
    auto view = new_family(family, *parts_.below);
    parts_.filters->join(view.get());
    view->runs_end = parts_.state->visible();
    view->clean_from = view->log_from = next->flushed;
    next->set_family(std::move(view));
  });
}

Status TreeChanges::drop_family(FamilyId id, const std::function<void()>& about_to_drop) {
  BRECCIA_TRY(parts_.closed->check());
  if (id == kDefaultFamily) return Status::InvalidArgument("Can't drop default column family");
  const auto view = parts_.state->view();
  const FamilyView* const family = view->family(id);
  if (family == nullptr || family->dropped) {
    return Status::InvalidArgument("Column family already dropped!\n");
  }
  about_to_drop();
  return parts_.below->drop_family(family->tree.get(), [&] {
    publish([&](View* next) {
      auto changed = std::make_shared<FamilyView>(*next->family(id));
      changed->dropped = true;
      next->set_family(std::move(changed));
    }).PermitUncheckedError();
    parts_.filters->forget(id);
  });
}

void TreeChanges::forget_family(FamilyId id) {
  publish([&](View* next) { next->erase_family(id); }).PermitUncheckedError();
}

/// Publishes a changed view of a tree whose contents somebody changed, with an empty cache. Not
/// beside a flush: between its ingest and its view, memory holds what the tree has already.
Status TreeChanges::change_files(const std::function<void(View*)>& change) {
  // No memory is asked for but in publish(), which is patient: the tree is changed already.
  const auto unchanged = parts_.below->keep_unchanged();
  cache::RowCache::Change tree_change(cache_);
  tree_change.begin();
  if (cache_ != nullptr) cache_->clear();
  Status status = publish([&](View* next) {
    forget_clean(next);
    forget_files(next);
    change(next);
    next->below.version = tree_change.publish();
  });
  parts_.files->bell().ring();
  return status;
}

/// Does `change` while no view that is published has filters, as a flush beside it may show what it
/// has done to the tree, and nothing is noted for the next opening.
Status TreeChanges::change_past_log(const std::function<Status()>& change) {
  parts_.filters->shut();
  const Status status = base::or_memory_limit([&] {
    BRECCIA_TAKE(const auto begun, parts_.below->begin_change_past_log());
    publisher_->change(drop_filters);
    parts_.filters->drop_all();
    return change();
  });
  parts_.filters->reopen();
  return status;
}

Status TreeChanges::bring_in(const std::function<Status()>& bring_in) {
  return change_past_log([&] {
    // Also what failed may have changed the tree.
    const Status status = bring_in();
    BRECCIA_TRY(refresh());
    return status;
  });
}

Status TreeChanges::take_out(const std::function<Status()>& take_out) {
  return change_past_log([&] {
    const Status status = take_out();
    BRECCIA_TRY(change_files([](View*) {}));
    return status;
  });
}

void TreeChanges::stop_caching() {
  if (cache_ != nullptr) cache_->turn_off();
  if (!parts_.state->view()->keeps_clean) return;  // some programs ask with every request
  auto begun = parts_.below->begin_change_past_log();
  if (begun.ok()) {
    begun.value().keep();
  } else {
    // What the next opening would believe may be wrong from here on, so nothing must follow.
    parts_.fault->set(Fault::Place::kFlush, begun.status());
  }
  parts_.filters->shut();
  const Status shown = publish([](View* next) {
    forget_clean(next);
    forget_files(next);
    drop_filters(next);
    next->keeps_clean = false;
  });
  if (shown.ok()) parts_.filters->drop_all();
}

Status TreeChanges::refresh() {
  return change_files([&](View* next) {
    const auto families = next->families;
    for (const auto& family : families) {
      auto changed = std::make_shared<FamilyView>(*family);
      changed->tree_has_data = family->tree_has_data || parts_.below->has_data(family->tree.get());
      next->set_family(std::move(changed));
    }
    next->below.snapshot = parts_.below->snapshot();
  });
}

}  // namespace breccia::ordered
