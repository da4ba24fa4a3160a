#include "bench/engines/rocksdb_group.h"

#include <fmt/format.h>
#include <rocksdb/sst_file_writer.h>

#include <algorithm>
#include <atomic>

namespace breccia::bench {

namespace {

constexpr std::size_t kKeyBlockBytes = 1 << 20;
static_assert(kKeyBlockBytes >= kKeySizeMax);

}  // namespace

rocksdb::WriteBatch& RocksdbWrites::next(std::uint32_t writes_max) {
  const bool is_full = used > 0 && writes_max > 0 && batches[used - 1].Count() >= writes_max;
  if (used == 0 || is_full) ++used;
  if (batches.size() < used) batches.emplace_back();
  return batches[used - 1];
}

void RocksdbWrites::clear() {
  for (std::size_t i = 0; i < used; ++i) batches[i].Clear();
  used = 0;
}

Slice RocksdbGroup::keep(const Slice& key) {
  const auto has_room = [&](const std::vector<char>& block) {
    return block.capacity() - block.size() >= key.size();
  };
  if (key_blocks_used_ == 0 || !has_room(key_blocks_[key_blocks_used_ - 1])) {
    if (key_blocks_.size() == key_blocks_used_) {
      key_blocks_.emplace_back().reserve(kKeyBlockBytes);
    }
    ++key_blocks_used_;
  }
  std::vector<char>& block = key_blocks_[key_blocks_used_ - 1];
  block.insert(block.end(), key.data(), key.data() + key.size());
  return {block.data() + block.size() - key.size(), key.size()};
}

Status RocksdbGroup::ingest_into(rocksdb::DB* db) {
  if (entries.empty()) return Status();
  static std::atomic<std::uint64_t> files{0};
  const std::string name = fmt::format("{}/load-{}.sst", db->GetName(), files++);
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.key.compare(b.key) < 0; });
  rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), db->GetOptions());
  BRECCIA_TRY(writer.Open(name));
  const Slice* before = nullptr;
  for (const Entry& entry : entries) {
    // A key that comes twice has one value.
    if (before == nullptr || *before != entry.key) BRECCIA_TRY(writer.Put(entry.key, entry.value));
    before = &entry.key;
  }
  BRECCIA_TRY(writer.Finish());
  rocksdb::IngestExternalFileOptions options;
  options.move_files = true;
  return db->IngestExternalFile({name}, options);
}

void RocksdbGroup::clear() {
  first.clear();
  second.clear();
  for (std::size_t i = 0; i < key_blocks_used_; ++i) key_blocks_[i].clear();
  key_blocks_used_ = 0;
  reads.clear();
  additions.clear();
  entries.clear();
  scans.clear();
  sampled_scans.clear();
  counts = {};
}

}  // namespace breccia::bench
