#pragma once

#include <rocksdb/options.h>

#include <functional>
#include <string>

#include "cache/row_cache.h"
#include "ordered/parts.h"
#include "ordered/write/publisher.h"

namespace breccia::ordered {

/// What a view has of a family of the tree that holds nothing in memory.
[[nodiscard]] std::shared_ptr<FamilyView> new_family(const tree::TreeFamily& family,
                                                     const tree::Tree& below);

/// What is changed in the tree past memory and the log: its families, and files that somebody
/// brings in or takes out. Views follow.
///
/// Threads any.
class TreeChanges {
 public:
  /// `cache` may be null.
  TreeChanges(const StoreParts& parts, Publisher* publisher, cache::RowCache* cache)
      : parts_(parts), publisher_(publisher), cache_(cache) {}

  /// Errors  InvalidArgument: there is one of that name; IOError: also if no memory could be had to
  ///         show it; then, as below, the store stops.
  Result<tree::TreeFamily> create_family(const std::string& name,
                                         const rocksdb::ColumnFamilyOptions& options);
  /// The same with the data of exported files, which is seen after refresh().
  /// Errors  also those about the files.
  Result<tree::TreeFamily> import_family(const std::string& name,
                                         const rocksdb::ColumnFamilyOptions& options,
                                         const rocksdb::ImportColumnFamilyOptions& how,
                                         const rocksdb::ExportImportFilesMetaData& files);
  /// The family takes no writes any more; its data goes with the last view that holds it. The next
  /// flush takes it out of the current one: who wants to go on reading pins a view in
  /// `about_to_drop`, which is called once it is known that the family is there.
  /// Errors  InvalidArgument: the default family, or not there; IOError.
  Status drop_family(FamilyId family, const std::function<void()>& about_to_drop);
  /// Forgets a dropped family: nobody has a handle to it.
  void forget_family(FamilyId family);

  /// Lets lookups see what the tree has in families that are new.
  /// Shape   memtables hold nothing of them: write nothing before.
  /// Errors  IOError: no memory could be had for that; the store stops.
  [[nodiscard]] Status refresh();
  /// Lets lookups see what `bring_in` brings into the tree (ingested files).
  /// Shape   memtables hold nothing of it: flush first, and write nothing in between.
  /// Errors  those of `bring_in`; MemoryLimit: it was not called; IOError: no memory could be had
  ///         to show what it did; the store stops.
  [[nodiscard]] Status bring_in(const std::function<Status()>& bring_in);
  /// Forgets what is cached of the tree, out of which `take_out` takes files: what they hid may be
  /// there again.
  /// Errors  as bring_in.
  [[nodiscard]] Status take_out(const std::function<Status()>& take_out);
  /// Caches nothing of the tree any more, and keeps nothing that was flushed: somebody changes it
  /// past the engine.
  void stop_caching();

 private:
  Status publish(const std::function<void(View*)>& change);
  [[nodiscard]] Status publish_family(const tree::TreeFamily& family);
  Status change_files(const std::function<void(View*)>& change);
  Status change_past_log(const std::function<Status()>& change);

  const StoreParts parts_;
  Publisher* publisher_;
  cache::RowCache* cache_;
};

}  // namespace breccia::ordered
