#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/doctor_checks.h"
#include "console/console.h"
#include "console/exit_codes.h"

namespace breccia::cli {

namespace {

struct DoctorFlags {
  std::string db = ".";
  std::string wal_dir;
  bool json = false;
};

std::string name_of(Finding::Verdict verdict) {
  switch (verdict) {
    case Finding::Verdict::kOk:
      return "ok";
    case Finding::Verdict::kWarn:
      return "warn";
    case Finding::Verdict::kFail:
      break;
  }
  return "FAIL";
}

// As terminals take it: fmt/color.h would compile all of fmt into this file.
std::string in_color_of(Finding::Verdict verdict, const std::string& text) {
  if (!console::stdout_has_color()) return text;
  constexpr int kRed = 31;
  constexpr int kGreen = 32;
  constexpr int kYellow = 33;
  const int color = verdict == Finding::Verdict::kOk     ? kGreen
                    : verdict == Finding::Verdict::kWarn ? kYellow
                                                         : kRed;
  return fmt::format("\033[{}m{}\033[0m", color, text);
}

void print(const Finding& finding, bool json) {
  const std::string verdict = name_of(finding.verdict);
  if (json) {
    const nlohmann::ordered_json line = {{"check", finding.name},
                                         {"verdict", verdict},
                                         {"found", finding.found},
                                         {"fix", finding.fix}};
    fmt::print("{}\n", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    return;
  }
  fmt::print("{} {:<14} {}\n", in_color_of(finding.verdict, fmt::format("{:<4}", verdict)),
             finding.name, finding.found);
  if (!finding.fix.empty()) fmt::print("     {:<14} fix: {}\n", "", finding.fix);
}

int run_doctor(const DoctorFlags& flags) {
  std::vector<Finding> findings = {check_gpu(),           check_rocksdb(),     check_io_uring(),
                                   check_memory(),        check_huge_pages(),  check_open_files(),
                                   check_locked_memory(), check_block_cache(), check_entry_cache()};
  findings.push_back(check_filters(flags.db));
  findings.push_back(check_residency(flags.db));
  findings.push_back(check_file_system("db", flags.db));
  findings.push_back(check_sync_latency("db_sync", flags.db));
  if (!flags.wal_dir.empty()) {
    findings.push_back(check_file_system("wal_dir", flags.wal_dir));
    findings.push_back(check_sync_latency("wal_dir_sync", flags.wal_dir));
  }
  bool failed = false;
  for (const Finding& finding : findings) {
    print(finding, flags.json);
    failed = failed || finding.verdict == Finding::Verdict::kFail;
  }
  return failed ? console::kExitFailed : console::kExitOk;
}

}  // namespace

console::Command add_doctor(console::App* parent) {
  auto flags = std::make_shared<DoctorFlags>();
  console::App* app = parent->add_subcommand(
      "doctor", "Check this machine and say what to change; exit code 4 if something cannot work");
  app->add_option("--db", flags->db, "Folder of a store, existing or planned")
      ->capture_default_str();
  app->add_option("--wal_dir", flags->wal_dir, "Folder of its log, if it has one of its own");
  app->add_flag("--json", flags->json, "Print one JSON object per check");
  return {app, [flags] { return run_doctor(*flags); }};
}

}  // namespace breccia::cli
