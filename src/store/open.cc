#include <breccia/store.h>

#include "base/memory.h"
#include "ordered/engine.h"

/// The choice of engine: by the type of the options.

namespace breccia {

Status Store::Open(const Options& options, const std::string& path, std::unique_ptr<Store>* store) {
  return base::or_memory_limit([&] {
    std::unique_ptr<ordered::Engine> engine;
    BRECCIA_TRY(ordered::Engine::open(options, path, &engine));
    engine->listeners().open(engine->below().db());
    *store = std::move(engine);
    return Status::OK();
  });
}

}  // namespace breccia
