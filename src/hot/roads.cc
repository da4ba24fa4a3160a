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
  settle_here();
  let(std::make_unique<const Rule>(Rule{before, before, next}));
  settle_here();
  let(std::make_unique<const Rule>(Rule{next, before, next}));
  settle_here();
  evict(*next);
  let(std::make_unique<const Rule>(Rule{next, next, nullptr}));
  ++changes_;
}

void Roads::settle() {
  const std::lock_guard one_at_a_time(change_);
  settle_here();
}

ModelPtr Roads::model() const {
  const std::lock_guard lock(mutex_);
  return owned_->lookups;
}

/// From here on.
void Roads::let(std::unique_ptr<const Rule> rule) {
  BRECCIA_ASSERT(before_ == nullptr);
  const std::lock_guard lock(mutex_);
  now_.store(rule.get());
  owned_.swap(rule);
  before_ = std::move(rule);
}

/// Returns when all requests have ended that go by the rule before.
void Roads::settle_here() {
  if (before_ == nullptr) return;
  requests_.wait();
  before_.reset();
}

}  // namespace breccia::hot
