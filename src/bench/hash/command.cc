#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/parallel.h"
#include "base/random.h"
#include "bench/commands.h"
#include "bench/hash/column.h"
#include "bench/lists.h"
#include "bench/rows.h"
#include "console/console.h"
#include "console/exit_codes.h"
#include "console/store_flags.h"
#include "exec/choose.h"
#include "hash/backend.h"

/// `breccia bench hash`: a table is filled with random keys of one size and asked for them. Keys,
/// values and results lie in the backend's memory; the clock covers the calls, each of which waits
/// for its batch. Every answer is compared with what it must be, outside the clock.

namespace breccia::bench {

namespace {

using hash::Code;
using hash::Operation;

struct HashFlags {
  std::string backend = "auto";
  std::uint64_t entries = 1 << 22;
  std::string load_percents = "50,95";
  std::string batch_sizes = "1048576";
  std::string lanes = "4";
  std::string key_sizes = "8";
  std::string value_sizes = "8";
  std::uint32_t rounds = 5;
  std::uint64_t seed = 1;
  bool json = false;
};

/// What a table is made of.
struct Shape {
  std::uint32_t load_percent;
  int lanes;
  std::uint32_t key_bytes;    // other than 8: keys and values lie in rows
  std::uint32_t value_bytes;  // the same for values
};

/// A table of one shape.
class HashBench {
 public:
  HashBench(const HashFlags& flags, hash::Backend& backend, const Shape& shape, std::uint64_t seed)
      : flags_(flags), backend_(backend), shape_(shape), seed_(seed) {}

  Status run(std::span<const std::uint32_t> batch_sizes) {
    base::Random random(seed_);
    // Batches that write have a row for each request, and their old ones come back behind them.
    const std::uint64_t spare =
        4 * std::uint64_t{*std::max_element(batch_sizes.begin(), batch_sizes.end())};
    BRECCIA_TAKE(table_,
                 backend_.make_table({.slots_min = flags_.entries * 100 / shape_.load_percent,
                                      .key_bytes = shape_.key_bytes,
                                      .value_bytes = shape_.value_bytes,
                                      .rows = flags_.entries + spare,
                                      .lanes = shape_.lanes,
                                      .secret = {.add = random.next(),
                                                 .factor = random.next() | 1,
                                                 .second_factor = random.next() | 1}}));
    BRECCIA_TRY(make_columns());
    BRECCIA_TRY(fill(batch_sizes.front()));
    for (const std::uint32_t batch : batch_sizes) {
      batch_ = batch;
      BRECCIA_TRY(ask());
    }
    return Status::OK();
  }

 private:
  /// Key i, another one for each seed. Those from `entries` on are not in the table.
  [[nodiscard]] std::uint64_t key(std::uint64_t i) const {
    return base::mix64(i + base::mix64(seed_));
  }
  /// Key i in its size: that number and others; 4 bytes for shorter ones, as keys are different.
  void put_key(std::uint64_t i, char* to) const {
    std::uint64_t words[kKeyWordsMax] = {key(i)};
    if (shape_.key_bytes < sizeof(std::uint64_t)) {
      words[0] = static_cast<std::uint32_t>(i * kShortKeyFactor + seed_);
    }
    for (std::size_t w = 1; w < kKeyWordsMax; ++w) words[w] = base::mix64(words[w - 1]);
    std::memcpy(to, words, shape_.key_bytes);
  }

  [[nodiscard]] bool has_rows() const { return table_->options().has_rows(); }
  [[nodiscard]] std::uint64_t words() const { return shape_.value_bytes / sizeof(std::uint64_t); }
  /// Word `w` of the value that key i has had since turn `turn`; they differ in a row.
  [[nodiscard]] std::uint64_t value(std::uint64_t i, std::uint64_t turn, std::uint64_t w) const {
    return (key(i) * 3 + turn) * (2 * w + 1);
  }

  Status make_columns() {
    BRECCIA_TAKE(keys_, make<char>(shape_.key_bytes));
    BRECCIA_TAKE(values_, make<std::uint64_t>(words()));
    BRECCIA_TAKE(found_, make<std::uint64_t>(words()));
    BRECCIA_TAKE(codes_, make<Code>(1));
    BRECCIA_TAKE(operations_, make<Operation>(1));
    return Status::OK();
  }
  template <class T>
  Result<std::unique_ptr<Column<T>>> make(std::uint64_t each) {
    BRECCIA_TAKE(auto column, Column<T>::make(backend_, flags_.entries * each));
    return std::make_unique<Column<T>>(std::move(column));
  }

