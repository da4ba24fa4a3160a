#include "bench/disagg/figures.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bench/rows.h"

namespace breccia::bench::disagg {

namespace {

constexpr const char* kFilling = "fabric_fill";

nlohmann::json row_of(const Setting& setting, const std::string& name) {
  return {{"benchmark", name},
          {"network", setting.network},
          {"indexes", setting.indexes},
          {"clients", setting.clients},
          {"memory_servers", setting.memory_servers},
          {"shards", setting.shards},
          {"is_kept", setting.is_kept},
          {"keys", setting.keys},
          {"key_size", setting.key_bytes},
          {"value_size", setting.value_bytes},
          {"fill_percent", setting.fill_percent},
          {"seed", setting.seed},
          {"machine", machine_name()}};
}

void say_words(const Setting& setting, const Figure& figure, double r_us, double times) {
  fmt::print("{:<13} {:<30} {:>2} clients, values of {} B: ", setting.indexes, figure.name,
             setting.clients, setting.value_bytes);
  fmt::print("{:10.0f} op/s, p10 {:.2f} us, p50 {:.2f} us ({:.2f} R), p99 {:.1f} us",
             figure.per_sec(), figure.us(10), figure.us(50), figure.r_units(50, r_us),
             figure.us(99));
  if (figure.work.has_value()) {
    const auto all = static_cast<double>(figure.operations());
    fmt::print(", {:.3f} reads, {:.3f} and {:.3f} us of the hash and the ordered server",
               static_cast<double>(figure.work->reads) / all, 1e6 * figure.work->cpu.hash / all,
               1e6 * figure.work->cpu.ordered / all);
  }
  if (figure.share_percent.has_value()) fmt::print(", {:.1f} % of it", *figure.share_percent);
  if (times > 0) fmt::print("; both {:.2f}x", times);
  fmt::print("\n");
}

}  // namespace

void say(const Setting& setting, const Figure& figure, double r_us, const Reference* reference) {
  double times = 0;
  if (reference != nullptr && reference->contains(figure.name)) {
    times = reference->at(figure.name) / figure.per_sec();
  }
  if (!setting.json) return say_words(setting, figure, r_us, times);
  nlohmann::json row = row_of(setting, figure.name);
  row.update({{"operations", figure.operations()},
              {"seconds", figure.seconds},
              {"ops_per_sec", figure.per_sec()},
              {"mean_us", 1e-3 * figure.ns.mean()},
              {"p10_us", figure.us(10)},
              {"p50_us", figure.us(50)},
              {"p99_us", figure.us(99)},
              {"max_us", 1e-3 * static_cast<double>(figure.ns.max())},
              {"r_us", r_us},
              {"r_units", figure.r_units(50, r_us)},
              {"p10_r_units", figure.r_units(10, r_us)}});
  if (figure.batch > 1) row["batch"] = figure.batch;
  if (figure.work.has_value()) {
    // Not by multiplication: as many reads as operations are one each.
    const auto all = static_cast<double>(figure.operations());
    row["reads_per_op"] = static_cast<double>(figure.work->reads) / all;
    row["hash_server_cpu_us_per_op"] = 1e6 * figure.work->cpu.hash / all;
    row["ordered_server_cpu_us_per_op"] = 1e6 * figure.work->cpu.ordered / all;
  }
  if (figure.share_percent.has_value()) row["share_percent"] = *figure.share_percent;
  if (times > 0) row["both_times"] = times;
  fmt::print("{}\n", row.dump());
}

void say(const Setting& setting, const Filling& filling) {
  const auto keys = static_cast<double>(setting.keys);
  if (!setting.json) {
    fmt::print(
        "{:<13} {:<30} {:>2} clients: {} keys in {:.3f} s: {:10.0f} keys/s, {:.3f} and {:.3f} us "
        "of the hash and the ordered server\n",
        setting.indexes, kFilling, setting.clients, setting.keys, filling.seconds,
        keys / filling.seconds, 1e6 * filling.cpu.hash / keys, 1e6 * filling.cpu.ordered / keys);
    return;
  }
  nlohmann::json row = row_of(setting, kFilling);
  row.update({{"seconds", filling.seconds},
              {"keys_per_sec", keys / filling.seconds},
              {"hash_server_cpu_us_per_op", 1e6 * filling.cpu.hash / keys},
              {"ordered_server_cpu_us_per_op", 1e6 * filling.cpu.ordered / keys}});
  fmt::print("{}\n", row.dump());
}

void say(const Setting& setting, const Rebuild& rebuild, const Figure& writes) {
  const double per_sec = static_cast<double>(setting.keys) / rebuild.seconds;
  if (!setting.json) {
    fmt::print(
        "{:<22} {:>2} clients: {} keys in {:.3f} s: {:10.0f} keys/s, where {:.0f} can be read; "
        "{} writes meanwhile, p50 {:.1f} us, p99 {:.1f} us, max {:.1f} us\n",
        rebuild.name, setting.clients, setting.keys, rebuild.seconds, per_sec,
        rebuild.read_keys_per_sec, writes.ns.count(), writes.us(50), writes.us(99),
        1e-3 * static_cast<double>(writes.ns.max()));
    return;
  }
  nlohmann::json row = row_of(setting, rebuild.name);
  row.update({{"seconds", rebuild.seconds},
              {"keys_per_sec", per_sec},
              {"read_keys_per_sec", rebuild.read_keys_per_sec},
              {"writes", writes.ns.count()},
              {"write_p50_us", writes.us(50)},
              {"write_p99_us", writes.us(99)},
              {"write_max_us", 1e-3 * static_cast<double>(writes.ns.max())}});
  fmt::print("{}\n", row.dump());
}

}  // namespace breccia::bench::disagg
