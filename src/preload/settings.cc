#include "preload/settings.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <filesystem>
#include <limits>

#include "base/checksum.h"

namespace breccia::preload {

namespace {

Status wrong(const char* name, const char* value, const char* wanted) {
  return Status::InvalidArgument(fmt::format("environment variable {} is `{}`", name, value),
                                 fmt::format("set it to {}, or unset it", wanted));
}

Status read_bool(const Variables& variables, const char* name, bool* value) {
  const char* const text = variables(name);
  if (text == nullptr) return Status::OK();
  if (std::strcmp(text, "0") != 0 && std::strcmp(text, "1") != 0) {
    return wrong(name, text, "0 or 1");
  }
  *value = *text == '1';
  return Status::OK();
}

/// A number, with K, M, G or T behind it for a power of 1024.
template <class Number>
Status read_number(const Variables& variables, const char* name, Number* value) {
  const char* const text = variables(name);
  if (text == nullptr) return Status::OK();
  constexpr const char* kWanted = "a number, such as 64 or 512M";
  const char* const end = text + std::strlen(text);
  std::uint64_t number = 0;
  const auto [at, error] = std::from_chars(text, end, number);
  constexpr char kUnits[] = "KMGT";
  const char* const unit = at == end ? nullptr : std::strchr(kUnits, *at);
  const int shift = unit == nullptr ? 0 : 10 * static_cast<int>(unit - kUnits + 1);
  const bool is_whole = at == end || (unit != nullptr && at + 1 == end);
  const auto max = static_cast<std::uint64_t>(std::numeric_limits<Number>::max());
  if (error != std::errc() || !is_whole || number > max >> shift) {
    return wrong(name, text, kWanted);
  }
  *value = static_cast<Number>(number << shift);
  return Status::OK();
}

Status read_backend(const Variables& variables, BackendChoice* backend) {
  constexpr const char* kName = "BRECCIA_BACKEND";
  const char* const text = variables(kName);
  if (text == nullptr) return Status::OK();
  const std::string word = text;
  if (word == "auto") {
    *backend = BackendChoice::kAuto;
  } else if (word == "host") {
    *backend = BackendChoice::kHost;
  } else if (word == "cuda") {
    *backend = BackendChoice::kCuda;
  } else {
    return wrong(kName, text, "auto, host or cuda");
  }
  return Status::OK();
}

}  // namespace

Result<Settings> read_settings(const Variables& variables) {
  Settings settings;
  Options& engine = settings.engine;
  BRECCIA_TRY(read_bool(variables, "BRECCIA_PRELOAD", &settings.is_on));
  BRECCIA_TRY(read_bool(variables, "BRECCIA_QUIET", &settings.is_quiet));
  BRECCIA_TRY(read_bool(variables, "BRECCIA_COMPACTION", &settings.has_only_compaction));
  BRECCIA_TRY(read_bool(variables, "BRECCIA_COMPACTION_REPORT", &settings.reports_compaction));
  BRECCIA_TRY(read_bool(variables, "BRECCIA_FLUSH_AT_CLOSE", &engine.flush_at_close));
  BRECCIA_TRY(read_backend(variables, &engine.backend));
  BRECCIA_TRY(read_number(variables, "BRECCIA_DEVICE", &engine.device));
  BRECCIA_TRY(read_number(variables, "BRECCIA_DEVICE_REQUESTS_MIN", &engine.device_requests_min));
  BRECCIA_TRY(read_number(variables, "BRECCIA_DEVICE_BYTES", &engine.device_bytes_max));
  BRECCIA_TRY(read_number(variables, "BRECCIA_MEMTABLE_BYTES", &engine.memtable_bytes));
  if (variables("BRECCIA_CLEAN_BYTES") != nullptr) {
    BRECCIA_TRY(read_number(variables, "BRECCIA_CLEAN_BYTES", &engine.clean_bytes.emplace()));
  }
  BRECCIA_TRY(read_number(variables, "BRECCIA_LOG_PREALLOCATE", &engine.log_preallocate_bytes));
  BRECCIA_TRY(read_number(variables, "BRECCIA_FLUSH_THREADS", &engine.flush_threads));
  const char* const log_dir = variables("BRECCIA_LOG_DIR");
  if (log_dir != nullptr) settings.log_dir = log_dir;
  return settings;
}

void apply(const Settings& settings, const std::string& name, Options* options) {
  const Options& engine = settings.engine;
  options->flush_at_close = engine.flush_at_close;
  options->backend = engine.backend;
  options->device = engine.device;
  options->device_requests_min = engine.device_requests_min;
  options->device_bytes_max = engine.device_bytes_max;
  options->log_preallocate_bytes = engine.log_preallocate_bytes;
  options->flush_threads = engine.flush_threads;
  options->clean_bytes = engine.clean_bytes;
  if (engine.memtable_bytes != 0) options->memtable_bytes = engine.memtable_bytes;
  if (!settings.log_dir.empty()) {
    namespace fs = std::filesystem;
    std::error_code ignored;  // a path that cannot be looked up fails when it is opened
    const fs::path folder = fs::weakly_canonical(fs::absolute(name, ignored), ignored) / "";
    const std::string path = folder.parent_path().string();  // without a slash behind
    options->wal_dir =
        fmt::format("{}/{}-{:016x}", settings.log_dir, fs::path(path).filename().string(),
                    base::Checksum64::of(path.data(), path.size()));
  }
}

}  // namespace breccia::preload
