#pragma once

#include <breccia/options.h>

#include <string>

namespace breccia::rocks {

/// Makes a store of its own of a copy that RocksDB made of one (Checkpoint, BackupEngine).
///
/// Such a copy holds the hidden family with the position in a log that did not come along, and
/// opening it would miss that log. The copy was complete when it was made, so the position goes:
/// the store then begins a log as for any database. What tells a copy from a store whose log was
/// lost is the folder of staged files, which every store has and no copy.
///
/// Errors  those of opening and closing the tree. What is no copy is left as it is.
Status adopt_copy(const Options& options, const std::string& name);

/// Drops breccia's own families of a closed store, opened by RocksDB itself: what remains is an
/// ordinary database. Where there are none, or no database, nothing is done.
/// Errors  those of opening and closing the tree.
Status drop_own_families(const Options& options, const std::string& name);

}  // namespace breccia::rocks
