#include "slab/engine/entries.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "base/assert.h"

namespace breccia::slab {

Entries::~Entries() {
  for (List& list : lists_) {
    while (list.first != nullptr) {
      Entry* const entry = list.first;
      list.first = entry->after;
      discard(entry);
    }
  }
}

Entry* Entries::make(const std::byte* record, std::uint64_t sequence) {
  const std::uint64_t bytes = record::record_header(record).record_bytes();
  void* const memory = std::malloc(sizeof(Entry) + bytes);
  if (memory == nullptr) return nullptr;
  auto* const entry = new (memory) Entry{.sequence = sequence};
  std::memcpy(entry->record(), record, bytes);
  return entry;
}

void Entries::discard(Entry* entry) { std::free(entry); }

void Entries::take_in(Entry* entry) {
  List& list = list_of(entry);
  {
    const std::lock_guard lock(list.mutex);
    BRECCIA_ASSERT(entry->before == nullptr && entry->after == nullptr);
    entry->after = list.first;
    if (list.first != nullptr) list.first->before = entry;
    list.first = entry;
  }
  bytes_.fetch_add(entry->bytes(), std::memory_order_relaxed);
  count_.fetch_add(1, std::memory_order_relaxed);
}

void Entries::take_out(Entry* entry) {
  List& list = list_of(entry);
  {
    const std::lock_guard lock(list.mutex);
    BRECCIA_ASSERT(entry->before != nullptr || list.first == entry);
    (entry->before == nullptr ? list.first : entry->before->after) = entry->after;
    if (entry->after != nullptr) entry->after->before = entry->before;
    entry->before = nullptr;
    entry->after = nullptr;
  }
  bytes_.fetch_sub(entry->bytes(), std::memory_order_relaxed);
  count_.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace breccia::slab
