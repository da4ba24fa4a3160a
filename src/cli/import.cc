#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/import_records.h"
#include "console/console.h"
#include "console/exit_codes.h"
#include "console/store_flags.h"

namespace breccia::cli {

namespace {

// A batch goes when it holds this much, whatever --batch-size says.
constexpr std::uint64_t kBatchBytesMax = 64ULL << 20;
// So many bad records are shown; the rest is counted.
constexpr std::uint64_t kProblemsShown = 10;

struct ImportFlags {
  console::StoreFlags store;
  std::string format_name;
  RecordFormat format;
  std::string file;
  std::uint32_t batch_size = 65'536;
  bool sync = false;
  bool skip = false;
  std::string on_error = "stop";
  bool progress = false;
  bool json = false;
};

/// The file to read, or standard input.
class Input {
 public:
  Input() = default;
  ~Input() {
    if (fd_ > 0) close(fd_);
  }
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  /// False, with words on stderr, if it cannot be read.
  bool open(const std::string& file);
  /// 0: not known.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  std::ptrdiff_t read(char* to, std::size_t size) const { return ::read(fd_, to, size); }

 private:
  int fd_ = STDIN_FILENO;
  std::uint64_t bytes_ = 0;
};

bool Input::open(const std::string& file) {
  if (file != "-") fd_ = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat info {};
  int error = fd_ < 0 || fstat(fd_, &info) != 0 ? errno : 0;
  if (error == 0 && S_ISDIR(info.st_mode)) error = EISDIR;
  if (error != 0) {
    console::say(fmt::format("error: cannot open {}: {}", file, std::strerror(error)));
    return false;
  }
  if (S_ISREG(info.st_mode)) {
    bytes_ = static_cast<std::uint64_t>(info.st_size);
    posix_fadvise(fd_, 0, 0, POSIX_FADV_SEQUENTIAL);
  }
  return true;
}

class Import {
 public:
  Import(const ImportFlags& flags, const Input& input, Store* store)
      : flags_(flags),
        input_(input),
        store_(store),
        batch_(store->NewBatch()),
        progress_(flags.progress || console::stderr_is_terminal()),
        reader_(make_record_reader(
            flags.format, [&input](char* to, std::size_t size) { return input.read(to, size); })) {}

  int run();

 private:
  /// Reads to the end; what it returns is final unless the rest of the batch cannot be written.
  int read_all();
  bool submit();
  bool add(const Record& record, std::string* problem);
  void report_problem(std::uint64_t line, const std::string& problem);
  void show_progress();
  void summary() const;
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

