#include "fabric/sim/net.h"

#include <algorithm>
#include <exception>

#include "base/assert.h"
#include "fabric/sim/sim_port.h"

namespace breccia::fabric::sim {

namespace {

constexpr std::size_t kStackBytes = 512 << 10;
constexpr TimeUs kSlowTimes = 100;

}  // namespace

struct Net::Thread {
  Thread(Net* owner, Node of, ThreadId number, std::function<void()> runs)
      : net(owner),
        node(of),
        id(number),
        body(std::move(runs)),
        fiber(kStackBytes, &Net::run_thread, this) {}

  Net* const net;
  const Node node;
  const ThreadId id;
  std::function<void()> body;
  base::Fiber fiber;
  bool is_ready = false;
  bool has_ended = false;
  std::uint64_t waits = 0;  // how often it has
};

Net::Net(std::uint64_t seed, const Weather& weather) : random_(seed), weather_(weather) {}

Net::~Net() {
  BRECCIA_ASSERT(running_ == nullptr);
  for (Node node = 0; node < nodes_; ++node) kill(node);
  paused_.clear();
  while (!threads_.empty()) BRECCIA_ASSERT(step());
  events_.clear();
  BRECCIA_ASSERT(ports_.empty());
}

Net::Node Net::add_node() { return nodes_++; }

std::unique_ptr<Port> Net::open(Node node) {
  BRECCIA_ASSERT(node < nodes_ && !is_killed(node));
  return std::make_unique<SimPort>(this, node, next_port_++);
}

void Net::start(Node node, std::function<void()> body) {
  BRECCIA_ASSERT(node < nodes_ && !is_killed(node));
  const ThreadId id = next_thread_++;
  threads_.emplace(id, std::make_unique<Thread>(this, node, id, std::move(body)));
  wake(id);
}

void Net::run() {
  BRECCIA_ASSERT(running_ == nullptr);
  const auto is_waited = [this](const auto& one) { return !serving_.contains(one.second->node); };
  while (std::any_of(threads_.begin(), threads_.end(), is_waited)) {
    // Every wait has an end, so somebody goes on, or nodes are paused that nobody lets go on.
    BRECCIA_ASSERT(step());
  }
}

/// Lets a thread go on that can, or time. False: there is nothing to come.
bool Net::step() {
  std::vector<Thread*> can;
  std::copy_if(ready_.begin(), ready_.end(), std::back_inserter(can), [this](const Thread* one) {
    return !paused_.contains(one->node) || is_killed(one->node);
  });
  if (!can.empty()) {
    go_on_with(can[random_.below(can.size())]);
    return true;
  }
  if (events_.empty()) return false;
  const auto event = events_.extract(events_.begin());
  now_us_ = std::max(now_us_, event.key().first);
  event.mapped()();
  return true;
}

void Net::go_on_with(Thread* thread) {
  ready_.erase(std::find(ready_.begin(), ready_.end(), thread));
  thread->is_ready = false;
  ++now_us_;
  running_ = thread;
  main_.switch_to(thread->fiber);
  running_ = nullptr;
  if (thread->has_ended) threads_.erase(thread->id);
}

void Net::run_thread(void* of) {
  auto* const thread = static_cast<Thread*>(of);
  Net* const net = thread->net;
  try {
    if (!net->is_killed(thread->node)) thread->body();
  } catch (const Killed&) {
    BRECCIA_ASSERT(net->is_killed(thread->node));
  }
  thread->body = nullptr;
  thread->has_ended = true;
  thread->fiber.switch_to(net->main_);
}

void Net::wait(TimeUs until) {
  Thread* const self = running_;
  BRECCIA_ASSERT(self != nullptr);             // called by a thread of a node
  if (std::uncaught_exceptions() > 0) return;  // it ends
  if (!is_killed(self->node)) {
    const std::uint64_t number = ++self->waits;
    at(until, [this, id = self->id, number] {
      const auto found = threads_.find(id);
      if (found != threads_.end() && found->second->waits == number) wake(id);
    });
    self->fiber.switch_to(main_);
    ++self->waits;
  }
  if (is_killed(self->node)) throw Killed();
}

void Net::wake(ThreadId id) {
  const auto found = threads_.find(id);
  if (found == threads_.end()) return;
  Thread* const thread = found->second.get();
  if (thread->is_ready || thread == running_) return;
  thread->is_ready = true;
  ready_.push_back(thread);
}

Net::ThreadId Net::running() const {
  BRECCIA_ASSERT(running_ != nullptr);
  return running_->id;
}

void Net::at(TimeUs time, std::function<void()> happens) {
  events_.emplace(std::pair(std::max(time, now_us_), random_.next()), std::move(happens));
}

TimeUs Net::draw_delay() {
  const TimeUs delay = 1 + random_.below(weather_.delay_us_max);
  return draw(weather_.slow_one_in) ? delay * (1 + random_.below(kSlowTimes)) : delay;
}

void Net::sleep(TimeUs us) {
  const TimeUs until = now_us_ + us;
  while (now_us_ < until && std::uncaught_exceptions() == 0) wait(until);
}

void Net::kill(Node node) {
  if (!killed_.insert(node).second) return;
  for (const auto& [id, port] : ports_) port->note_killed(node);
  for (const auto& [id, thread] : threads_) {
    if (thread->node == node) wake(id);
  }
}

/// A message left the node, or came there, or a part of an access did.
void Net::note_event(Node node) {
  const auto found = doomed_.find(node);
  if (found == doomed_.end() || --found->second > 0) return;
  doomed_.erase(found);
  kill(node);
}

void Net::part(Node one, Node other, TimeUs later_us) {
  if (random_.one_in(2)) std::swap(one, other);
  for (const auto& [id, port] : ports_) {
    port->note_parted(one, other, now_us_);
    port->note_parted(other, one, now_us_ + random_.below(later_us));
  }
}

SimPort* Net::port(PortId id) const {
  const auto found = ports_.find(id);
  return found == ports_.end() ? nullptr : found->second;
}

}  // namespace breccia::fabric::sim
