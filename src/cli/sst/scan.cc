#include <fmt/format.h>

#include <cstdio>

#include "cli/db/range_flags.h"
#include "cli/sst/commands.h"
#include "console/console.h"
#include "sst/check.h"

namespace breccia::cli::sst {

namespace {

using breccia::sst::InternalKey;

struct ScanFlags {
  std::string file;
  console::HexFlags hex;
  db::RangeFlags range;
  bool no_value = false;
};

/// Prints what lies in the range, as sst_dump prints it, until it was enough.
/// Threads one owner.
class Printer {
 public:
  Printer(const ScanFlags& flags, db::Range range) : flags_(flags), range_(std::move(range)) {}

  bool print(const InternalKey& key, const Slice& value) {
    const std::string user_key = key.user_key.ToString();
    if (range_.begin && user_key < *range_.begin) return true;
    if (range_.end && user_key >= *range_.end) return true;
    if (printed_ == flags_.range.max_keys) return false;
    std::string line = fmt::format("'{}' seq:{}, type:{}", flags_.hex.show_key(user_key),
                                   key.sequence, static_cast<int>(key.type));
    if (!flags_.no_value) line += " => " + flags_.hex.show_value(value.ToString());
    line += '\n';
    std::fwrite(line.data(), 1, line.size(), stdout);
    printed_ += 1;
    return true;
  }

 private:
  const ScanFlags& flags_;
  const db::Range range_;
  std::int64_t printed_ = 0;
};

Status scan(const ScanFlags& flags, db::Range range) {
  const auto table = breccia::sst::Table::open(flags.file);
  BRECCIA_TRY(table.status());
  Printer printer(flags, std::move(range));
  const auto print = [&](const InternalKey& key, const Slice& value) {
    return printer.print(key, value);
  };
  BRECCIA_TRY(breccia::sst::visit_entries(*table.value(), print));
  return breccia::sst::visit_range_deletions(*table.value(), print);
}

int run_scan(const ScanFlags& flags) {
  db::Range range;
  if (!flags.range.decode(flags.hex, &range)) return console::kExitUsage;
  const Status status = scan(flags, std::move(range));
  if (status.ok()) return console::kExitOk;
  console::say_error(fmt::format("the scan of {} stopped", flags.file), status,
                     "`breccia sst check` says what is wrong; what came before it is as it was");
  return console::kExitFailed;
}

}  // namespace

console::Command add_scan(console::App* parent) {
  auto flags = std::make_shared<ScanFlags>();
  console::App* app = parent->add_subcommand(
      "scan", "Print entries as sst_dump does, all versions, range deletions last");
  flags->hex.add_to(app);
  flags->range.add_to(app);
  app->add_flag("--no_value", flags->no_value, "Print keys only");
  app->add_option("FILE", flags->file, "The table")->required();
  return {app, [flags] { return run_scan(*flags); }};
}

}  // namespace breccia::cli::sst
