#pragma once

#include "console/command.h"

namespace breccia::bench {

// Each adds its subcommand to `parent`. The flags live as long as the returned command.
console::Command add_bench(console::App* parent);
console::Command add_bench_ycsb(console::App* parent);
console::Command add_bench_recovery(console::App* parent);
console::Command add_bench_compaction(console::App* parent);
console::Command add_bench_hash(console::App* parent);
console::Command add_bench_slab(console::App* parent);
console::Command add_bench_hot(console::App* parent);
console::Command add_bench_rows(console::App* parent);
console::Command add_bench_disagg(console::App* parent);

}  // namespace breccia::bench
