#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/limits.h"
#include "cli/db/commands.h"
#include "cli/db/db_flags.h"
#include "console/console.h"
#include "console/exit_codes.h"
#include "console/text.h"
#include "record/operations.h"
#include "wal/frame.h"
#include "wal/recovery.h"

namespace breccia::cli::db {

namespace {

namespace fs = std::filesystem;

struct DumpWalFlags {
  DbFlags db;
  std::string walfile;
  bool header = false;
  bool print_value = false;
  bool positions = false;
};

const char* name_of(record::Op op) {
  switch (op) {
    case record::Op::kPut:
      return "PUT";
    case record::Op::kDelete:
      return "DELETE";
    case record::Op::kMerge:
      return "MERGE";
    case record::Op::kSingleDelete:
      return "SINGLE_DELETE";
    case record::Op::kDeleteRange:
      return "DELETE_RANGE";
    case record::Op::kFamily:
      break;
  }
  return "?";
}

/// ldb's words for an operation.
std::string shown(const record::Operation& operation, std::uint64_t records_position,
                  const DumpWalFlags& flags) {
  std::string text = fmt::format("{}({})", name_of(operation.op), operation.family);
  if (flags.positions) text += fmt::format(" @{}", records_position + operation.offset);
  text += " : " + console::to_hex(operation.key.ToStringView()) + " ";
  if (operation.op == record::Op::kDeleteRange) {
    text += console::to_hex(operation.value.ToStringView()) + " ";
  } else if (flags.print_value && !record::is_deletion(operation.op)) {
    text += ": " + console::to_hex(operation.value.ToStringView()) + " ";
  }
  return text;
}

/// One line for the frame at `at`, which is whole.
std::string line_of(const wal::FrameHeader& header, const std::byte* at, std::uint64_t offset,
                    const DumpWalFlags& flags) {
  const auto layout = wal::FrameLayout::of(header);
  wal::CommitRecord commit;
  std::memcpy(&commit, at + layout.commit, sizeof commit);
  std::uint64_t count = 0;
  std::string operations;
  record::for_each_operation(
      at + layout.records, header.record_count, [&](const record::Operation& operation) {
        ++count;
        operations += shown(operation, header.position + layout.records, flags);
      });
  if (header.flags == wal::kFrameCloses) operations = "CLOSE ";
  return fmt::format("{},{},{},{},0x{:016X},{}\n", header.position, count, layout.end, offset,
                     commit.checksum, operations);
}

/// A segment file of a log, opened for reading.
struct OpenSegment {
  std::unique_ptr<wal::SegmentFile> file;
  wal::SegmentView view;
  std::uint64_t first = 0;
};

Result<OpenSegment> open_segment(const std::string& path) {
  OpenSegment segment;
  BRECCIA_TAKE(segment.file, wal::read_only_files()->open(path));
  BRECCIA_TAKE(const std::uint64_t used, segment.file->load());
  segment.view = {0, segment.file->size(), segment.file->image(), path, used};
  if (segment.view.size >= sizeof(wal::SegmentHeader)) {
    // As the file may have any name, the header alone says where it belongs. If that cannot be, the
    // header is damaged, or its checksum is of a file that no log has made.
    std::uint64_t base = 0;
    std::memcpy(&base, segment.view.image + offsetof(wal::SegmentHeader, base), sizeof base);
    const bool can_be = base % limits::kLogWindowBytes == 0 && base + segment.view.size > base;
    segment.view.base = can_be ? base : 0;
  }
  std::uint64_t store_id = 0;
  BRECCIA_TRY(wal::check_segment(segment.view, &store_id, &segment.first));
  return segment;
}

/// Prints the segment's whole frames; true if its last one says that the next segment goes on.
bool print_frames(const OpenSegment& segment, const DumpWalFlags& flags) {
  std::uint64_t position = segment.first;
  wal::FrameHeader header;
  while (wal::header_at(segment.view, position, &header)) {
    const std::byte* const at = segment.view.at(position);
    if (wal::frame_fault(at, header) != nullptr) return false;
    const std::string line = line_of(header, at, position - segment.view.base, flags);
    std::fwrite(line.data(), 1, line.size(), stdout);
    if (header.flags == wal::kFrameCloses) return true;
    position += wal::FrameLayout::of(header).end;
  }
  return false;
}

void print_header(const DumpWalFlags& flags) {
  if (!flags.header) return;
  fmt::print("Position,Count,ByteSize,Physical Offset,Checksum,Key(s){}\n",
             flags.print_value ? " : value " : "");
}

int failed(const std::string& what, const Status& status) {
  console::say_error(what, status, "restore the log's folder from a copy, or `breccia db restore`");
  return console::kExitFailed;
}

int dump_file(const DumpWalFlags& flags) {
  auto segment = open_segment(flags.walfile);
  if (!segment.ok()) return failed("cannot read the log file", segment.status());
  print_header(flags);
  if (print_frames(segment.value(), flags)) return console::kExitOk;
  // What ends without a closing frame is the end of the log, or damage.
  auto scan = wal::scan_log({&segment.value().view, 1}, segment.value().first);
  if (!scan.ok()) return failed("the log file is damaged", scan.status());
  if (!scan.value().message.empty()) console::say(scan.value().message);
  return console::kExitOk;
}

bool is_segment(const fs::path& path) {
  const std::string name = path.filename().string();
  return path.extension() == ".log" && name.size() == 24 &&
         std::all_of(name.begin(), name.end() - 4, [](char c) { return c >= '0' && c <= '9'; });
}

int dump_folder(const DumpWalFlags& flags) {
  const auto store = open_damaged(flags.db);
  if (store == nullptr) return console::kExitFailed;
  if (!store->owns_log()) {
    console::say(flags.db.db + " has no log of its own");
    return console::kExitOk;
  }
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(store->log_dir(), error)) {
    if (is_segment(entry.path())) paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  print_header(flags);
  int exit_code = console::kExitOk;
  for (const std::string& path : paths) {
    auto segment = open_segment(path);
    if (!segment.ok()) {
      exit_code = failed("cannot read a file of the log", segment.status());
    } else if (segment.value().view.end() > store->watermark().applied) {
      // Files below hold only what lies in SST files: they wait to be used again.
      print_frames(segment.value(), flags);
    }
  }
  if (!store->log_status().ok()) exit_code = failed("the log is damaged", store->log_status());
  return exit_code;
}

int run_dump_wal(const DumpWalFlags& flags) {
  if (flags.walfile.empty() == flags.db.db.empty()) {
    console::say("error: name one: --walfile=FILE, or --db=DIR for the whole log");
    return console::kExitUsage;
  }
  return flags.walfile.empty() ? dump_folder(flags) : dump_file(flags);
}

}  // namespace

console::Command add_dump_wal(console::App* parent) {
  auto flags = std::make_shared<DumpWalFlags>();
  console::App* app = parent->add_subcommand(
      "dump_wal", "Print the log's frames, one line each, and what is damaged; exit code 4 if so");
  app->add_option("--walfile", flags->walfile, "One file of the log; it may be in use");
  app->add_option("--db", flags->db.db, "Folder of the database: all of its log");
  app->add_option("--wal_dir", flags->db.wal_dir, "Folder of the log, if it has one of its own");
  app->add_flag("--header", flags->header, "Print the columns' names first");
  app->add_flag("--print_value", flags->print_value, "Print values beside keys");
  app->add_flag("--positions", flags->positions, "Print each record's position");
  return {app, [flags] { return run_dump_wal(*flags); }};
}

}  // namespace breccia::cli::db
