#include "sst/check.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/sst/commands.h"
#include "console/console.h"
#include "console/exit_codes.h"

namespace breccia::cli::sst {

namespace {

struct CheckFlags {
  std::vector<std::string> files;
};

Status check(const std::string& file, console::ProgressLine* progress) {
  auto table = breccia::sst::Table::open(file);
  BRECCIA_TRY(table.status());
  const double bytes = std::max<double>(1, static_cast<double>(table.value()->bytes()));
  const auto show = [&](std::uint64_t done) {
    if (!progress->due()) return;
    progress->show(fmt::format("{}: {:.0f} % of {}", file, 100 * static_cast<double>(done) / bytes,
                               console::human_bytes(bytes)));
  };
  breccia::sst::TableCounts counts;
  BRECCIA_TRY(breccia::sst::check_table(*table.value(), show, &counts));
  progress->clear();
  fmt::print("{}: OK, {} entries in {} blocks{}\n", file, console::with_commas(counts.entries),
             console::with_commas(counts.blocks),
             counts.has_known_order ? "" : ", whose order is that of a comparator unknown here");
  return Status::OK();
}

std::string advice(const Status& status) {
  if (status.IsNotSupported()) return "`sst_dump --command=verify` reads more kinds of tables";
  if (status.IsCorruption())
    return "take the file from a backup; `ldb repair` leaves out what is broken";
  return "check the path and who may read it";
}

int run_check(const CheckFlags& flags) {
  int exit_code = console::kExitOk;
  console::ProgressLine progress(console::stderr_is_terminal());
  for (const std::string& file : flags.files) {
    const Status status = check(file, &progress);
    progress.clear();
    if (status.ok()) continue;
    console::say_error(file, status, advice(status));
    exit_code = console::kExitFailed;
  }
  return exit_code;
}

}  // namespace

console::Command add_check(console::App* parent) {
  auto flags = std::make_shared<CheckFlags>();
  console::App* app = parent->add_subcommand(
      "check", "Read all of a table: checksums, order, index, what its properties say");
  app->add_option("FILE", flags->files, "Files to check")->required();
  return {app, [flags] { return run_check(*flags); }};
}

}  // namespace breccia::cli::sst
