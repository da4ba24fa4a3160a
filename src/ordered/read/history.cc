#include "ordered/read/history.h"

#include "base/assert.h"

namespace breccia::ordered {

History::Hold::Hold(std::shared_ptr<History> history, std::uint64_t since)
    : history_(std::move(history)), since_(since) {
  const std::lock_guard lock(history_->mutex_);
  history_->holds_.insert(since_);
}

History::Hold& History::Hold::operator=(Hold&& other) noexcept {
  if (this == &other) return *this;
  release();
  history_ = std::move(other.history_);
  since_ = other.since_;
  return *this;
}

void History::Hold::keep_since(std::uint64_t since) {
  BRECCIA_ASSERT(held() && since >= since_);
  *this = Hold(history_, since);  // the new one is there before the old one goes
}

void History::Hold::release() {
  const std::shared_ptr<History> history = std::move(history_);
  if (history == nullptr) return;
  std::list<Part> dropped;  // views die after the lock is gone
  const std::lock_guard lock(history->mutex_);
  history->holds_.erase(history->holds_.find(since_));
  history->drop_unneeded(&dropped);
}

void History::add(ViewPtr view, std::uint64_t end) {
  std::list<Part> dropped;
  const std::lock_guard lock(mutex_);
  kept_.push_back({std::move(view), end});
  drop_unneeded(&dropped);
}

void History::clear() {
  std::list<Part> dropped;
  const std::lock_guard lock(mutex_);
  dropped.swap(kept_);
}

bool History::over_limit() const {
  return !kept_.empty() && kept_.back().end - kept_.front().view->flushed > bytes_max_;
}

void History::drop_unneeded(std::list<Part>* dropped) {
  const auto oldest_is_unneeded = [&] {
    return !kept_.empty() && (holds_.empty() || kept_.front().end <= *holds_.begin());
  };
  while (oldest_is_unneeded() || over_limit()) {
    dropped->splice(dropped->end(), kept_, kept_.begin());
  }
}

std::optional<std::vector<History::Part>> History::between(std::uint64_t since,
                                                           std::uint64_t end) const {
  std::vector<Part> parts;
  if (since >= end) return parts;
  const std::lock_guard lock(mutex_);
  if (kept_.empty() || kept_.front().view->flushed > since || kept_.back().end < end) return {};
  for (const Part& part : kept_) {
    if (part.end > since) parts.push_back(part);
  }
  return parts;
}

}  // namespace breccia::ordered
