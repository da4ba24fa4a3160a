#include "batch/selection.h"

#include "base/assert.h"

namespace breccia::batch {

namespace {

void invert(Flags* flags) {
  for (std::uint8_t& flag : *flags) flag = flag == 0 ? 1 : 0;
}

}  // namespace

Selection Selection::others() const {
  Selection others = *this;
  for (ChosenWrites& part : others.writes) {
    invert(&part.points);
    invert(&part.range_deletes);
  }
  for (Flags& part : others.reads) invert(&part);
  for (Flags& part : others.ranges) invert(&part);
  return others;
}

bool append_keys(const record::KeyColumnsRef& keys, const Flags* chosen, record::KeyColumns* out) {
  if (chosen == nullptr) return out->append(keys);
  BRECCIA_ASSERT(chosen->size() == keys.count);
  for (std::uint64_t i = 0; i < keys.count; ++i) {
    if ((*chosen)[i] != 0 && !out->append(record::slice(keys, i, 1))) return false;
  }
  return true;
}

}  // namespace breccia::batch
