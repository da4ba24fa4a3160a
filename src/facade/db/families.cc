#include <breccia/rocks.h>

#include "base/memory.h"
#include "facade/db/core.h"

/// Rocks: column families.

namespace breccia {

Rocks::Handle* Rocks::DefaultColumnFamily() const { return core_->default_handle(); }

Status Rocks::CreateColumnFamily(const rocksdb::ColumnFamilyOptions& options,
                                 const std::string& name, Handle** handle) {
  *handle = nullptr;
  return base::or_memory_limit([&] {
    BRECCIA_TRY(core_->check_open());
    BRECCIA_TRY(facade::check_family(name, options));
    BRECCIA_TAKE(const tree::TreeFamily family,
                 core_->engine().tree_changes().create_family(name, options));
    return core_->hand_out(family, handle);
  });
}

Status Rocks::CreateColumnFamilies(const rocksdb::ColumnFamilyOptions& options,
                                   const std::vector<std::string>& names,
                                   std::vector<Handle*>* handles) {
  return base::or_memory_limit([&] {
    std::vector<Descriptor> families;
    for (const std::string& name : names) families.emplace_back(name, options);
    return CreateColumnFamilies(families, handles);
  });
}

Status Rocks::CreateColumnFamilies(const std::vector<Descriptor>& column_families,
                                   std::vector<Handle*>* handles) {
  handles->clear();
  return base::or_memory_limit([&] {
    handles->reserve(column_families.size());
    for (const Descriptor& family : column_families) {
      Handle* handle = nullptr;
      BRECCIA_TRY(CreateColumnFamily(family.options, family.name, &handle));
      handles->push_back(handle);
    }
    return Status::OK();
  });
}

Status Rocks::CreateColumnFamilyWithImport(const rocksdb::ColumnFamilyOptions& options,
                                           const std::string& name,
                                           const rocksdb::ImportColumnFamilyOptions& import_options,
                                           const rocksdb::ExportImportFilesMetaData& metadata,
                                           Handle** handle) {
  *handle = nullptr;
  return base::or_memory_limit([&] {
    BRECCIA_TRY(core_->check_open());
    BRECCIA_TRY(facade::check_family(name, options));
    ordered::Engine& engine = core_->engine();
    // As for ingested files.
    const facade::WriteGate::Closed closed(&core_->gate());
    BRECCIA_TRY(engine.flush(/*waits_for_tree=*/false));
    BRECCIA_TAKE(const tree::TreeFamily family,
                 engine.tree_changes().import_family(name, options, import_options, metadata));
    BRECCIA_TRY(engine.tree_changes().refresh());
    return core_->hand_out(family, handle);
  });
}

Status Rocks::DropColumnFamily(Handle* handle) {
  BRECCIA_TAKE(facade::Family* const family, core_->family(handle));
  // Nothing is written meanwhile, so that the pin is what the family holds at its end. A flush may
  // leave the family out as soon as the tree has dropped it: readers go to the pin before that.
  const facade::WriteGate::Closed closed(&core_->gate());
  bool begun = false;
  const Status status = base::or_memory_limit([&] {
    return core_->engine().tree_changes().drop_family(family->id(), [&] {
      family->drop(core_->engine().pin());
      begun = true;
    });
  });
  if (begun && !status.ok()) family->keep();
  return status;
}

Status Rocks::DropColumnFamilies(const std::vector<Handle*>& handles) {
  for (Handle* const handle : handles) BRECCIA_TRY(DropColumnFamily(handle));
  return Status::OK();
}

Status Rocks::DestroyColumnFamilyHandle(Handle* handle) {
  if (handle == core_->default_handle()) {
    return Status::InvalidArgument("Cannot destroy the handle returned by DefaultColumnFamily()");
  }
  BRECCIA_TRY(core_->family(handle).status());
  delete handle;
  return Status::OK();
}

}  // namespace breccia
