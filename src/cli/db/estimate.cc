#include "cli/db/estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace breccia::cli::db {

namespace {

std::string amount(double units, const std::string& unit) {
  if (unit == "bytes") return console::human_bytes(units);
  return console::with_commas(static_cast<std::uint64_t>(units)) + " " + unit;
}

}  // namespace

void Estimate::show_if_due() {
  if (!line_.due()) return;
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin_;
  const auto done = static_cast<double>(done_);
  std::string line =
      fmt::format("{}, {}/s", amount(done, unit_), amount(done / elapsed.count(), unit_));
  if (total_ > 0 && done_ > 0) {
    const double part = std::min(1.0, done / static_cast<double>(total_));
    line += fmt::format(", {:.0f} %, {} left", 100 * part,
                        console::human_seconds(elapsed.count() * (1 - part) / part));
  }
  line_.show(line);
}

FolderGrowth::FolderGrowth(bool on, std::string folder, std::uint64_t total)
    : folder_(std::move(folder)), estimate_(on, total, "bytes") {
  if (on) thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

FolderGrowth::~FolderGrowth() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

void FolderGrowth::run(const std::stop_token& stop) {
  const std::uint64_t before = folder_bytes(folder_);
  std::unique_lock lock(mutex_);
  while (
      !wake_.wait_for(lock, stop, std::chrono::seconds(1), [&] { return stop.stop_requested(); })) {
    const std::uint64_t now = folder_bytes(folder_);
    estimate_.set(now > before ? now - before : 0);
  }
}

std::uint64_t folder_bytes(const std::string& folder) {
  namespace fs = std::filesystem;
  std::uint64_t bytes = 0;
  std::error_code error;
  // Files come and go meanwhile: what cannot be looked at counts as nothing.
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    std::error_code ignored;
    const std::uint64_t size = at->is_regular_file(ignored) ? at->file_size(ignored) : 0;
    if (!ignored) bytes += size;
  }
  return bytes;
}

std::uint64_t estimated_keys(const ordered::ReadOnlyStore& store,
                             rocksdb::ColumnFamilyHandle* family) {
  std::uint64_t keys = 0;
  (void)store.tree().GetIntProperty(family, "rocksdb.estimate-num-keys", &keys);
  for (const auto& run : store.view().family(family->GetID())->runs) keys += run->run->count();
  return keys;
}

}  // namespace breccia::cli::db
