#include "bench/rows.h"

#include <fmt/format.h>
#include <rocksdb/version.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "bench/database.h"
#include "bench/report.h"
#include "bench/series.h"
#include "console/console.h"
#include "console/rocksdb_assertions.h"

namespace breccia::bench {

namespace {

using Row = nlohmann::ordered_json;

void add_data(const Data& data, Row* row) {
  row->update(Row{{"num", data.num},
                  {"keys", data.keys},
                  {"key_set", data.key_set},
                  {"key_size", data.key_size},
                  {"value_size", data.value_size},
                  {"skew", data.skew},
                  {"misses", data.misses}});
}

void add_in_effect(const SuiteConfig& config, const StepResult& result, Row* row) {
  const InEffect& effect = result.in_effect;
  row->update(Row{{"memtable_bytes", effect.memtable_bytes},
                  {"memtable_bytes_asked", config.engine.memtable_bytes},
                  {"log_segment_bytes", effect.log_segment_bytes},
                  {"log_preallocate_bytes", config.engine.log_preallocate_bytes},
                  {"cache_bytes", effect.cache_bytes},
                  {"clean_bytes", effect.clean_bytes},
                  {"entry_cache_bytes", effect.entry_cache_bytes},
                  {"residency_bytes", effect.residency_bytes},
                  {"residency_load_bytes_per_s", effect.residency_load_bytes_per_s},
                  {"hot_keys", config.engine.hot_keys},
                  {"bloom_bits", effect.bloom_bits},
                  {"compression", config.engine.compression},
                  {"disable_auto_compactions", config.engine.no_compactions},
                  {"rocksdb_options", config.engine.rocksdb_options},
                  {"durability", config.engine.durability == Durability::kNone   ? "none"
                                 : config.engine.durability == Durability::kSync ? "sync"
                                                                                 : "default"}});
}

void add_series(const Step& step, const StepResult& result, Row* row) {
  if (step.driver.target_per_s > 0) (*row)["target_rate"] = step.driver.target_per_s;
  if (step.driver.duration_s <= 0) return;
  const Series series = series_of(result.per_second);
  row->update(Row{{"per_second", result.per_second},
                  {"per_second_least", series.least},
                  {"per_second_median", series.median},
                  {"stall_seconds", series.stalls},
                  {"disk_bytes_per_s", static_cast<double>(result.disk_bytes) / result.seconds}});
}

// The script that builds knows the commit; the program does not.
void add_commit(Row* row) {
  const char* commit = std::getenv("BRECCIA_COMMIT");
  if (commit != nullptr) (*row)["commit"] = commit;
}

std::string text_of(const Row& row) {
  return row.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::string machine_name() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  std::string model = "unknown processor";
  while (std::getline(file, line)) {
    if (!line.starts_with("model name")) continue;
    model = line.substr(std::min(line.size(), line.find(':') + 2));
    break;
  }
  return fmt::format("{}, {} cores", model, std::thread::hardware_concurrency());
}

std::string to_json(const SuiteConfig& config, const Step& step, const StepResult& result) {
  Row row = {
      {"benchmark", result.step},
      {"engine", result.engine},
      {"backend", result.backend},
      {"round", result.round},
      {"ops", result.requests},
      {"seconds", result.seconds},
      {"ops_per_sec", result.requests_per_s()},
      {"filling_included", result.filling_included},
      {"ops_per_sec_filling_included", result.with_filling()},
      {"ops_per_sec_store_alone", result.store_alone()},
      {"columns", result.in_effect.columns},
      {"registered", result.in_effect.registered},
      {"in_place", result.in_effect.in_place},
      {"latency_of", unit_of(step)},
      {"p50_us", result.p50_us},
      {"p99_us", result.p99_us},
      {"p999_us", result.p999_us},
      {"max_us", result.max_us},
      {"batch_size", step.driver.batch_size},
      {"prebuilt", step.driver.prebuilt},
      {"ready", step.driver.ready},
      {"threads", step.driver.threads},
      {"seed", config.seed},
  };
  row["state"] = nullptr;
  if (step.reads) row["state"] = state_name(step.state);
  add_data(config.data, &row);
  add_in_effect(config, result, &row);
  if (!result.settings.empty()) row["settings"] = result.settings;
  add_series(step, result, &row);
  row.update(
      Row{{"rocksdb", fmt::format("{}.{}.{}", ROCKSDB_MAJOR, ROCKSDB_MINOR, ROCKSDB_PATCH)},
          {"rocksdb_assertions", console::rocksdb_build().assertions == console::Assertions::kOn},
          {"machine", machine_name()}});
  row["result_hash"] = nullptr;
  if (result.hashed) row["result_hash"] = hash_text(result);
  add_commit(&row);
  return text_of(row);
}

std::string to_json(const MachineLimits& limits) {
  Row row = {
      {"benchmark", "machine"},
      {"machine", machine_name()},
      {"memory_bytes", limits.memory_bytes},
      {"copy_bytes_per_s", limits.copy_bytes_per_s},
      {"gather_128_byte_rows_per_s", limits.gather_rows_per_s},
      {"gather_100_of_128_bytes_per_s", limits.values_gathered_per_s},
      {"random_8_byte_reads_per_s", limits.random_reads_per_s},
      {"disk_write_bytes_per_s", limits.disk_bytes_per_s},
  };
  if (limits.disk_reads_per_s > 0) row["disk_random_reads_per_s"] = limits.disk_reads_per_s;
  if (limits.mapped_values_gathered_per_s > 0) {
    row["gather_100_of_128_bytes_of_a_mapped_file_per_s"] = limits.mapped_values_gathered_per_s;
    row["gather_100_bytes_anywhere_of_a_mapped_file_per_s"] = limits.mapped_values_anywhere_per_s;
  }
  if (limits.device.has_value()) {
    row.update(Row{{"bus_in_bytes_per_s", limits.device->copy_in_bytes_per_s},
                   {"bus_out_bytes_per_s", limits.device->copy_out_bytes_per_s},
                   {"zero_copy_bytes_per_s", limits.device->zero_copy_bytes_per_s},
                   {"zero_copy_accesses_per_s", limits.device->zero_copy_accesses_per_s},
                   {"launch_us", limits.device->launch_us}});
  }
  add_commit(&row);
  return text_of(row);
}

void keep_row(const SuiteConfig& config, const std::string& row) {
  if (config.json) fmt::print("{}\n", row);
  if (config.json_file.empty()) return;
  std::ofstream file(config.json_file, std::ios::app);
  file << row << '\n';
  file.close();
  if (!file) console::say(fmt::format("error: cannot append to {}", config.json_file));
}

}  // namespace breccia::bench
