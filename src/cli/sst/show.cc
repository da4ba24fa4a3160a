#include <fmt/format.h>

#include <algorithm>

#include "cli/sst/commands.h"
#include "console/console.h"
#include "console/exit_codes.h"
#include "console/text.h"
#include "sst/table.h"

namespace breccia::cli::sst {

namespace {

struct ShowFlags {
  std::string file;
  bool blocks = false;
};

/// A property as text: RocksDB writes text, or one of its kinds of numbers.
std::string shown(const std::string& name, const std::string& value) {
  using breccia::sst::load_little_endian;
  const bool is_fixed_32 =
      name == breccia::sst::names::kIndexType || name == breccia::sst::names::kExternalVersion;
  if (is_fixed_32 && value.size() == sizeof(std::uint32_t)) {
    return std::to_string(load_little_endian<std::uint32_t>(value.data()));
  }
  if (name == breccia::sst::names::kGlobalSequence && value.size() == sizeof(std::uint64_t)) {
    return std::to_string(load_little_endian<std::uint64_t>(value.data()));
  }
  const auto is_text = [](char c) { return c >= ' ' && c <= '~'; };
  if (!value.empty() && std::all_of(value.begin(), value.end(), is_text)) return value;
  breccia::sst::Input input{Slice(value)};
  std::uint64_t number = 0;
  if (input.varint(&number) && input.rest().empty()) return std::to_string(number);
  return value.empty() ? "" : console::to_hex(value);
}

void print_block(const char* what, const breccia::sst::Handle& handle) {
  fmt::print("{:<44} {:>12} {:>12}\n", what, handle.offset, handle.bytes);
}

int run_show(const ShowFlags& flags) {
  const auto opened = breccia::sst::Table::open(flags.file);
  if (!opened.ok()) {
    console::say_error(fmt::format("cannot show {}", flags.file), opened.status(),
                       "`breccia sst check` says where a table is broken");
    return console::kExitFailed;
  }
  const breccia::sst::Table& table = *opened.value();
  fmt::print("{}\nformat_version {}, checksum type {}, {} data blocks\n\n",
             console::human_bytes(static_cast<double>(table.bytes())), table.version(),
             static_cast<int>(table.checksum_type()),
             console::with_commas(table.data_blocks().size()));
  for (const auto& [name, value] : table.properties()) {
    fmt::print("{:<44} {}\n", name, shown(name, value));
  }
  fmt::print("\n{:<44} {:>12} {:>12}\n", "block", "offset", "bytes");
  for (const auto& [name, handle] : table.meta_blocks()) print_block(name.c_str(), handle);
  print_block("index", table.index());
  print_block("metaindex", table.metaindex());
  if (!flags.blocks) return console::kExitOk;
  for (const breccia::sst::DataBlock& block : table.data_blocks()) {
    const std::string name =
        fmt::format("up to {}", console::to_hex(block.separator.ToStringView()));
    print_block(name.c_str(), block.handle);
  }
  return console::kExitOk;
}

}  // namespace

console::Command add_show(console::App* parent) {
  auto flags = std::make_shared<ShowFlags>();
  console::App* app =
      parent->add_subcommand("show", "Print a table's properties and where its blocks lie");
  app->add_flag("--blocks", flags->blocks, "Data blocks, too, with the separators of the index");
  app->add_option("FILE", flags->file, "The table")->required();
  return {app, [flags] { return run_show(*flags); }};
}

}  // namespace breccia::cli::sst
