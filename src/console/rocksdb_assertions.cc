#include "console/rocksdb_assertions.h"

#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <cstring>
#include <string_view>

namespace breccia::console {

namespace {

// A GNU hash table leaves the imports out: they stand in the symbol table before the first hashed
// symbol, whose index is the table's second word.
std::uint32_t imports_by_gnu_hash(const std::uint32_t* table) { return table[1]; }

struct Symbols {
  const ElfW(Sym) * table = nullptr;
  const char* names = nullptr;
  std::uint32_t imports = 0;
};

// Entries of a mapped dynamic section hold addresses that the linker has already relocated; some
// libcs leave them relative to the base.
const void* address_of(const dl_phdr_info& info, ElfW(Addr) value) {
  return reinterpret_cast<const void*>(value < info.dlpi_addr ? info.dlpi_addr + value : value);
}

Symbols read_symbols(const dl_phdr_info& info) {
  Symbols symbols;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    if (info.dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    const auto* entry =
        reinterpret_cast<const ElfW(Dyn)*>(info.dlpi_addr + info.dlpi_phdr[i].p_vaddr);
    for (; entry->d_tag != DT_NULL; ++entry) {
      const void* at = address_of(info, entry->d_un.d_ptr);
      if (entry->d_tag == DT_SYMTAB) {
        symbols.table = static_cast<const ElfW(Sym)*>(at);
      } else if (entry->d_tag == DT_STRTAB) {
        symbols.names = static_cast<const char*>(at);
      } else if (entry->d_tag == DT_GNU_HASH) {
        symbols.imports = imports_by_gnu_hash(static_cast<const std::uint32_t*>(at));
      } else if (entry->d_tag == DT_HASH && symbols.imports == 0) {
        symbols.imports = static_cast<const std::uint32_t*>(at)[1];
      }
    }
  }
  return symbols;
}

bool imports_assert_fail(const Symbols& symbols) {
  for (std::uint32_t i = 1; i < symbols.imports; ++i) {
    const auto& symbol = symbols.table[i];
    if (symbol.st_shndx == SHN_UNDEF &&
        std::strcmp(symbols.names + symbol.st_name, "__assert_fail") == 0) {
      return true;
    }
  }
  return false;
}

int visit(dl_phdr_info* info, std::size_t, void* into) {
  const std::string_view path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
  const std::string_view file = path.substr(path.rfind('/') + 1);
  if (!file.starts_with("librocksdb.so")) return 0;
  auto* build = static_cast<RocksdbBuild*>(into);
  build->library = path;
  const Symbols symbols = read_symbols(*info);
  if (symbols.table != nullptr && symbols.names != nullptr && symbols.imports > 1) {
    build->assertions = imports_assert_fail(symbols) ? Assertions::kOn : Assertions::kOff;
  }
  return 1;
}

}  // namespace

RocksdbBuild rocksdb_build() {
  RocksdbBuild build;
  dl_iterate_phdr(visit, &build);
  return build;
}

std::string assertions_warning(const RocksdbBuild& build) {
  if (build.assertions != Assertions::kOn) return "";
  return fmt::format(
      "RocksDB ({}) was built with assertions: its figures are lower than a release build's; "
      "./dev rocksdb-release makes one",
      build.library);
}

}  // namespace breccia::console
