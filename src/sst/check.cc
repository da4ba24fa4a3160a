#include "sst/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/memory.h"
#include "sst/block.h"

namespace breccia::sst {

namespace {

using KeyOrder = int (*)(const Slice&, const Slice&);

/// How user keys are ordered by the comparator of that name; null if that is not known here.
KeyOrder order_of(const std::string& comparator) {
  if (comparator == "leveldb.BytewiseComparator") {
    return [](const Slice& a, const Slice& b) { return a.compare(b); };
  }
  if (comparator == "rocksdb.ReverseBytewiseComparator") {
    return [](const Slice& a, const Slice& b) { return b.compare(a); };
  }
  return nullptr;
}

Status broken(const Handle& block, std::string_view what) {
  return Status::Corruption(fmt::format("the block at {}", block.offset), std::string(what));
}

/// Entries of one block of keys with tags. `is_ended` says whether the visitor had enough.
Status visit_block(const Handle& handle, const Slice& contents, const EntryVisitor& visit,
                   bool* is_ended) {
  BlockEntries entries(contents, BlockEntries::Kind::kValues);
  while (!*is_ended && entries.next()) {
    if (entries.key().size() < kTagBytes) return broken(handle, "a key is too short for its tag");
    const InternalKey key = InternalKey::of(entries.key());
    if (name_of(key.type) == nullptr) {
      return broken(handle,
                    fmt::format("an entry has the unknown type {:#x}", static_cast<int>(key.type)));
    }
    *is_ended = !visit(key, entries.value());
  }
  return entries.status().ok() ? Status::OK() : broken(handle, entries.status().ToString());
}

/// Checks data blocks one behind the other.
/// Threads one owner.
class Checker {
 public:
  Checker(const Table& table, TableCounts* counts) : table_(table), counts_(*counts) {
    const auto comparator = table.properties().find(names::kComparator);
    if (comparator != table.properties().end()) order_ = order_of(comparator->second);
    counts_.has_known_order = order_ != nullptr;
  }

  Status check_data(const std::function<void(std::uint64_t)>& progress);
  Status check_range_deletions();
  Status check_properties() const;
  /// Blocks lie one behind the other; where they are aligned there are zeros between them.
  Status check_places() const;

 private:
  Status check_block(const DataBlock& block, const Slice& contents);
  Status check_separators(std::size_t block) const;
  void count(const InternalKey& key, const Slice& value);
  /// Less than 0, 0 or more, as versions of a key go: the newest first.
  [[nodiscard]] int compare(const Slice& user_key, std::uint64_t tag, const Slice& other_key,
                            std::uint64_t other_tag) const;

