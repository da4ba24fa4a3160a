#include "tree/audience.h"

#include <charconv>
#include <string_view>

#include "base/assert.h"
#include "base/memory.h"
#include "tree/install_gate.h"
#include "tree/layout.h"

namespace breccia::tree {

namespace {

thread_local KeptEvents* kept = nullptr;  // the innermost of this thread

}  // namespace

std::uint64_t table_number(const std::string& path) {
  if (!path.ends_with(".sst")) return 0;
  const std::string_view name = std::string_view(path).substr(path.rfind('/') + 1);
  std::uint64_t number = 0;
  (void)std::from_chars(name.data(), name.data() + name.size(), number);
  return number;
}

// ---- breccia's own files -----------------------------------------------------------------------

void OwnFiles::add(const std::string& path) {
  const std::uint64_t number = table_number(path);
  const std::lock_guard lock(mutex_);
  numbers_.insert(number);
}

void OwnFiles::remove(const std::string& path) {
  const std::uint64_t number = table_number(path);
  const std::lock_guard lock(mutex_);
  numbers_.erase(number);
}

bool OwnFiles::contains(const std::string& path) const {
  if (is_own_staged(path)) return true;
  const std::uint64_t number = table_number(path);
  if (number == 0) return false;
  const std::lock_guard lock(mutex_);
  return numbers_.contains(number);
}

// ---- the audience ------------------------------------------------------------------------------

void Audience::open(rocksdb::DB* shown) {
  BRECCIA_ASSERT(shown != nullptr && !is_open());
  shown_.store(shown);
  if (users_.empty()) return;
  backlog_ = teller_.posted();
  teller_.start();
  is_open_.store(true);
}

void Audience::close() {
  teller_.stop();
  closed_.store(true);
  std::unique_lock lock(mutex_);
  left_.wait(lock, [this] { return inside_.load() == 0; });
}

bool Audience::enter() {
  inside_.fetch_add(1);
  if (!closed_.load()) return true;
  leave();
  return false;
}

void Audience::wait_for_backlog() {
  BRECCIA_ASSERT(is_open());
  if (!is_up_to_date_.load() && teller_.wait(backlog_)) is_up_to_date_.store(true);
}

void Audience::leave() {
  if (inside_.fetch_sub(1) != 1 || !closed_.load()) return;
  const std::lock_guard lock(mutex_);
  left_.notify_all();
}

bool Audience::may_tell_here() const {
  return is_open() && kept == nullptr && !InstallGate::is_installing();
}

// Nobody depends on an event: without memory for it nobody hears of it. Who tells of one may be
// RocksDB, whose code expects no exception, or on its way out of one.
void Audience::tell_later(Event event) {
  if (kept == nullptr) return post(std::move(event));
  base::as_memory_allows([&] { kept->events_.emplace_back(this, std::move(event)); });
}

void Audience::post(Event event) {
  base::as_memory_allows([&] { teller_.post([this, told = std::move(event)] { tell(told); }); });
}

// ---- kept events -------------------------------------------------------------------------------

KeptEvents::KeptEvents(Then then) : then_(then), outer_(kept) { kept = this; }

KeptEvents::~KeptEvents() {
  BRECCIA_ASSERT(kept == this);
  kept = outer_;
  for (auto& [audience, event] : events_) {
    if (outer_ != nullptr) {
      audience->tell_later(std::move(event));  // kept is the outer one by now
    } else if (then_ == Then::kPost) {
      audience->post(std::move(event));
    } else {
      audience->tell(event);
    }
  }
}

}  // namespace breccia::tree
