#include "exec/device.h"

#include <algorithm>
#include <map>

#include "base/assert.h"
#include "base/memory.h"
#include "exec/host/host_device.h"

namespace breccia::exec {

// ---- tenants -----------------------------------------------------------------------------------

void Tenant::answer(TenantAnswers answers) {
  const std::lock_guard lock(mutex_);
  answers_ = std::move(answers);
  listens_ = answers_.lost != nullptr;
  const Status why = device_->lost();
  if (!why.ok()) tell_lost(why);
}

void Tenant::ask(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (answers_.give) answers_.give(bytes);
}

// Who tells of a loss may have what an answer under way waits for.
void Tenant::tell_lost(const Status& why) {
  if (!listens_) return;
  const std::lock_guard lock(mutex_);
  const auto lost = std::exchange(answers_.lost, nullptr);
  if (lost) lost(why);
}

Result<TenantPtr> Device::admit(TenantOptions options) {
  BRECCIA_TRY(lost());
  if (options.bytes_max == 0) options.bytes_max = memory_limit_;
  TenantPtr tenant = make_tenant(std::move(options));
  const std::lock_guard lock(mutex_);
  std::erase_if(tenants_, [](const auto& one) { return one.expired(); });
  tenants_.push_back(tenant);
  return tenant;
}

/// Those that are alive, by what it costs them to give.
std::vector<TenantPtr> Device::tenants() const {
  std::vector<TenantPtr> alive;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& one : tenants_) {
      if (TenantPtr tenant = one.lock()) alive.push_back(std::move(tenant));
    }
  }
  std::stable_sort(alive.begin(), alive.end(),
                   [](const auto& a, const auto& b) { return a->cost() < b->cost(); });
  return alive;
}

// ---- memory ------------------------------------------------------------------------------------

bool Device::book(std::uint64_t bytes) {
  std::uint64_t held = held_.load(std::memory_order_relaxed);
  while (bytes <= memory_limit_ && held <= memory_limit_ - bytes) {
    if (held_.compare_exchange_weak(held, held + bytes, std::memory_order_relaxed)) return true;
  }
  return false;
}

bool Device::claim(std::uint64_t bytes, const Pool& asking) {
  if (in_line_.load() == 0 && book(bytes)) return true;
  if (bytes > memory_limit_) return false;
  ++in_line_;
  {
    std::unique_lock lock(line_mutex_);
    const std::uint64_t place = line_end_++;
    line_moves_.wait(lock, [&] { return line_begin_ == place; });
  }
  const bool booked = base::or_memory_limit([&] {
                        return ask_for(bytes, asking) ? Status::OK() : Status::MemoryLimit();
                      }).ok();
  {
    const std::lock_guard lock(line_mutex_);
    BRECCIA_ASSERT(line_begin_ < line_end_);
    ++line_begin_;
  }
  --in_line_;
  line_moves_.notify_all();
  return booked;
}

/// The asking of whoever has the turn. It waits for nobody in the line.
bool Device::ask_for(std::uint64_t bytes, const Pool& asking) {
  if (book(bytes)) return true;
  const std::vector<TenantPtr> all = tenants();
  for (const TenantPtr& tenant : all) tenant->pool().trim();
  for (const TenantPtr& tenant : all) {
    if (book(bytes)) return true;
    // Who asks gets on by itself when it is told that there is no memory.
    if (&tenant->pool() == &asking) continue;
    tenant->ask(bytes);
    tenant->pool().trim();
  }
  return book(bytes);
}

void Device::unclaim(std::uint64_t bytes) {
  const std::uint64_t before = held_.fetch_sub(bytes, std::memory_order_relaxed);
  BRECCIA_ASSERT(before >= bytes);
}

// ---- loss --------------------------------------------------------------------------------------

void Device::lose(const Status& why) {
  BRECCIA_ASSERT(!why.ok());
  {
    const std::lock_guard lock(mutex_);
    if (!lost_.ok()) return;
    lost_ = why;
    is_lost_.store(true, std::memory_order_release);
  }
  for (const TenantPtr& tenant : tenants()) tenant->tell_lost(why);
}

Status Device::lost() const {
  if (!is_lost()) return Status::OK();
  const std::lock_guard lock(mutex_);
  return lost_;
}

// ---- which devices there are -------------------------------------------------------------------

namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::pair<DeviceKind, int>, std::weak_ptr<Device>> devices;
  std::map<int, std::function<DevicePtr()>> installed;
};

/// Never destroyed: devices may be opened and left while statics end.
Registry& registry() {
  static auto* const one = new Registry;
  return *one;
}

Result<DevicePtr> make_device(const Registry& all, DeviceKind kind, int number) {
  if (kind == DeviceKind::kHost) return host::make_host_device();
  BRECCIA_ASSERT(kind == DeviceKind::kCuda);
  const auto installed = all.installed.find(number);
  return installed == all.installed.end() ? make_cuda_device(number) : installed->second();
}

}  // namespace

Result<DevicePtr> open_device(DeviceKind kind, int number) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::weak_ptr<Device>& known = all.devices[{kind, number}];
  if (DevicePtr device = known.lock()) {
    BRECCIA_TRY(device->lost());
    return device;
  }
  BRECCIA_TAKE(DevicePtr device, make_device(all, kind, number));
  known = device;
  return device;
}

InstalledDevice::InstalledDevice(int number, std::function<DevicePtr()> make) : number_(number) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const bool is_new = all.installed.emplace(number, std::move(make)).second;
  BRECCIA_ASSERT(is_new);
}

InstalledDevice::~InstalledDevice() {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.installed.erase(number_);
  all.devices.erase({DeviceKind::kCuda, number_});
}

#if !defined(BRECCIA_HAVE_CUDA)
Result<DevicePtr> make_cuda_device(int) {
  return Status::NotSupported("this build of Breccia has no CUDA backend");
}
#endif

}  // namespace breccia::exec
