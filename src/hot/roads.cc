#include "hot/roads.h"

#include <utility>

#include "base/assert.h"

namespace breccia::hot {

Roads::Roads(std::function<void(const Model&)> evict)
    : evict_(std::move(evict)), now_(nullptr), owned_(std::make_unique<const Rule>()) {
  now_ = owned_.get();
}
Roads::~Roads() = default;

void Roads::change(ModelPtr next) {
  BRECCIA_ASSERT(next != nullptr);
  const std::lock_guard one_at_a_time(change_);
  settle_here();
  const ModelPtr before = model();
  let(std::make_unique<const Rule>(Rule{before, before, next}));
  let(std::make_unique<const Rule>(Rule{next, before, next}));
  ++changes_;
}

void Roads::settle() {
  const std::lock_guard one_at_a_time(change_);
  settle_here();
}

void Roads::settle_here() {
  if (owned_->writes_too == nullptr) return;
  const ModelPtr next = model();
  wait();
  evict_(*next);
  let(std::make_unique<const Rule>(Rule{next, next, nullptr}));
  wait();  // now, and not when the next change could be
}

ModelPtr Roads::model() const {
  const std::lock_guard lock(mutex_);
  return owned_->lookups;
}

/// From here on, when all requests have ended that go by the rule before this one.
void Roads::let(std::unique_ptr<const Rule> rule) {
  wait();
  const std::lock_guard lock(mutex_);
  now_.store(rule.get());
  owned_.swap(rule);
  before_ = std::move(rule);
}

/// Returns when nobody goes by the rule before any more.
void Roads::wait() {
  if (before_ == nullptr) return;
  requests_.wait();
  before_.reset();
}

}  // namespace breccia::hot