  /// The columns: `entries` keys from `first` on, in steps that lead all over them, so in another
  /// order than they came in; and values of this turn. Answers are wiped out.
  Status prepare(std::uint64_t first) {
    const std::uint64_t n = flags_.entries;
    std::uint64_t step = static_cast<std::uint64_t>(0.618 * static_cast<double>(n)) | 1;
    while (std::gcd(step, n) != 1) step += 2;
    std::vector<char> keys(n * shape_.key_bytes);
    order_.resize(n);
    std::uint64_t at = base::mix64(seed_ + turn_) % n;
    for (std::uint64_t i = 0; i < n; ++i) {
      order_[i] = first + at;
      at = (at + step) % n;
      put_key(order_[i], keys.data() + i * shape_.key_bytes);
    }
    BRECCIA_TRY(keys_->put(keys));
    std::vector<std::uint64_t> values(n * words());
    base::parallel_for(std::uint64_t{0}, n, [&](std::uint64_t i) {
      for (std::uint64_t w = 0; w < words(); ++w) {
        values[i * words() + w] = value(order_[i], turn_, w);
      }
    });
    BRECCIA_TRY(values_->put(values));
    return wipe();
  }
  Status wipe() {
    BRECCIA_TRY(found_->put(std::vector<std::uint64_t>(flags_.entries * words())));
    return codes_->put(std::vector<Code>(flags_.entries, Code::kNoRoom));
  }

  /// Runs requests [begin, end) of the columns in batches; returns the seconds.
  Result<double> send(Operation all, bool mixed, std::uint64_t begin, std::uint64_t end) {
    const base::Stopwatch clock;
    for (std::uint64_t at = begin; at < end; at += batch_) {
      hash::RequestsRef requests{.operation = mixed ? operations_->data() + at : nullptr,
                                 .all = all,
                                 .code = codes_->data() + at,
                                 .count = std::min<std::uint64_t>(batch_, end - at)};
      const char* const keys = keys_->data() + at * shape_.key_bytes;
      if (!table_->options().keys_in_rows()) {
        requests.key = reinterpret_cast<const std::uint64_t*>(keys);
      }
      if (has_rows()) {
        const auto bytes_at = [&](const auto& column) {
          return reinterpret_cast<char*>(column->data() + at * words());
        };
        BRECCIA_TRY(backend_.run_values_here(
            *table_, {.requests = requests,
                      .value = bytes_at(values_),
                      .found = bytes_at(found_),
                      .key = table_->options().keys_in_rows() ? keys : nullptr}));
      } else {
        requests.value = values_->data() + at;
        requests.found = found_->data() + at;
        BRECCIA_TRY(backend_.run_here(*table_, requests));
      }
    }
    return 1e-6 * static_cast<double>(clock.micros());
  }

  /// The first codes are `expected`, and what was found is what the turn before wrote.
  Status check(Code expected, const std::string& what, std::uint64_t turn_before,
               std::uint64_t count) {
    BRECCIA_TAKE(const auto codes, codes_->get());
    BRECCIA_TAKE(const auto found, found_->get());
    for (std::uint64_t i = 0; i < count; ++i) {
      if (codes[i] != expected) {
        return Status::Corruption(what, "request " + std::to_string(i) + " has another code");
      }
      for (std::uint64_t w = 0; w < words() && expected == Code::kPresent; ++w) {
        if (found[i * words() + w] == value(order_[i], turn_before, w)) continue;
        return Status::Corruption(what, "request " + std::to_string(i) + " has another value");
      }
    }
    return Status::OK();
  }

  Status fill(std::uint32_t batch) {
    batch_ = batch;
    turn_ = 1;
    BRECCIA_TRY(prepare(0));
    BRECCIA_TRY(warm_up());
    const std::uint64_t last = flags_.entries - flags_.entries / 8;
    BRECCIA_TAKE(const double begin, send(Operation::kInsert, false, 0, last));
    BRECCIA_TAKE(const double end, send(Operation::kInsert, false, last, flags_.entries));
    BRECCIA_TRY(check(Code::kAbsent, "insert", 0, flags_.entries));
    say("hash_insert", flags_.entries, begin + end);
    say("hash_insert_last_eighth", flags_.entries - last, end);
    return Status::OK();
  }

  /// Loads the kernels and takes the memory that a batch takes: inserts into a table that is gone.
  Status warm_up() {
    const std::uint64_t n = std::min(batch_, flags_.entries);
    hash::TableOptions options = table_->options();
    options.slots_min = 2 * n;
    options.rows = has_rows() ? 4 * n : 0;
    BRECCIA_TAKE(auto other, backend_.make_table(options));
    std::swap(table_, other);
    const Status sent = send(Operation::kInsert, false, 0, n).status();
    std::swap(table_, other);
    BRECCIA_TRY(Status(sent));
    return wipe();
  }

