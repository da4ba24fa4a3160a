#include "slab/engine/index.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/memory.h"
#include "base/secret.h"

namespace breccia::slab {

namespace {

/// Requests of one call of the backend: some 100 MiB of columns.
constexpr std::uint64_t kRequestsAtOnce = 4 << 20;

std::uint64_t bytes_or_all(std::uint64_t bytes) { return bytes == 0 ? ~std::uint64_t{0} : bytes; }

std::uint64_t word_of(const Entry* entry) { return reinterpret_cast<std::uintptr_t>(entry); }
Entry* entry_of(std::uint64_t word) { return reinterpret_cast<Entry*>(word); }

}  // namespace

Result<std::unique_ptr<Index>> Index::make(Ground ground) {
  std::unique_ptr<Index> made(new Index(std::move(ground)));
  BRECCIA_TRY(made->open(made->ground_.device));
  return made;
}

Status Index::open(const exec::DevicePtr& device) {
  BRECCIA_TAKE(auto backend, make_backend(device, {.name = "slab"}));
  const std::uint64_t host_bytes = bytes_or_all(ground_.host_bytes_max);
  const bool is_host = device->is_host();
  BRECCIA_TAKE(
      auto table,
      backend->make_table(
          {.keys_expected = ground_.keys_expected,
           .bytes_max = is_host ? host_bytes : bytes_or_all(ground_.device_bytes_max),
           .host_bytes_max = is_host ? 0 : host_bytes,
           .secret = {.add = base::draw_secret_word(), .factor = base::draw_secret_word() | 3}}));
  table_ = std::move(table);
  backend_ = std::move(backend);
  return Status::OK();
}

/// A lost device may call itself full.
Status Index::run(const hash::RequestsRef& requests) const {
  Status status = backend_->run(*table_, requests);
  if (!status.IsMemoryLimit() || !backend_->device().is_lost()) return status;
  return backend_->device().lost();
}

Status Index::find(std::span<const std::uint64_t> number, Entry** entry) const {
  std::vector<hash::Code> code(std::min<std::uint64_t>(number.size(), kRequestsAtOnce));
  static_assert(sizeof(Entry*) == sizeof(std::uint64_t));
  std::vector<std::uint64_t> word(code.size());
  for (std::uint64_t begin = 0; begin < number.size(); begin += kRequestsAtOnce) {
    const std::uint64_t count = std::min(number.size() - begin, kRequestsAtOnce);
    BRECCIA_TRY(run({.all = hash::Operation::kFind,
                     .key = number.data() + begin,
                     .found = word.data(),
                     .code = code.data(),
                     .count = count}));
    std::transform(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(count), entry + begin,
                   entry_of);
  }
  return Status::OK();
}

Status Index::change(const Lists& changes, std::vector<Entry*>* before) {
  const std::uint64_t n = changes.count();
  before->assign(n, nullptr);
  std::vector<hash::Code> code(n);
  std::vector<std::uint64_t> word(n), found(n);
  std::vector<hash::Operation> operation(n);
  for (std::uint64_t i = 0; i < n; ++i) {
    word[i] = word_of(changes.entry[i]);
    operation[i] =
        changes.entry[i] == nullptr ? hash::Operation::kDelete : hash::Operation::kUpsert;
  }
  for (std::uint64_t begin = 0; begin < n; begin += kRequestsAtOnce) {
    const std::uint64_t count = std::min(n - begin, kRequestsAtOnce);
    Status status = run({.operation = operation.data() + begin,
                         .key = changes.number.data() + begin,
                         .value = word.data() + begin,
                         .found = found.data() + begin,
                         .code = code.data() + begin,
                         .count = count});
    for (std::uint64_t i = begin; status.ok() && i < begin + count; ++i) {
      (*before)[i] = entry_of(found[i]);
      if (code[i] == hash::Code::kNoRoom) {
        status = Status::MemoryLimit("the index finds no room to grow");
      }
    }
    if (status.ok()) continue;
    if (!status.IsMemoryLimit()) return status;
    // What comes behind this piece was not tried: nothing of it is to be undone.
    const bool was_tried = std::any_of(code.begin() + static_cast<std::ptrdiff_t>(begin),
                                       code.begin() + static_cast<std::ptrdiff_t>(begin + count),
                                       [](hash::Code one) { return one == hash::Code::kNoRoom; });
    const std::uint64_t done = was_tried ? begin + count : begin;
    for (std::uint64_t i = begin; was_tried && i < done; ++i) (*before)[i] = entry_of(found[i]);
    BRECCIA_TRY(undo(changes, std::span(*before).first(done), std::span(code).first(done)));
    return status;
  }
  return Status::OK();
}

/// What was put where nothing was goes first, so that what was there finds its place again.
Status Index::undo(const Lists& changes, std::span<const Entry* const> before,
                   std::span<const hash::Code> code) {
  for (const bool takes_out : {true, false}) {
    std::vector<std::uint64_t> number, word;
    for (std::size_t i = 0; i < before.size(); ++i) {
      const bool came_in = changes.entry[i] != nullptr && code[i] == hash::Code::kAbsent;
      if (code[i] == hash::Code::kNoRoom || (takes_out ? !came_in : before[i] == nullptr)) continue;
      number.push_back(changes.number[i]);
      word.push_back(word_of(before[i]));
    }
    std::vector<hash::Code> undone(number.size());
    const Status status =
        run({.all = takes_out ? hash::Operation::kDelete : hash::Operation::kUpsert,
             .key = number.data(),
             .value = word.data(),
             .code = undone.data(),
             .count = number.size()});
    if (!status.ok()) return Status::IOError("a batch could not be undone", status.ToString());
    for (const hash::Code one : undone) {
      if (one == hash::Code::kNoRoom) return Status::IOError("a batch could not be undone");
    }
  }
  return Status::OK();
}

Status Index::refill(const Lists& all, const Status& why) {
  BRECCIA_ASSERT(!is_on_host());
  if (ground_.left != nullptr) ground_.left(why);
  BRECCIA_TAKE(const exec::DevicePtr host, exec::open_device(exec::DeviceKind::kHost, 0));
  BRECCIA_TRY(open(host));
  std::vector<Entry*> before;
  return change(all, &before);
}

}  // namespace breccia::slab