  const ImportFlags& flags_;
  const Input& input_;
  Store* const store_;
  Batch batch_;
  console::ProgressLine progress_;
  const std::unique_ptr<RecordReader> reader_;
  std::uint64_t written_ = 0;  // records in acknowledged batches
  std::uint64_t skipped_ = 0;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

bool Import::submit() {
  if (batch_.writes() == 0) return true;
  const auto durability = flags_.sync ? Durability::kSync : Durability::kDefault;
  const Status status = store_->Submit({.durability = durability}, &batch_);
  if (!status.ok()) {
    progress_.clear();
    console::say_error(fmt::format("cannot write the batch that ends at line {} of {}",
                                   reader_->line(), flags_.file),
                       status,
                       "make room or see `breccia doctor --db`, then import the file again");
    return false;
  }
  written_ += batch_.writes();
  batch_.Clear();
  return true;
}

bool Import::add(const Record& record, std::string* problem) {
  const Status status = batch_.Put(Slice(record.key.data(), record.key.size()),
                                   Slice(record.value.data(), record.value.size()));
  if (!status.ok()) *problem = status.ToString();
  return status.ok();
}

void Import::report_problem(std::uint64_t line, const std::string& problem) {
  if (skipped_ >= kProblemsShown) return;
  progress_.clear();
  fmt::print(stderr, "{}:{}: {}\n", flags_.file, line, problem);
  if (skipped_ + 1 == kProblemsShown && flags_.skip)
    console::say("more bad records are counted, not shown");
}

void Import::show_progress() {
  const double elapsed = seconds();
  const auto done = static_cast<double>(reader_->bytes());
  const std::uint64_t records = written_ + batch_.writes();
  std::string line =
      fmt::format("{} records, {}, {}/s, {:.0f} records/s", console::with_commas(records),
                  console::human_bytes(done), console::human_bytes(done / elapsed),
                  static_cast<double>(records) / elapsed);
  if (input_.bytes() > 0 && done > 0) {
    const double part = std::min(1.0, done / static_cast<double>(input_.bytes()));
    line += fmt::format(", {:.0f} %, {} left", 100 * part,
                        console::human_seconds(elapsed * (1 - part) / part));
  }
  progress_.show(line);
}

int Import::read_all() {
  Record record;
  while (true) {
    std::string problem;
    const auto outcome = reader_->next(&record);
    if (outcome == RecordReader::Outcome::kEnd) return console::kExitOk;
    if (outcome == RecordReader::Outcome::kFailed) {
      progress_.clear();
      console::say(fmt::format("error: cannot read {} behind line {}: {}", flags_.file,
                               reader_->line(), std::strerror(errno)));
      return console::kExitFailed;
    }
    if (outcome == RecordReader::Outcome::kBad) problem = reader_->problem();
    if (problem.empty() && !add(record, &problem) && batch_.writes() > 0) {
      // Perhaps the batch is full, not the record at fault: try again with an empty one.
      if (!submit()) return console::kExitFailed;
      problem.clear();
      add(record, &problem);
    }
    if (!problem.empty()) {
      report_problem(reader_->line(), problem);
      if (!flags_.skip) return console::kExitBadInput;
      ++skipped_;
    }
    if (batch_.writes() >= flags_.batch_size || batch_.bytes() >= kBatchBytesMax) {
      if (!submit()) return console::kExitFailed;
    }
    if (progress_.due()) show_progress();
  }
}

void Import::summary() const {
  const double elapsed = seconds();
  if (flags_.json) {
    const nlohmann::ordered_json line = {{"file", flags_.file},
                                         {"imported", written_},
                                         {"skipped", skipped_},
                                         {"input_bytes", reader_->bytes()},
                                         {"seconds", elapsed}};
    fmt::print("{}\n", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  console::say(fmt::format("imported {} records ({} of input) in {:.1f} s, skipped {}",
                           console::with_commas(written_),
                           console::human_bytes(static_cast<double>(reader_->bytes())), elapsed,
                           console::with_commas(skipped_)));
}

int Import::run() {
  int exit_code = read_all();
  // Whatever stopped the reading, the good records before it are kept.
  if (!submit()) exit_code = console::kExitFailed;
  const Status status = store_->SyncLog();
  progress_.clear();
  // Not every engine has a log.
  if (!status.ok() && !status.IsNotSupported()) {
    console::say_error("cannot sync the log", status, "see `breccia doctor --db`");
    exit_code = console::kExitFailed;
  }
  summary();
  if (exit_code == console::kExitBadInput) {
    console::say(
        fmt::format("stopped at line {}; everything before it is in the store; mend the line, or "
                    "pass --on-error=skip",
                    reader_->line()));
  }
  return exit_code;
}

int run_import(ImportFlags* flags) {
  flags->skip = flags->on_error == "skip";
  if (flags->format_name == "jsonl") flags->format.name = RecordFormat::Name::kJsonLines;
  if (flags->format_name == "stanza") flags->format.name = RecordFormat::Name::kStanza;
  const bool tsv = flags->format.name == RecordFormat::Name::kTsv;
  if (tsv && (!flags->format.key_field.empty() || !flags->format.value_field.empty())) {
    console::say("error: TSV has no field names; leave --key-field and --value-field out");
    return console::kExitUsage;
  }
  if (flags->format_name == "stanza" && flags->format.key_field.empty()) {
    console::say("error: stanzas need --key-field, for example --key-field Package");
    return console::kExitUsage;
  }
  // Before the store, which is made if there is none: not for a file that is not there.
  Input input;
  if (!input.open(flags->file)) return console::kExitFailed;
  flags->store.create_if_missing = true;
  const auto store = flags->store.open();
  if (store == nullptr) return console::kExitFailed;
  const RecoveryReport found = store->recovery();
  if (found.entries > 0) {
    console::say(fmt::format(
        "recovered {} records, written in {} batches and not flushed, in {:.2f} s",
        console::with_commas(found.entries), console::with_commas(found.frames), found.seconds));
  }
  return Import(*flags, input, store.get()).run();
}

}  // namespace

console::Command add_import(console::App* parent) {
  auto flags = std::make_shared<ImportFlags>();
  console::App* app = parent->add_subcommand(
      "import", "Write the records of a text file into a store, which is made if there is none");
  flags->store.add_to(app, "auto");
  flags->store.add_engine(app);
  flags->store.add_convert(app);
  app->add_option("--format", flags->format_name,
                  "tsv: key, tab, value, with \\t \\n \\\\ escaped; jsonl: one object per line; "
                  "stanza: Debian control format")
      ->required()
      ->one_of({"tsv", "jsonl", "stanza"});
  app->add_option("--key-field", flags->format.key_field, "Field that is the key; jsonl: `key`");
  app->add_option("--value-field", flags->format.value_field,
                  "Field that is the value; default: the whole line or stanza, or in jsonl "
                  "without --key-field the field `value` if it is there");
  app->add_option("--batch-size", flags->batch_size, "Records per batch")
      ->range(1, 1U << 28)
      ->capture_default_str();
  app->add_flag("--sync", flags->sync, "Each batch reaches the medium; else only the last does");
  app->add_option("--on-error", flags->on_error, "A bad record: stop or skip")
      ->one_of({"stop", "skip"})
      ->capture_default_str();
  app->add_flag("--progress", flags->progress, "Report once a second, even if not to a terminal");
  app->add_flag("--json", flags->json, "Print the counts as a JSON object");
  app->add_option("FILE", flags->file, "File to read; - is standard input")->required();
  return {app, [flags] { return run_import(flags.get()); }};
}

}  // namespace breccia::cli