  Status ask() {
    const std::uint64_t n = flags_.entries;
    std::uint64_t before = turn_++;
    BRECCIA_TRY(prepare(0));
    BRECCIA_TRY(send(Operation::kFind, false, 0, n).status());  // the clock of a GPU warms up
    BRECCIA_TRY(wipe());
    BRECCIA_TAKE(const double find, send(Operation::kFind, false, 0, n));
    BRECCIA_TRY(check(Code::kPresent, "find", before, flags_.entries));
    say("hash_find", n, find);
    BRECCIA_TRY(wipe());
    BRECCIA_TAKE(const double update, send(Operation::kUpdate, false, 0, n));
    BRECCIA_TRY(check(Code::kPresent, "update", before, flags_.entries));
    say("hash_update", n, update);
    before = turn_++;
    BRECCIA_TRY(prepare(0));
    BRECCIA_TRY(mix());
    BRECCIA_TAKE(const double mixed, send(Operation::kFind, true, 0, n));
    BRECCIA_TRY(check(Code::kPresent, "mixed", before, flags_.entries));
    say("hash_mixed", n, mixed);
    BRECCIA_TRY(send(Operation::kUpdate, false, 0, n).status());  // all have this turn's values
    before = turn_++;
    BRECCIA_TRY(prepare(n));
    BRECCIA_TAKE(const double miss, send(Operation::kFind, false, 0, n));
    BRECCIA_TRY(check(Code::kAbsent, "miss", before, flags_.entries));
    say("hash_miss", n, miss);
    turn_ = before;
    return take_away();
  }

  /// Every second request an update.
  Status mix() {
    std::vector<Operation> operations(flags_.entries);
    for (std::uint64_t i = 0; i < operations.size(); ++i) {
      operations[i] = i % 2 == 0 ? Operation::kFind : Operation::kUpdate;
    }
    return operations_->put(operations);
  }

  /// Deletes an eighth of the keys, and puts them back.
  Status take_away() {
    const std::uint64_t n = flags_.entries / 8;
    BRECCIA_TRY(prepare(0));
    BRECCIA_TAKE(const double seconds, send(Operation::kDelete, false, 0, n));
    say("hash_delete", n, seconds);
    BRECCIA_TRY(check(Code::kPresent, "delete", turn_, n));
    BRECCIA_TRY(send(Operation::kInsert, false, 0, flags_.entries).status());
    BRECCIA_TAKE(const auto codes, codes_->get());
    for (std::uint64_t i = 0; i < codes.size(); ++i) {
      if (codes[i] != (i < n ? Code::kAbsent : Code::kPresent)) {
        return Status::Corruption("delete", "request " + std::to_string(i) + " left something");
      }
    }
    return Status::OK();
  }

  void say(const std::string& benchmark, std::uint64_t requests, double seconds) const {
    const double rate = static_cast<double>(requests) / seconds;
    const double load =
        static_cast<double>(flags_.entries) / static_cast<double>(table_->slot_count());
    const std::string backend = backend_.device().describe();
    if (!flags_.json) {
      fmt::print(
          "{:<24} {:>2} + {:>4} B, load {:.3f}, batches of {:>9}, {} lanes: {:9.3f} M/s, {}\n",
          benchmark, shape_.key_bytes, shape_.value_bytes, load, std::min(batch_, requests),
          shape_.lanes, 1e-6 * rate, backend);
    } else {
      const nlohmann::json row = {{"benchmark", benchmark},
                                  {"engine", "breccia"},
                                  {"backend", backend},
                                  {"key_size", shape_.key_bytes},
                                  {"value_size", shape_.value_bytes},
                                  {"keys_in", table_->options().keys_in_rows() ? "rows" : "slots"},
                                  {"values_in", has_rows() ? "rows" : "slots"},
                                  {"entries", flags_.entries},
                                  {"load_factor", load},
                                  {"distribution", "uniform"},
                                  {"batch_size", std::min(batch_, requests)},
                                  {"lanes", shape_.lanes},
                                  {"requests", requests},
                                  {"seconds", seconds},
                                  {"ops_per_sec", rate},
                                  {"seed", seed_},
                                  {"machine", machine_name()}};
      fmt::print("{}\n", row.dump());
    }
    std::fflush(stdout);
  }

  static constexpr std::size_t kKeyWordsMax = 8;
  static constexpr std::uint64_t kShortKeyFactor = 0x9e37'79b1;  // odd: no number comes twice

