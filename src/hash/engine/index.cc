#include "hash/engine/index.h"

#include <algorithm>

#include "base/assert.h"
#include "base/secret.h"

namespace breccia::hash {

namespace {

/// Requests of one call of the backend: some 100 MiB of columns.
constexpr std::uint64_t kRequestsAtOnce = 4 << 20;
constexpr std::uint64_t kSlotsMax = std::uint64_t{1} << 48;

Secret draw_secret() {
  // Factors are odd, and none is 1.
  return {.add = base::draw_secret_word(),
          .factor = base::draw_secret_word() | 3,
          .second_factor = base::draw_secret_word() | 3};
}

}  // namespace

Result<std::unique_ptr<Index>> Index::make(std::shared_ptr<Backend> backend, std::uint64_t keys) {
  // Five eighths full when they are all there.
  BRECCIA_TAKE(TablePtr table,
               backend->make_table(
                   {.slots_min = keys / 5 * 8, .slots_max = kSlotsMax, .secret = draw_secret()}));
  return std::unique_ptr<Index>(new Index(std::move(backend), std::move(table)));
}

Status Index::find(const std::uint64_t* number, std::uint64_t* payload, std::uint64_t n) const {
  return run(Operation::kFind, number, nullptr, payload, n, nullptr);
}

Status Index::raise(const Entries& entries, std::vector<std::uint64_t>* before) {
  if (before != nullptr) before->resize(entries.count());
  std::uint64_t absent = 0;
  const Status status = run(Operation::kRaise, entries.number.data(), entries.payload.data(),
                            before == nullptr ? nullptr : before->data(), entries.count(), &absent);
  count_ += absent;
  return status;
}

Status Index::raise(RowRecords* records, std::uint64_t first_payload) {
  std::uint64_t absent = 0;
  const Status status = backend_->raise_records(*table_, *records, first_payload, &absent);
  count_ += absent;
  return status;
}

Status Index::drop(RowRecords* records) {
  std::uint64_t gone = 0;
  BRECCIA_TRY(backend_->drop_records(*table_, *records, &gone));
  BRECCIA_ASSERT(gone <= count_);
  count_ -= gone;
  return Status::OK();
}

Status Index::drop(const Entries& entries) {
  std::vector<std::uint64_t> before(entries.count());
  const Status status = run(Operation::kDrop, entries.number.data(), entries.payload.data(),
                            before.data(), entries.count(), nullptr);
  BRECCIA_TRY(status);
  std::uint64_t gone = 0;
  for (std::uint64_t i = 0; i < entries.count(); ++i) gone += before[i] == entries.payload[i];
  BRECCIA_ASSERT(gone <= count_);
  count_ -= gone;
  return Status::OK();
}

/// *absent: how many were not there; null: nobody asks.
Status Index::run(Operation operation, const std::uint64_t* number, const std::uint64_t* payload,
                  std::uint64_t* found, std::uint64_t n, std::uint64_t* absent) const {
  std::vector<Code> code(std::min(n, kRequestsAtOnce));
  for (std::uint64_t begin = 0; begin < n; begin += kRequestsAtOnce) {
    const std::uint64_t count = std::min(n - begin, kRequestsAtOnce);
    BRECCIA_TRY(backend_->run(*table_, {.all = operation,
                                        .key = number + begin,
                                        .value = payload == nullptr ? nullptr : payload + begin,
                                        .found = found == nullptr ? nullptr : found + begin,
                                        .code = code.data(),
                                        .count = count}));
    const auto has_code = [&](Code one) {
      return static_cast<std::uint64_t>(std::count(code.begin(), code.begin() + count, one));
    };
    if (has_code(Code::kNoRoom) > 0) return Status::MemoryLimit("the index finds no room to grow");
    if (absent != nullptr) *absent += has_code(Code::kAbsent);
  }
  return Status::OK();
}

}  // namespace breccia::hash
