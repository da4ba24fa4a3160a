#include "ordered/state.h"

#include <algorithm>
#include <utility>

#include "base/memory.h"
#include "base/thread_slot.h"
#include "record/entry_columns.h"
#include "wal/format.h"

namespace breccia::ordered {

namespace {

/// Payloads with the device whose memory they lie in.
struct OnDevice {
  explicit OnDevice(exec::DevicePtr owner)
      : device(std::move(owner)), payloads(device->host_memory()) {}
  const exec::DevicePtr device;
  Payloads payloads;
};

/// Room for `count` payloads; null: out of memory.
std::shared_ptr<Payloads> make_payloads(const runs::Backend& backend, std::uint64_t count) {
  const auto owner = std::make_shared<OnDevice>(backend.tenant().device_ptr());
  if (!owner->payloads.reserve(count)) return nullptr;
  owner->payloads.extend(count);
  return {owner, &owner->payloads};
}

Status no_memory_for_payloads() { return Status::MemoryLimit("no memory for a run's order"); }

}  // namespace

ViewPtr ViewState::take(Place* place, std::uint64_t* version, ViewPtr* gone) const {
  *version = version_.load(std::memory_order_acquire);
  if (place->version == *version) return place->view;
  // Said before the view is read: whoever replaces it later sees that.
  place->has_view.store(true, std::memory_order_release);
  ViewPtr view;
  {
    const std::lock_guard lock(mutex_);
    view = view_;
    *version = version_.load(std::memory_order_relaxed);
  }
  const View* const current = view.get();
  ViewPtr own;  // by a count that only this place has
  base::as_memory_allows([&] { own = {std::make_shared<ViewPtr>(view), current}; });
  if (own == nullptr) return view;
  *gone = std::exchange(place->view, std::move(own));
  place->version = *version;
  return place->view;
}

Pin ViewState::pin() const {
  Place& place = places_[base::thread_slot() % kPlaces];
  while (true) {
    ViewPtr view;  // what dies here does so after the lock is gone
    ViewPtr gone;
    const std::lock_guard lock(place.mutex);
    std::uint64_t version = kNoVersion;
    view = take(&place, &version, &gone);
    const std::uint64_t visible = visible_.load(std::memory_order_acquire);  // pairs with show()
    // Who reads what publish() showed reads the version that goes with it, too.
    if (version_.load(std::memory_order_acquire) == version) return {std::move(view), visible};
  }
}

void ViewState::publish(ViewPtr view, std::uint64_t visible) {
  {
    const std::lock_guard lock(mutex_);
    BRECCIA_ASSERT(visible >= visible_.load(std::memory_order_relaxed));
    version_.fetch_add(1, std::memory_order_release);
    view_.swap(view);  // the old view dies after the lock is gone
    show(visible);
  }
  empty_places();
}

/// Lets go of views that were replaced, where nobody may pin for long.
void ViewState::empty_places() {
  for (Place& place : places_) {
    if (!place.has_view.load(std::memory_order_acquire)) continue;
    ViewPtr gone;
    const std::lock_guard lock(place.mutex);
    if (place.version == version_.load(std::memory_order_relaxed)) continue;
    gone = std::move(place.view);
    place.version = kNoVersion;
    place.has_view.store(false, std::memory_order_relaxed);
  }
}

std::shared_ptr<exec::HostMemory> batch_memory(const Backends& backends) {
  const exec::DevicePtr device = backends.current()->tenant().device_ptr();
  return {device, &device->host_memory()};
}

Result<Order> read_order(runs::Backend& backend, const runs::RunPtr& run) {
  Order order;
  if (run->host_view() != nullptr) {
    order.columns = run;
    return order;
  }
  const auto payloads = make_payloads(backend, run->count());
  if (payloads == nullptr) return no_memory_for_payloads();
  BRECCIA_TRY(backend.read_payloads(*run, payloads->data()));
  order.payloads = payloads;
  return order;
}

Result<Order> copy_order(const runs::Backend& backend, const std::uint64_t* payloads,
                         std::uint64_t count) {
  const auto copy = make_payloads(backend, count);
  if (copy == nullptr) return no_memory_for_payloads();
  std::copy_n(payloads, count, copy->data());
  Order order;
  order.payloads = copy;
  return order;
}

std::vector<std::uint64_t> payloads_of(const MemRun& run, const wal::SegmentTable& table) {
  std::uint64_t count = 0;
  for (const Order& order : run.orders) count += order.count;
  std::vector<std::uint64_t> payloads;
  payloads.reserve(count);
  for (const Order& order : run.orders) {
    if (const runs::RunRef* const columns = order.host_view()) {
      payloads.insert(payloads.end(), columns->payload, columns->payload + order.count);
    } else if (order.payloads != nullptr) {
      payloads.insert(payloads.end(), order.payloads->data(), order.payloads->data() + order.count);
    } else {
      for (std::uint64_t i = 0; i < order.count; ++i) {
        payloads.push_back(order.payload_at(i, table));
      }
    }
  }
  return payloads;
}

Result<MemRunPtr> rebuild_on_host(const MemRun& run, const wal::SegmentTable& table,
                                  runs::Backend& host) {
  // In the log's order: the device's was worked out by what is lost now, and is not believed.
  std::vector<std::uint64_t> payloads = payloads_of(run, table);
  std::sort(payloads.begin(), payloads.end());
  if (std::adjacent_find(payloads.begin(), payloads.end()) != payloads.end()) {
    return Status::Corruption("a run of a lost device names a record twice");
  }
  record::EntryColumns columns(host.host_memory());
  for (const std::uint64_t payload : payloads) {
    if (!columns.append(table.at(record::position_of(payload)), payload)) {
      return Status::MemoryLimit("no memory to rebuild a run on the host");
    }
  }
  auto rebuilt = std::make_shared<MemRun>();
  BRECCIA_TAKE(rebuilt->run,
               host.build_run(columns.ref(/*sorted=*/false), /*descriptors=*/nullptr));
  rebuilt->begin = run.begin;
  rebuilt->end = run.end;
  rebuilt->searches = run.searches;
  rebuilt->has_merges = run.has_merges;
  rebuilt->set_order({rebuilt->run});
  return MemRunPtr(std::move(rebuilt));
}

Result<std::vector<MemRunPtr>> runs_on_host(const std::vector<MemRunPtr>& runs,
                                            const wal::SegmentTable& table, runs::Backend& host) {
  std::vector<MemRunPtr> on_host;
  for (const MemRunPtr& run : runs) {
    if (run->run->host_view() != nullptr) {
      on_host.push_back(run);
    } else {
      BRECCIA_TAKE(auto rebuilt, rebuild_on_host(*run, table, host));
      on_host.push_back(std::move(rebuilt));
    }
  }
  return on_host;
}

Result<ViewPtr> view_on_host(const View& view, runs::Backend& host) {
  auto converted = std::make_shared<View>(view);
  for (const FamilyViewPtr& family : view.families) {
    BRECCIA_TAKE(auto runs, runs_on_host(family->runs, *view.table, host));
    auto changed = std::make_shared<FamilyView>(*family);
    changed->set_runs(std::move(runs));
    changed->forget_clean(view.flushed);  // the tree has it, too
    converted->set_family(std::move(changed));
  }
  return ViewPtr(std::move(converted));
}

}  // namespace breccia::ordered