  const Table& table_;
  TableCounts& counts_;
  KeyOrder order_ = nullptr;
  bool has_last_ = false;
  std::string first_key_;  // of the block at hand
  std::uint64_t first_tag_ = 0;
  std::string last_key_;  // of what was seen
  std::uint64_t last_tag_ = 0;
};

std::uint64_t tag_of(const InternalKey& key) {
  return key.sequence << 8 | static_cast<std::uint64_t>(key.type);
}

int Checker::compare(const Slice& user_key, std::uint64_t tag, const Slice& other_key,
                     std::uint64_t other_tag) const {
  BRECCIA_ASSERT(order_ != nullptr);
  const int order = order_(user_key, other_key);
  if (order != 0) return order;
  return tag > other_tag ? -1 : tag < other_tag ? 1 : 0;
}

void Checker::count(const InternalKey& key, const Slice& value) {
  counts_.entries += 1;
  counts_.key_bytes += key.user_key.size() + kTagBytes;
  counts_.value_bytes += value.size();
  switch (key.type) {
    case EntryType::kDeletion:
    case EntryType::kSingleDeletion:
      counts_.deletions += 1;
      break;
    case EntryType::kRangeDeletion:
      counts_.deletions += 1;
      counts_.range_deletions += 1;
      break;
    case EntryType::kMerge:
      counts_.merges += 1;
      break;
    default:
      break;
  }
}

Status Checker::check_block(const DataBlock& block, const Slice& contents) {
  bool is_first = true;
  bool is_ended = false;
  Status order_status;
  BRECCIA_TRY(visit_block(
      block.handle, contents,
      [&](const InternalKey& key, const Slice& value) {
        const std::uint64_t tag = tag_of(key);
        if (order_ != nullptr && has_last_ &&
            compare(last_key_, last_tag_, key.user_key, tag) >= 0) {
          order_status = broken(block.handle, fmt::format("entry {} of the table is out of order",
                                                          counts_.entries + 1));
          return false;
        }
        if (key.type == EntryType::kRangeDeletion) {
          order_status = broken(block.handle, "a range deletion is among the keys");
          return false;
        }
        if (is_first) {
          first_key_.assign(key.user_key.data(), key.user_key.size());
          first_tag_ = tag;
        }
        is_first = false;
        has_last_ = true;
        last_key_.assign(key.user_key.data(), key.user_key.size());
        last_tag_ = tag;
        count(key, value);
        return true;
      },
      &is_ended));
  BRECCIA_TRY(order_status);
  return is_first ? broken(block.handle, "it is empty") : Status::OK();
}

/// Behind block `block`: its keys lie between its own separator and that of the block before.
Status Checker::check_separators(std::size_t block) const {
  if (order_ == nullptr) return Status::OK();
  const auto is_between = [&](const Slice& separator, const std::string& key, std::uint64_t tag,
                              bool key_is_behind) {
    if (!table_.has_tagged_separators()) {
      const int order = order_(separator, key);
      return key_is_behind ? order < 0 : order >= 0;
    }
    const InternalKey between = InternalKey::of(separator);
    const int order = compare(between.user_key, tag_of(between), key, tag);
    return key_is_behind ? order < 0 : order >= 0;
  };
  const std::vector<DataBlock>& blocks = table_.data_blocks();
  if (!is_between(blocks[block].separator, last_key_, last_tag_, false)) {
    return broken(blocks[block].handle, "it has keys behind what the index says");
  }
  if (block > 0 && !is_between(blocks[block - 1].separator, first_key_, first_tag_, true)) {
    return broken(blocks[block].handle, "it has keys before what the index says");
  }
  return Status::OK();
}

Status Checker::check_data(const std::function<void(std::uint64_t)>& progress) {
  std::string room;
  const std::vector<DataBlock>& blocks = table_.data_blocks();
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    Slice contents;
    BRECCIA_TRY(table_.read_data(blocks[i].handle, &room, &contents));
    BRECCIA_TRY(check_block(blocks[i], contents));
    BRECCIA_TRY(check_separators(i));
    if (progress) progress(blocks[i].handle.end());
  }
  counts_.blocks = blocks.size();
  return Status::OK();
}

Status Checker::check_range_deletions() {
  Status order_status;
  BRECCIA_TRY(visit_range_deletions(table_, [&](const InternalKey& key, const Slice& value) {
    if (order_ != nullptr && order_(key.user_key, value) > 0) {
      order_status = Status::Corruption("a range deletion ends before its beginning");
    }
    count(key, value);
    return order_status.ok();
  }));
  return order_status;
}

Status Checker::check_properties() const {
  const std::pair<const char*, std::uint64_t> kExpected[] = {
      {"rocksdb.num.entries", counts_.entries},
      {"rocksdb.deleted.keys", counts_.deletions},
      {"rocksdb.merge.operands", counts_.merges},
      {"rocksdb.num.range-deletions", counts_.range_deletions},
      {"rocksdb.raw.key.size", counts_.key_bytes},
      {"rocksdb.raw.value.size", counts_.value_bytes},
      {"rocksdb.num.data.blocks", counts_.blocks},
  };
  for (const auto& [name, value] : kExpected) {
    const auto said = table_.number(name);
    if (said.has_value() && *said != value) {
      return Status::Corruption(fmt::format("property {} is {}", name, *said),
                                fmt::format("the table has {}", value));
    }
  }
  return Status::OK();
}

Status Checker::check_places() const {
  constexpr std::uint64_t kGapAtOnce = 1 << 20;
  std::vector<Handle> handles = {table_.metaindex(), table_.index()};
  for (const auto& [name, handle] : table_.meta_blocks()) handles.push_back(handle);
  for (const DataBlock& block : table_.data_blocks()) handles.push_back(block.handle);
  std::sort(handles.begin(), handles.end(),
            [](const Handle& a, const Handle& b) { return a.offset < b.offset; });
  handles.push_back({table_.bytes() - kFooterBytes, 0});
  std::uint64_t end = 0;
  std::string between;
  for (const Handle& handle : handles) {
    if (handle.offset < end) {
      return Status::Corruption(fmt::format("blocks overlap at {}", handle.offset));
    }
    for (; end < handle.offset; end += between.size()) {
      between.resize(std::min<std::uint64_t>(handle.offset - end, kGapAtOnce));
      BRECCIA_TRY(read_range(table_.range(end, between.size(), between.data())));
      const std::size_t other = between.find_first_not_of('\0');
      if (other == std::string::npos) continue;
      return Status::Corruption(fmt::format("the byte at {} is of no block", end + other));
    }
    end = handle.end();
  }
  return Status::OK();
}

}  // namespace

Status visit_entries(const Table& table, const EntryVisitor& visit) {
  return base::or_memory_limit([&] {
    std::string room;
    bool is_ended = false;
    for (const DataBlock& block : table.data_blocks()) {
      Slice contents;
      BRECCIA_TRY(table.read_data(block.handle, &room, &contents));
      BRECCIA_TRY(visit_block(block.handle, contents, visit, &is_ended));
      if (is_ended) break;
    }
    return Status::OK();
  });
}

Status visit_range_deletions(const Table& table, const EntryVisitor& visit) {
  return base::or_memory_limit([&] {
    const auto handle = table.range_deletions();
    if (!handle.has_value()) return Status::OK();
    std::string room;
    Slice contents;
    bool is_ended = false;
    BRECCIA_TRY(table.read(*handle, &room, &contents));
    return visit_block(*handle, contents, visit, &is_ended);
  });
}

Status check_table(const Table& table, const std::function<void(std::uint64_t)>& progress,
                   TableCounts* counts) {
  return base::or_memory_limit([&] {
    *counts = TableCounts();
    Checker checker(table, counts);
    for (const auto& [name, handle] : table.meta_blocks()) {
      if (name == names::kProperties) continue;  // read when the table was opened
      std::string room;
      Slice contents;
      BRECCIA_TRY(table.read(handle, &room, &contents));
    }
    BRECCIA_TRY(checker.check_places());  // of blocks that lie in the file
    BRECCIA_TRY(checker.check_data(progress));
    BRECCIA_TRY(checker.check_range_deletions());
    return checker.check_properties();
  });
}

}  // namespace breccia::sst
