#include "hot/roads.h"

#include <utility>

#include "base/assert.h"

namespace breccia::hot {

Roads::Roads() : now_(nullptr), owned_(std::make_unique<const Rule>()) { now_ = owned_.get(); }
Roads::~Roads() = default;

void Roads::change(ModelPtr next, const std::function<void(const Model& next)>& evict) {
  BRECCIA_ASSERT(next != nullptr);
  const std::lock_guard one_at_a_time(change_);
  const ModelPtr before = model();
  let(std::make_unique<const Rule>(Rule{before, before, next}));
  let(std::make_unique<const Rule>(Rule{next, before, next}));
  evict(*next);
  let(std::make_unique<const Rule>(Rule{next, next, nullptr}));
  ++changes_;
}

ModelPtr Roads::model() const {
  const std::lock_guard lock(mutex_);
  return owned_->lookups;
}

/// From here on; returns when all requests have ended that began before.
void Roads::let(std::unique_ptr<const Rule> rule) {
  {
    const std::lock_guard lock(mutex_);
    now_.store(rule.get());
    owned_.swap(rule);
  }
  requests_.wait();
}

}  // namespace breccia::hot
