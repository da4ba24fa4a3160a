#pragma once

#include <functional>
#include <string>

#include "cli/db/db_flags.h"

namespace breccia::cli::db {

/// Flags of the commands that make copies and bring them back.
struct CopyFlags {
  DbFlags db;
  std::string checkpoint_dir;
  std::string backup_dir;
  int num_threads = 1;
  bool convert = false;

  [[nodiscard]] bool shows_progress() const;
};

/// Called after each step; an error ends the restore there, as a crash would. For tests.
using AfterStep = std::function<Status()>;

/// Puts the latest backup, or the checkpoint, that `flags` names into the place of the database.
///
///   1. verify what is given, and find the log that goes
///   2. note in the database's folder that its files are being replaced: no store opens there
///   3. remove the log, then the mark, then the tree; copy the new tree
///   4. sync all of it, then take the note back
///
/// What is there afterwards is a copy: it owns no log (tree/copies.h).
/// Errors  InvalidArgument: nothing to restore, or it cannot be told which log is the database's;
///         IOError: somebody has the database open. Nothing was changed in these cases. Else those
///         of RocksDB and the medium: the folder stays closed until a restore ends well.
Status restore(const CopyFlags& flags, const AfterStep& after_step);

}  // namespace breccia::cli::db
