#include "tree/staged_file.h"

#include <fmt/format.h>
#include <rocksdb/listener.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/sst_file_writer.h>

#include <algorithm>
#include <optional>

#include "base/assert.h"
#include "sst/compress.h"
#include "sst/entry_writer.h"
#include "sst/session.h"
#include "sst/table_choice.h"

namespace breccia::tree {

namespace {

/// By RocksDB.
class WrittenByRocksDB final : public StagedFile {
 public:
  WrittenByRocksDB(const rocksdb::Options& options, rocksdb::ColumnFamilyHandle* family)
      : writer_(rocksdb::EnvOptions(options), options, family, /*invalidate_page_cache=*/false) {}

  Status open(const std::string& path) { return writer_.Open(path); }
  Status delete_range(const Slice& begin, const Slice& end) override {
    return writer_.DeleteRange(begin, end);
  }
  Status finish() override { return writer_.Finish(); }

 protected:
  Status put(const Slice& key, const Slice& value) override { return writer_.Put(key, value); }
  Status merge(const Slice& key, const Slice& operand) override {
    return writer_.Merge(key, operand);
  }
  Status remove(const Slice& key) override { return writer_.Delete(key); }

 private:
  rocksdb::SstFileWriter writer_;
};

/// By the encoder.
class Encoded final : public StagedFile {
 public:
  Encoded(std::unique_ptr<sst::TableFile> file, std::string path, rocksdb::Env* env,
          const sst::TableShape& shape, sst::TableOrigin origin, exec::Pool& work)
      : writer_(std::move(file), shape, work),
        origin_(std::move(origin)),
        path_(std::move(path)),
        env_(env) {}
  ~Encoded() override {
    // What is not whole would only take room.
    if (!is_whole_) env_->DeleteFile(path_).PermitUncheckedError();
  }

  Status delete_range(const Slice& begin, const Slice& end) override {
    writer_.delete_range(begin, end);
    return Status::OK();
  }
  Status finish() override {
    BRECCIA_TRY(writer_.finish(origin_).status());
    is_whole_ = true;
    return Status::OK();
  }

 protected:
  Status put(const Slice& key, const Slice& value) override {
    return writer_.add(sst::EntryType::kValue, key, value);
  }
  Status merge(const Slice& key, const Slice& operand) override {
    return writer_.add(sst::EntryType::kMerge, key, operand);
  }
  Status remove(const Slice& key) override {
    return writer_.add(sst::EntryType::kDeletion, key, Slice());
  }

 private:
  sst::EntryWriter writer_;
  const sst::TableOrigin origin_;
  const std::string path_;
  rocksdb::Env* const env_;
  bool is_whole_ = false;
};

/// What SstFileWriter takes.
/// Source  RocksDB 7.8.
struct CompressionChoice {
  rocksdb::CompressionType type;
  rocksdb::CompressionOptions options;

  static CompressionChoice of(const rocksdb::Options& options) {
    if (options.bottommost_compression != rocksdb::kDisableCompressionOption) {
      const bool has_own = options.bottommost_compression_opts.enabled;
      return {options.bottommost_compression,
              has_own ? options.bottommost_compression_opts : options.compression_opts};
    }
    const bool has_levels = !options.compression_per_level.empty();
    return {has_levels ? options.compression_per_level.back() : options.compression,
            options.compression_opts};
  }
  /// Whether blocks become what sst::compress() makes of them.
  [[nodiscard]] bool is_plain() const {
    if (type == rocksdb::kNoCompression) return true;
    const auto known = sst::compression_of(type);
    const bool has_level = type != rocksdb::kSnappyCompression &&
                           options.level != rocksdb::CompressionOptions::kDefaultCompressionLevel;
    return known.has_value() && sst::is_written(*known) && options.max_dict_bytes == 0 &&
           !has_level;
  }
  /// The property in which RocksDB keeps the options.
  [[nodiscard]] std::string text() const {
    return fmt::format(
        "window_bits={}; level={}; strategy={}; max_dict_bytes={}; zstd_max_train_bytes={}; "
        "enabled={:d}; max_dict_buffer_bytes={}; use_zstd_dict_trainer={:d}; ",
        options.window_bits, options.level, options.strategy, options.max_dict_bytes,
        options.zstd_max_train_bytes, options.enabled, options.max_dict_buffer_bytes,
        options.use_zstd_dict_trainer);
  }
};

/// Whether anybody is to hear of what is written, or to do it.
bool is_private(const rocksdb::Options& options) {
  const bool is_heard =
      std::any_of(options.listeners.begin(), options.listeners.end(),
                  [](const auto& listener) { return listener->ShouldBeNotifiedOnFileIO(); });
  return !is_heard && !options.use_direct_io_for_flush_and_compaction &&
         options.table_properties_collector_factories.empty();
}

/// As SstFileWriter says it.
sst::TableOrigin origin_of(const rocksdb::Options& options, rocksdb::ColumnFamilyHandle* family,
                           const sst::TableChoice& choice, const CompressionChoice& compression) {
  sst::TableOrigin origin;
  if (options.merge_operator != nullptr) origin.merge_operator = options.merge_operator->Name();
  origin.filter_policy = choice.filter_policy;
  origin.family = family->GetName();
  origin.family_id = family->GetID();
  origin.database_id = "SST Writer";
  origin.session_id = sst::new_session();
  origin.file_number = 1;
  origin.host_id = sst::host_id(options);
  origin.compression_options = compression.text();
  origin.is_external = true;
  return origin;
}

}  // namespace

bool is_encoded(const rocksdb::Options& options) {
  return is_private(options) && options.comparator == rocksdb::BytewiseComparator() &&
         options.prefix_extractor == nullptr && options.sample_for_compression == 0 &&
         sst::choice_of(options.table_factory.get()).facts.are_plain() &&
         CompressionChoice::of(options).is_plain();
}

Status StagedFile::add(const FileEntry& entry) {
  BRECCIA_ASSERT(entry.hides_older || entry.op != record::Op::kSingleDelete);
  if (entry.hides_older) {
    behind_.assign(entry.key.data(), entry.key.size());
    behind_.push_back('\0');
    BRECCIA_TRY(delete_range(entry.key, behind_));
  }
  switch (entry.op) {
    case record::Op::kPut:
      return put(entry.key, entry.value);
    case record::Op::kMerge:
      return merge(entry.key, entry.value);
    case record::Op::kSingleDelete:
      return Status::OK();
    default:
      BRECCIA_ASSERT(entry.op == record::Op::kDelete);
      return remove(entry.key);
  }
}

Result<std::unique_ptr<StagedFile>> stage_file(const std::string& path,
                                               const rocksdb::Options& options,
                                               rocksdb::ColumnFamilyHandle* family,
                                               exec::Pool& work) {
  if (is_encoded(options)) {
    sst::TableChoice choice = sst::choice_of(options.table_factory.get());
    const CompressionChoice compression = CompressionChoice::of(options);
    choice.shape.compression = *sst::compression_of(compression.type);
    BRECCIA_TAKE(auto file, sst::create_table_file(options.env, path, options));
    return std::unique_ptr<StagedFile>(
        std::make_unique<Encoded>(std::move(file), path, options.env, choice.shape,
                                  origin_of(options, family, choice, compression), work));
  }
  auto file = std::make_unique<WrittenByRocksDB>(options, family);
  BRECCIA_TRY(file->open(path));
  return std::unique_ptr<StagedFile>(std::move(file));
}

}  // namespace breccia::tree
