#include "fabric/libfabric/endpoint.h"

#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "base/assert.h"
#include "fabric/libfabric/library.h"

namespace breccia::fabric::libfabric {

namespace {

constexpr std::size_t kQueueEntries = 4096;

Status failed(const char* what, int code) { return Status::IOError(what, words_of(code)); }

Endpoint::Posted posted(ssize_t code) {
  if (code == 0) return Endpoint::Posted::kYes;
  return code == -FI_EAGAIN ? Endpoint::Posted::kNotNow : Endpoint::Posted::kNever;
}

}  // namespace

Result<std::unique_ptr<Endpoint>> Endpoint::open(const Provider& provider, fi_info* info,
                                                 std::size_t receives, std::size_t slots) {
  std::unique_ptr<Endpoint> endpoint(new Endpoint(provider));
  BRECCIA_TRY(endpoint->make(info));
  BRECCIA_TRY(endpoint->add_receives(receives));
  BRECCIA_TRY(endpoint->add_slots(slots));
  return endpoint;
}

Status Endpoint::make(fi_info* info) {
  fid_domain* const domain = provider_.domain();
  fi_av_attr peers_wish{};
  fid_av* peers = nullptr;
  if (const int code = fi_av_open(domain, &peers_wish, &peers, nullptr)) {
    return failed("no table of addresses", code);
  }
  peers_ = Handle(peers);
  fi_cq_attr queue_wish{};
  queue_wish.size = kQueueEntries;
  queue_wish.format = FI_CQ_FORMAT_MSG;
  queue_wish.wait_obj = FI_WAIT_FD;
  fid_cq* queue = nullptr;
  if (const int code = fi_cq_open(domain, &queue_wish, &queue, nullptr)) {
    return failed("no completion queue", code);
  }
  queue_ = Handle(queue);
  fid_ep* endpoint = nullptr;
  if (const int code = fi_endpoint(domain, info, &endpoint, nullptr)) {
    return failed("no endpoint", code);
  }
  endpoint_ = Handle(endpoint);
  int code = fi_ep_bind(endpoint, peers_.id(), 0);
  if (code == 0) code = fi_ep_bind(endpoint, queue_.id(), FI_TRANSMIT | FI_RECV);
  if (code == 0) code = fi_enable(endpoint);
  if (code == 0) code = fi_control(queue_.id(), FI_GETWAIT, &bell_);
  std::size_t bytes = kAddressBytesMax;
  address_.resize(bytes);
  if (code == 0) code = fi_getname(endpoint_.id(), address_.data(), &bytes);
  if (code != 0) return failed("an endpoint does not open", code);
  address_.resize(bytes);
  return Status::OK();
}

Result<std::span<Endpoint::Slot>> Endpoint::make_slots(std::size_t count) {
  constexpr std::uint64_t kAccess = FI_SEND | FI_RECV | FI_READ | FI_WRITE;
  BRECCIA_TAKE(auto memory, Memory::make(provider_, count * kPacketBytes, kAccess));
  auto slots = std::make_unique<Slot[]>(count);
  for (std::size_t i = 0; i < count; ++i) {
    slots[i].bytes = memory->bytes().subspan(i * kPacketBytes, kPacketBytes);
    slots[i].description = memory->description();
  }
  const std::span<Slot> all(slots.get(), count);
  memory_.push_back(std::move(memory));
  slots_.push_back(std::move(slots));
  return all;
}

Status Endpoint::add_slots(std::size_t count) {
  free_.reserve(slot_count_ + count);  // giving one back needs no memory
  BRECCIA_TAKE(const std::span<Slot> slots, make_slots(count));
  for (Slot& slot : slots) free_.push_back(&slot);
  slot_count_ += count;
  return Status::OK();
}

Status Endpoint::add_receives(std::size_t count) {
  to_receive_.reserve(count);
  BRECCIA_TAKE(const std::span<Slot> slots, make_slots(count));
  for (Slot& slot : slots) receive(&slot);
  return Status::OK();
}

bool Endpoint::may_block() {
  fid* const queue = queue_.id();
  fid* queues[] = {queue};
  return fi_trywait(provider_.fabric(), queues, 1) == FI_SUCCESS;
}

Result<fi_addr_t> Endpoint::insert(const RawAddress& address) {
  const auto found = inserted_.find(address);
  if (found != inserted_.end()) {
    ++found->second.times;
    return found->second.peer;
  }
  fi_addr_t peer = FI_ADDR_UNSPEC;
  if (fi_av_insert(peers_.get(), address.data(), 1, &peer, 0, nullptr) != 1) {
    return Status::IOError("an address that the network does not take");
  }
  inserted_.emplace(address, Inserted{.peer = peer, .times = 1});
  return peer;
}

void Endpoint::remove(const RawAddress& address) {
  const auto found = inserted_.find(address);
  BRECCIA_ASSERT(found != inserted_.end() && found->second.times > 0);
  if (--found->second.times > 0) return;
  (void)fi_av_remove(peers_.get(), &found->second.peer, 1, 0);
  inserted_.erase(found);
}

Endpoint::Slot* Endpoint::take() {
  if (free_.empty()) return nullptr;
  Slot* const slot = free_.back();
  free_.pop_back();
  return slot;
}

void Endpoint::give_back(Slot* slot) {
  BRECCIA_ASSERT(free_.size() < slot_count_);
  free_.push_back(slot);
}

Endpoint::Posted Endpoint::send(Slot* slot, fi_addr_t to, std::size_t bytes) {
  slot->use = Use::kSend;
  return posted(
      fi_send(endpoint_.get(), slot->bytes.data(), bytes, slot->description, to, &slot->context));
}

Endpoint::Posted Endpoint::read(Slot* slot, fi_addr_t from, std::uint64_t key, std::uint64_t remote,
                                std::size_t bytes) {
  slot->use = Use::kRead;
  return posted(fi_read(endpoint_.get(), slot->bytes.data(), bytes, slot->description, from, remote,
                        key, &slot->context));
}

Endpoint::Posted Endpoint::write(Slot* slot, fi_addr_t to, std::uint64_t key, std::uint64_t remote,
                                 std::size_t bytes) {
  slot->use = Use::kWrite;
  const iovec here{.iov_base = slot->bytes.data(), .iov_len = bytes};
  const fi_rma_iov there{.addr = remote, .len = bytes, .key = key};
  fi_msg_rma message{};
  message.msg_iov = &here;
  message.desc = &slot->description;
  message.iov_count = 1;
  message.addr = to;
  message.rma_iov = &there;
  message.rma_iov_count = 1;
  message.context = &slot->context;
  return posted(fi_writemsg(endpoint_.get(), &message, FI_DELIVERY_COMPLETE | FI_COMPLETION));
}

/// One that the provider refuses is not received into again: that happens to endpoints that end.
void Endpoint::receive(Slot* slot) {
  slot->use = Use::kReceive;
  const ssize_t code = fi_recv(endpoint_.get(), slot->bytes.data(), slot->bytes.size(),
                               slot->description, FI_ADDR_UNSPEC, &slot->context);
  if (posted(code) == Posted::kNotNow) to_receive_.push_back(slot);
}

std::span<const Endpoint::Done> Endpoint::progress() {
  for (std::size_t left = to_receive_.size(); left > 0; --left) {
    Slot* const slot = to_receive_.back();
    to_receive_.pop_back();
    receive(slot);
  }
  std::array<fi_cq_msg_entry, kDoneMax> entries;
  const ssize_t count = fi_cq_read(queue_.get(), entries.data(), entries.size());
  if (count == -FI_EAVAIL) return std::span(done_).first(take_error(&done_[0]) ? 1 : 0);
  const std::size_t got = count > 0 ? static_cast<std::size_t>(count) : 0;
  for (std::size_t i = 0; i < got; ++i) {
    done_[i] = {
        .slot = static_cast<Slot*>(entries[i].op_context), .bytes = entries[i].len, .is_ok = true};
  }
  return std::span(done_).first(got);
}

bool Endpoint::take_error(Done* done) {
  fi_cq_err_entry entry{};
  if (fi_cq_readerr(queue_.get(), &entry, 0) != 1 || entry.op_context == nullptr) return false;
  *done = {.slot = static_cast<Slot*>(entry.op_context), .bytes = 0, .is_ok = false};
  return true;
}

}  // namespace breccia::fabric::libfabric
