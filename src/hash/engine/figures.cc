#include "hash/engine/figures.h"

#include <functional>
#include <utility>

namespace breccia::hash {

namespace {

using From = const FigureSources&;

struct Figure {
  const char* name;
  std::string (*of)(From from);
};

/// A figure of the map; 0 while it is lost.
std::string of_map(From from, std::uint64_t (*of)(const KeyMap& map)) {
  std::uint64_t figure = 0;
  from.state.look([&](const KeyMap& map) { figure = of(map); });
  return std::to_string(figure);
}

std::string of_cache(From from, std::uint64_t (Cache::*of)() const) {
  return std::to_string(from.row_cache == nullptr ? 0 : (from.row_cache->*of)());
}

std::string backend(From from) {
  std::string said = from.device.describe();
  from.state.look([&](const KeyMap& map) { said = map.index().backend().device().describe(); });
  return said;
}
std::string read_only(From from) {
  const Status cause = from.fault.get();
  return cause.ok() ? "" : cause.ToString();
}

constexpr Figure kFigures[] = {
    {"breccia.backend", backend},
    {"breccia.backend.none", [](From from) { return from.no_device; }},
    {"breccia.engine", [](From) { return std::string("hash"); }},
    {"breccia.read_only", read_only},
    {"breccia.gets", [](From from) { return std::to_string(from.gets); }},
    {"breccia.writes", [](From from) { return std::to_string(from.writes); }},
    {"breccia.log.bytes", [](From from) { return std::to_string(from.log.bytes_in_use()); }},
    {"breccia.hash.keys",
     [](From from) { return of_map(from, [](const KeyMap& map) { return map.keys(); }); }},
    {"breccia.hash.slots",
     [](From from) {
       return of_map(from, [](const KeyMap& map) { return map.index().table().slot_count(); });
     }},
    {"breccia.hash.bytes",
     [](From from) {
       return of_map(from, [](const KeyMap& map) { return map.index().table().memory_bytes(); });
     }},
    {"breccia.hash.growths",
     [](From from) {
       return of_map(from, [](const KeyMap& map) { return map.index().table().growths(); });
     }},
    {"breccia.hash.log_bytes_max",
     [](From from) { return std::to_string(from.cleaner.log_bytes_max()); }},
    {"breccia.hash.cleaned_segments",
     [](From from) { return std::to_string(from.cleaner.figures().segments); }},
    {"breccia.hash.copied_bytes",
     [](From from) { return std::to_string(from.cleaner.figures().copied_bytes); }},
    {"breccia.hash.row_cache.bytes", [](From from) { return of_cache(from, &Cache::bytes); }},
    {"breccia.hash.row_cache.rows", [](From from) { return of_cache(from, &Cache::rows); }},
    {"breccia.hash.row_cache.lookups", [](From from) { return of_cache(from, &Cache::lookups); }},
    {"breccia.hash.row_cache.hits", [](From from) { return of_cache(from, &Cache::hits); }},
    {"breccia.hash.row_cache.pinned", [](From from) { return of_cache(from, &Cache::pinned); }},
    {"breccia.hash.log_read_bytes",
     [](From from) { return std::to_string(from.log_view.adopted_bytes()); }},
    {"breccia.admission.batches", [](From from) { return std::to_string(from.admission.batches); }},
};

}  // namespace

std::optional<std::string> figure_of(From from, const std::string& name) {
  std::string all;
  for (const Figure& figure : kFigures) {
    if (name == figure.name) return figure.of(from);
    if (name == "breccia.stats") all += std::string(figure.name) + ": " + figure.of(from) + "\n";
  }
  if (name != "breccia.stats") return std::nullopt;
  return all;
}

}  // namespace breccia::hash
