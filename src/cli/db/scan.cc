#include <fmt/format.h>

#include <cstdio>

#include "cli/db/commands.h"
#include "cli/db/range_flags.h"
#include "console/console.h"
#include "console/exit_codes.h"

namespace breccia::cli::db {

namespace {

struct ScanFlags {
  DbFlags db;
  RangeFlags range;
  bool no_value = false;
};

int run_scan(const ScanFlags& flags) {
  OpenRange range;
  const int opened = range.open(flags.db, flags.range);
  if (opened != console::kExitOk) return opened;
  std::int64_t shown = 0;
  const Status status = range.visit([&](const Slice& key, const Slice& value) {
    std::string line = flags.db.hex.show_key(key.ToString());
    if (!flags.no_value) line += " : " + flags.db.hex.show_value(value.ToString());
    line += '\n';
    std::fwrite(line.data(), 1, line.size(), stdout);
    ++shown;
    return flags.range.max_keys < 0 || shown < flags.range.max_keys;
  });
  if (status.ok()) return console::kExitOk;
  console::say_error(fmt::format("the scan stopped after {} keys", shown), status,
                     reading_advice(status, flags.db.db));
  return console::kExitFailed;
}

}  // namespace

console::Command add_scan(console::App* parent) {
  auto flags = std::make_shared<ScanFlags>();
  console::App* app =
      parent->add_subcommand("scan", "Print entries as `key : value`, in key order");
  flags->db.add_db(app);
  flags->db.add_family(app);
  flags->range.add_to(app);
  app->add_flag("--no_value", flags->no_value, "Print keys only");
  return {app, [flags] { return run_scan(*flags); }};
}

}  // namespace breccia::cli::db
