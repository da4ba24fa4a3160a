#include <breccia/batch.h>

#include "batch/requests.h"

namespace breccia {

Batch::Batch() : requests_(std::make_unique<batch::Requests>(exec::shared_plain_host_memory())) {}
Batch::Batch(std::unique_ptr<batch::Requests> requests) : requests_(std::move(requests)) {}
Batch::~Batch() = default;
Batch::Batch(Batch&&) noexcept = default;
Batch& Batch::operator=(Batch&&) noexcept = default;

Status Batch::Put(const Slice& key, const Slice& value) {
  return requests_->add_write(wal::Op::kPut, key, value);
}
Status Batch::Delete(const Slice& key) {
  return requests_->add_write(wal::Op::kDelete, key, Slice());
}
Status Batch::Get(const Slice& key) { return requests_->add_read(key); }

std::size_t Batch::writes() const { return requests_->write_count(); }
std::size_t Batch::reads() const { return requests_->read_count(); }
std::uint64_t Batch::bytes() const { return requests_->record_bytes(); }

Status::Code Batch::code(std::size_t i) const {
  BRECCIA_ASSERT(i < requests_->result_count());
  return std::as_const(*requests_).results()[i].code;
}
Slice Batch::value(std::size_t i) const {
  BRECCIA_ASSERT(i < requests_->result_count());
  const batch::ReadResult& result = std::as_const(*requests_).results()[i];
  return {result.data, result.bytes};
}

void Batch::Clear() { requests_->clear(); }

}  // namespace breccia