  const HashFlags& flags_;
  hash::Backend& backend_;
  const Shape shape_;
  const std::uint64_t seed_;
  hash::TablePtr table_;
  std::unique_ptr<Column<char>> keys_;
  std::unique_ptr<Column<std::uint64_t>> values_, found_;
  std::unique_ptr<Column<Code>> codes_;
  std::unique_ptr<Column<Operation>> operations_;
  std::vector<std::uint64_t> order_;
  std::uint64_t turn_ = 0;
  std::uint64_t batch_ = 0;
};

Result<std::shared_ptr<hash::Backend>> open_backend(const HashFlags& flags) {
  StoreOptions options;
  options.backend = console::backend_choice(flags.backend);
  std::string why_none;
  BRECCIA_TAKE(const exec::DevicePtr device, exec::choose_device(options, &why_none));
  return hash::make_backend(device, {.name = "hash"});
}

Status run_rounds(const HashFlags& flags, std::span<const Shape> shapes,
                  std::span<const std::uint32_t> batches) {
  BRECCIA_TAKE(const auto backend, open_backend(flags));
  for (std::uint32_t round = 0; round < flags.rounds; ++round) {
    for (const Shape& shape : shapes) {
      HashBench bench(flags, *backend, shape, flags.seed + round);
      BRECCIA_TRY(bench.run(batches));
    }
  }
  return Status::OK();
}

int run_hash(const HashFlags& flags) {
  const auto loads = numbers_of(flags.load_percents, 99);
  const auto batches = numbers_of(flags.batch_sizes, 1U << 30);
  const auto lanes = numbers_of(flags.lanes, 8);
  const auto key_sizes = numbers_of(flags.key_sizes, 64);
  const auto sizes = numbers_of(flags.value_sizes, 4096);
  const auto are_above_zero = [](const std::vector<std::uint32_t>& numbers) {
    return !numbers.empty() && std::find(numbers.begin(), numbers.end(), 0U) == numbers.end();
  };
  const bool are_widths = std::all_of(lanes.begin(), lanes.end(), [](std::uint32_t width) {
    return width == 1 || width == 4 || width == 8;
  });
  const bool are_sizes =
      std::all_of(sizes.begin(), sizes.end(), [](std::uint32_t size) { return size % 8 == 0; });
  const bool are_key_sizes =
      std::all_of(key_sizes.begin(), key_sizes.end(), [](std::uint32_t size) { return size >= 4; });
  if (!are_above_zero(loads) || !are_above_zero(batches) || !are_above_zero(lanes) ||
      !are_above_zero(sizes) || !are_above_zero(key_sizes) || !are_widths || !are_sizes ||
      !are_key_sizes) {
    console::say(
        "error: --load_percents wants numbers from 1 to 99, --batch_sizes numbers above zero, "
        "--lanes 1, 4 or 8, --key_size 4 to 64, --value_sizes 8, 16, ... 4096; several with "
        "commas");
    return console::kExitUsage;
  }
  std::vector<Shape> shapes;
  for (const std::uint32_t load : loads) {
    for (const std::uint32_t width : lanes) {
      for (const std::uint32_t key_size : key_sizes) {
        for (const std::uint32_t size : sizes) {
          shapes.push_back({load, static_cast<int>(width), key_size, size});
        }
      }
    }
  }
  const Status status = run_rounds(flags, shapes, batches);
  if (status.ok()) return console::kExitOk;
  console::say_error("the benchmark did not end", status, "fewer --entries need less memory");
  return console::kExitFailed;
}

}  // namespace

console::Command add_bench_hash(console::App* parent) {
  auto flags = std::make_shared<HashFlags>();
  console::App* app =
      parent->add_subcommand("hash", "Fill a hash table and look up, change and delete its keys");
  app->add_option("--backend", flags->backend, "auto, host or cuda")
      ->one_of({"auto", "host", "cuda"})
      ->capture_default_str();
  app->add_option("--entries", flags->entries, "Keys in the table")
      ->range(64, 1ULL << 31)
      ->capture_default_str();
  app->add_option("--load_percents", flags->load_percents,
                  "Keys of a hundred slots, when it is full; several with commas")
      ->capture_default_str();
  app->add_option("--batch_sizes", flags->batch_sizes,
                  "Requests of a batch; several with commas: the first one fills the table")
      ->capture_default_str();
  app->add_option("--lanes", flags->lanes, "Lanes a request: 1, 4 or 8; several with commas")
      ->capture_default_str();
  app->add_option("--key_size", flags->key_sizes,
                  "Bytes of a key, 4 to 64; other than 8: in rows; several with commas")
      ->capture_default_str();
  app->add_option("--value_sizes", flags->value_sizes,
                  "Bytes of a value, a multiple of 8; other than 8: in rows; several with commas")
      ->capture_default_str();
  app->add_option("--rounds", flags->rounds, "How often, each with new keys")
      ->capture_default_str();
  app->add_option("--seed", flags->seed, "Seed of the first round")->capture_default_str();
  app->add_flag("--json", flags->json, "Print one JSON object a line");
  return {app, [flags] { return run_hash(*flags); }};
}

}  // namespace breccia::bench
