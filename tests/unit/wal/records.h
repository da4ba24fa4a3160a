#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "wal/log.h"

/// Records and frames for tests of the log: made from a seed, compared as bytes.

namespace breccia::wal::testing {

struct Records {
  std::vector<std::byte> bytes;
  std::vector<std::uint64_t> offsets;

  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(offsets.size()); }
  bool operator==(const Records&) const = default;
};

inline void append_record(Records* records, record::Op op, const std::string& key,
                          const std::string& value) {
  const record::RecordHeader header = record::RecordHeader::make(op, key.size(), value.size());
  const std::size_t at = records->bytes.size();
  records->offsets.push_back(at);
  records->bytes.resize(at + header.record_bytes());
  std::byte* const to = records->bytes.data() + at;
  std::memcpy(to, &header, sizeof header);
  std::memcpy(to + sizeof header, key.data(), key.size());
  std::memcpy(to + sizeof header + key.size(), value.data(), value.size());
}

inline std::string random_text(base::Random* random, std::uint64_t bytes_max) {
  std::string text(random->below(bytes_max + 1), ' ');
  for (char& c : text) c = static_cast<char>(random->next());
  return text;
}

/// `count` records with keys and values of at most 40 bytes.
inline Records random_records(base::Random* random, std::uint64_t count) {
  Records records;
  for (std::uint64_t index = 0; index < count; ++index) {
    const bool put = !random->one_in(4);
    append_record(&records, put ? record::Op::kPut : record::Op::kDelete, random_text(random, 40),
                  put ? random_text(random, 40) : "");
  }
  return records;
}

/// One record whose frame takes up `value_bytes` and a little.
inline Records large_record(std::uint64_t value_bytes, char fill) {
  Records records;
  append_record(&records, record::Op::kPut, "large", std::string(value_bytes, fill));
  return records;
}

/// Records of several column families: names, operations on one key and, if `ranges`, range
/// deletions.
inline Records random_mixed_records(base::Random* random, std::uint64_t count, bool ranges) {
  Records records;
  for (std::uint64_t index = 0; index < count; ++index) {
    auto op = static_cast<record::Op>(random->below(record::kOpCount));
    if (op == record::Op::kDeleteRange && !ranges) op = record::Op::kPut;
    if (op == record::Op::kFamily) {
      const auto family = static_cast<std::uint32_t>(random->next());
      append_record(&records, op, "", {reinterpret_cast<const char*>(&family), sizeof family});
    } else {
      append_record(&records, op, random_text(random, 40),
                    record::is_deletion(op) ? "" : random_text(random, 40));
    }
  }
  return records;
}

/// The descriptors of records: of each family its name's, then by key, the newest first.
inline std::vector<std::uint32_t> descriptors_of(const Records& records) {
  const auto key = [&](std::uint64_t offset) {
    const std::byte* const record = records.bytes.data() + offset;
    return std::string(record::record_key(record), record::record_header(record).key_bytes());
  };
  std::vector<std::uint64_t> order = records.offsets;
  auto part = order.begin();
  const auto sort_up_to = [&](auto end) {
    std::sort(part, end, [&](std::uint64_t a, std::uint64_t b) {
      const std::string key_a = key(a);
      const std::string key_b = key(b);
      return key_a != key_b ? key_a < key_b : a > b;
    });
  };
  for (auto at = order.begin(); at != order.end(); ++at) {
    if (record::record_header(records.bytes.data() + *at).op() != record::Op::kFamily) continue;
    sort_up_to(at);
    part = at + 1;
  }
  sort_up_to(order.end());
  std::vector<std::uint32_t> descriptors;
  for (const std::uint64_t offset : order) {
    descriptors.push_back(static_cast<std::uint32_t>(offset / 8));
  }
  return descriptors;
}

/// Reserves, fills and seals one frame, with descriptors if asked to. `mixed`: its header says so.
inline Result<Frame> put_frame(Log* log, const Records& records, bool descriptors,
                               bool mixed = false) {
  BRECCIA_TAKE(Frame frame, log->reserve(records.bytes.size(), records.count(),
                                         descriptors ? records.count() : 0));
  frame.mixed = mixed;
  log->fill(&frame, records.bytes.data());
  if (descriptors) {
    const std::vector<std::uint32_t> order = descriptors_of(records);
    std::copy(order.begin(), order.end(), frame.descriptors());
  }
  log->seal(&frame);
  return frame;
}

/// What replay saw: position and bytes of each frame's records.
struct Replayed {
  struct One {
    std::uint64_t position;
    std::vector<std::byte> bytes;
    std::uint32_t count;
    bool descriptors;
    bool only_default_points = true;
    bool operator==(const One&) const = default;
  };
  std::vector<One> frames;
  LogRecovery recovery;

  std::function<Status(const RecoveredFrame&)> sink() {
    return [this](const RecoveredFrame& frame) {
      frames.push_back({frame.records_position,
                        std::vector<std::byte>(frame.records, frame.records + frame.record_bytes),
                        frame.record_count, frame.descriptors != nullptr,
                        frame.only_default_points});
      return Status::OK();
    };
  }
};

/// The frames that a test has put, in the form in which replay shows them.
inline Replayed::One expected(const Frame& frame, const Records& records) {
  return {frame.records_position(), records.bytes, records.count(), frame.descriptor_count != 0,
          !frame.mixed};
}

/// A folder that goes with the object.
class TempDir {
 public:
  explicit TempDir(const std::string& under);
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace breccia::wal::testing
