#include "sst/separator.h"

#include <rocksdb/comparator.h>

#include "sst/block_builder.h"

namespace breccia::sst {

namespace {

/// Behind a key that was made for an index: before all versions of it.
constexpr std::uint64_t kSeekTag = ((std::uint64_t{1} << 56) - 1) << 8 | 0x16;

/// Makes a user key that may be shorter than `last`'s an internal one; `last` if it is of no use.
void end_with_tag(const Slice& last, std::string* key) {
  const Slice last_user = InternalKey::of(last).user_key;
  if (key->size() > last_user.size() || last_user.compare(*key) >= 0) {
    key->assign(last.data(), last.size());
  } else {
    append_fixed(key, kSeekTag);
  }
}

}  // namespace

void separate(IndexShortening how, const Slice& last, const Slice& next, std::string* key) {
  if (how == IndexShortening::kNone) {
    key->assign(last.data(), last.size());
    return;
  }
  key->assign(last.data(), last.size() - kTagBytes);
  rocksdb::BytewiseComparator()->FindShortestSeparator(key, InternalKey::of(next).user_key);
  end_with_tag(last, key);
}

void succeed(IndexShortening how, const Slice& last, std::string* key) {
  if (how != IndexShortening::kSeparatorsAndSuccessor) {
    key->assign(last.data(), last.size());
    return;
  }
  key->assign(last.data(), last.size() - kTagBytes);
  rocksdb::BytewiseComparator()->FindShortSuccessor(key);
  end_with_tag(last, key);
}

}  // namespace breccia::sst
