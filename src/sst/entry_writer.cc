#include "sst/entry_writer.h"

#include <algorithm>
#include <limits>

#include "base/limits.h"
#include "base/memory.h"
#include "exec/host/host_executor.h"
#include "exec/memory.h"
#include "sst/algo/encode.cuh"
#include "sst/algo/filter.cuh"
#include "sst/seal.h"

namespace breccia::sst {

namespace {

using exec::host::HostExecutor;

/// Of a batch: about what a core's cache holds beside what is made of it; but a block ends with its
/// batch, so there are several in one.
constexpr std::uint64_t kBatchBytes = 192 << 10;
constexpr std::uint64_t kBatchBlocks = 16;
/// What an entry takes beside its value, about: key, tag, length, place.
constexpr std::uint64_t kEntryBytes = 48;

}  // namespace

EntryWriter::EntryWriter(std::unique_ptr<TableFile> file, const TableShape& shape, exec::Pool& work)
    : table_(std::move(file), shape),
      shape_(shape),
      work_(work),
      batch_bytes_(std::max(kBatchBytes, kBatchBlocks * shape.block_bytes)),
      keys_(exec::plain_host_memory()) {}

Status EntryWriter::add(EntryType type, const Slice& key, const Slice& value) {
  BRECCIA_ASSERT(key.size() <= limits::kKeyBytesMax);
  BRECCIA_ASSERT(type == EntryType::kValue || type == EntryType::kDeletion ||
                 type == EntryType::kMerge);
  if (value.size() > std::numeric_limits<std::uint32_t>::max()) {
    return Status::InvalidArgument("a value of 4 GiB or more");
  }
  if (has_key_ && Slice(last_key_).compare(key) >= 0) {
    return Status::Corruption("keys of a file do not ascend");
  }
  has_key_ = true;
  last_key_.assign(key.data(), key.size());
  if (!keys_.append(key.data(), key.size())) return Status::MemoryLimit("memory is exhausted");
  tag_.push_back(static_cast<std::uint64_t>(type));
  value_bytes_.push_back(static_cast<std::uint32_t>(value.size()));
  values_.append(value.data(), value.size());
  const std::uint64_t bytes = values_.size() + kEntryBytes * tag_.size();
  const bool is_full = bytes >= batch_bytes_;
  return is_full ? write_batch() : Status::OK();
}

Status EntryWriter::write_batch() {
  const std::uint64_t count = tag_.size();
  if (count == 0) return Status::OK();
  BRECCIA_ASSERT(keys_.count() == count && value_bytes_.size() == count);
  BRECCIA_TRY(encode_batch(count));
  keys_.clear();
  tag_.clear();
  value_bytes_.clear();
  values_.clear();
  return Status::OK();
}

Status EntryWriter::encode_batch(std::uint64_t count) {
  value_.resize(count);
  const char* at = values_.data();
  for (std::uint64_t i = 0; i < count; at += value_bytes_[i++]) value_[i] = at;
  while (id_.size() < count) id_.push_back(static_cast<std::uint32_t>(id_.size()));
  const algo::SurvivorsRef survivors{{keys_.ref(), tag_.data(), value_.data(), value_bytes_.data()},
                                     id_.data(),
                                     tag_.data(),
                                     count};
  HostExecutor x(work_);
  algo::Encoder encoder(x, survivors, shape_);
  algo::Blocks blocks;
  BRECCIA_TRY(encoder.run(/*stock_file_bytes=*/0, &blocks));
  SealedBlocks sealed;
  BRECCIA_TRY(seal(shape_, blocks.bytes.data(), blocks.bytes.count() - algo::kPadBytes, count,
                   {blocks.blocks.data(), blocks.blocks.count()}, &sealed));
  hash_.insert(hash_.end(), blocks.hash.data(), blocks.hash.data() + blocks.hash.count());
  BRECCIA_TAKE(const DataPlace place, table_.add(sealed.bytes, sealed.blocks));
  return table_.write_data(place);
}

Result<std::string> EntryWriter::filter() {
  std::string bytes;
  if (hash_.empty()) return bytes;
  const FilterShape shape = FilterShape::of(table_.sums().filter_entries, shape_.filter_millibits);
  HostExecutor x(work_);
  BRECCIA_TAKE(const auto words,
               exec::make_array<std::uint32_t>(x, shape.bytes() / sizeof(std::uint32_t)));
  std::fill_n(words.data(), words.count(), 0U);
  BRECCIA_TRY(algo::add_hashes(x, hash_.data(), hash_.size(), shape, words.data()));
  bytes.assign(reinterpret_cast<const char*>(words.data()), shape.bytes());
  bytes += shape.tail();
  return bytes;
}

Result<std::uint64_t> EntryWriter::finish(const TableOrigin& origin) {
  BRECCIA_TRY(write_batch());
  BRECCIA_TAKE(const std::string lines, filter());
  return table_.finish(origin, lines);
}

}  // namespace breccia::sst
