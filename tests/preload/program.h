#pragma once

#include <string>
#include <vector>

#include "support/folder.h"

/// Programs of the distribution, run with and without the preload library.

namespace breccia::testing {

/// How a program was run and what it said.
struct Ran {
  int code = 0;
  std::string out;
  std::string err;
};

enum class Library { kRocksDb, kBreccia };

/// Runs a command line of the shell in a folder.
/// `environment` holds assignments for the program: `BRECCIA_PRELOAD=0 ...`.
Ran run(Library library, const Folder& folder, const std::string& command,
        const std::string& environment);

/// db_bench with small, quiet, repeatable settings on the database `db` in the folder. Expects
/// that it ends without an error.
Ran db_bench(Library library, const Folder& folder, const std::string& flags,
             const std::string& environment);

/// Every entry that RocksDB alone finds in the database `db` in the folder, as lines
/// "family/key=value" in hexadecimal. Families of breccia's are left out.
std::vector<std::string> contents(const Folder& folder);
/// The lines without their values.
std::vector<std::string> keys_of(std::vector<std::string> lines);

/// True if the database `db` in the folder has a family of that name, seen by RocksDB alone.
bool has_family(const Folder& folder, const std::string& name);

/// Expects that `ldb checkconsistency` finds nothing wrong.
void expect_consistent(const Folder& folder);

/// All matches of a regular expression.
std::vector<std::string> matches(const std::string& text, const std::string& expression);

}  // namespace breccia::testing
