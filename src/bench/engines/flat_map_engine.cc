#include "bench/engines/engine.h"

#if __has_include(<boost/unordered/concurrent_flat_map.hpp>)
#define BRECCIA_HAVE_FLAT_MAP 1
#include <boost/unordered/concurrent_flat_map.hpp>
#endif

#include <cstring>
#include <vector>

/// A hash table in memory, boost::concurrent_flat_map, made as large as it will be: what the
/// machine gives to lookups and puts that nobody must find again. Keys and values of eight bytes.

namespace breccia::bench {

#if defined(BRECCIA_HAVE_FLAT_MAP)

namespace {

struct Mix {
  using is_avalanching = void;
  std::size_t operator()(std::uint64_t key) const { return base::mix64(key); }
};
using Map = boost::concurrent_flat_map<std::uint64_t, std::uint64_t, Mix>;

std::uint64_t word_of(const Slice& bytes) {
  std::uint64_t word = 0;
  BRECCIA_ASSERT(bytes.size() == sizeof word);
  std::memcpy(&word, bytes.data(), sizeof word);
  return word;
}

Slice bytes_of(const std::uint64_t& word) {
  return {reinterpret_cast<const char*>(&word), sizeof word};
}

Status not_supported() { return Status::NotSupported("a hash table has no order and no versions"); }

class FlatMapSession final : public Session {
 public:
  FlatMapSession(Map* map, const Sampling& sampling, std::size_t key_size_max)
      : map_(map), sampling_(sampling), chunk_(key_size_max) {}

  Status put(const Slice& key, const Slice& value) override {
    map_->insert_or_assign(word_of(key), word_of(value));
    return Status();
  }
  Status erase(const Slice& key) override {
    map_->erase(word_of(key));
    return Status();
  }
  Status merge(const Slice& key, const Slice& operand) override {
    add(word_of(key), word_of(operand));
    return Status();
  }
  Status scan(const Slice& /*begin*/, std::uint32_t /*entries*/, ScanDigest* /*digest*/) override {
    return not_supported();
  }
  Status get(const Slice& key, Slice* value) override {
    const bool found =
        map_->visit(word_of(key), [&](const auto& entry) { value_ = entry.second; }) > 0;
    *value = bytes_of(value_);
    return found ? Status() : Status::NotFound();
  }

  Status build(const Stream& stream, std::uint64_t first, std::uint32_t count,
               std::size_t place) override {
    if (groups_.size() <= place) groups_.resize(place + 1);
    Group& group = groups_[place];
    group.clear();
    Status failure;
    for_each_request(stream, first, count, &chunk_,
                     [&](std::uint64_t number, const Request& request) {
                       ++group.counts[static_cast<std::size_t>(request.kind)];
                       Status status = add_request(&group, number, request);
                       if (!status.ok()) failure = std::move(status);
                     });
    return failure;
  }

  Status run(std::size_t place, Audit* audit) override {
    Group& group = groups_[place];
    write(group.first);
    read(&group, audit);
    write(group.second);
    return Status();
  }

  Status transact(const Stream& /*stream*/, std::uint64_t /*first*/, std::uint32_t /*count*/,
                  Lookups /*lookups*/, Audit* /*audit*/, std::uint64_t* /*filling_ns*/) override {
    return not_supported();
  }

  [[nodiscard]] const KindCounts& counts(std::size_t place) const override {
    return groups_[place].counts;
  }

 private:
  struct Write {
    Kind kind;
    std::uint64_t key;
    std::uint64_t value;
  };
  struct Group {
    std::vector<Write> first;
    std::vector<Write> second;  // of read-modify-writes
    std::vector<std::uint64_t> keys;
    std::vector<std::uint64_t> numbers;  // of the requests that look them up
    KindCounts counts{};

    void clear() {
      first.clear();
      second.clear();
      keys.clear();
      numbers.clear();
      counts = {};
    }
  };
  struct Found {
    std::uint64_t key;
    std::uint64_t value;
  };

  static Status add_request(Group* group, std::uint64_t number, const Request& request) {
    const auto& [kind, key, value, scan_entries] = request;
    if (kind == Kind::kScan) return not_supported();
    if (kind == Kind::kGet || kind == Kind::kReadModifyWrite) {
      group->keys.push_back(word_of(key));
      group->numbers.push_back(number);
      if (kind == Kind::kReadModifyWrite) {
        group->second.push_back({Kind::kUpdate, word_of(key), word_of(value)});
      }
      return Status();
    }
    group->first.push_back({kind, word_of(key), kind == Kind::kDelete ? 0 : word_of(value)});
    return Status();
  }

  void add(std::uint64_t key, std::uint64_t operand) {
    map_->emplace_or_visit(key, operand, [&](auto& entry) { entry.second += operand; });
  }

  void write(const std::vector<Write>& writes) {
    for (const Write& write : writes) {
      if (write.kind == Kind::kDelete) {
        map_->erase(write.key);
      } else if (write.kind == Kind::kMerge) {
        add(write.key, write.value);
      } else {
        map_->insert_or_assign(write.key, write.value);
      }
    }
  }

  // Its bulk lookups say what was found, not for which of the keys they were given: results are
  // matched by key, within a piece that is looked up at once.
  void read(Group* group, Audit* audit) {
    for (std::size_t from = 0; from < group->keys.size(); from += Map::bulk_visit_size) {
      const std::size_t count = std::min(Map::bulk_visit_size, group->keys.size() - from);
      const auto* const keys = &group->keys[from];
      found_.clear();
      map_->visit(keys, keys + count, [&](const auto& entry) {
        found_.push_back({entry.first, entry.second});
      });
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t number = group->numbers[from + i];
        if (sampling_.takes(number)) show(keys[i], number, audit);
      }
    }
  }

  void show(std::uint64_t key, std::uint64_t number, Audit* audit) const {
    for (const Found& found : found_) {
      if (found.key == key) return audit->lookup(number, Status::kOk, bytes_of(found.value));
    }
    audit->lookup(number, Status::kNotFound, Slice());
  }

  Map* const map_;
  const Sampling sampling_;
  Chunk chunk_;
  std::vector<Group> groups_;
  std::vector<Found> found_;
  std::uint64_t value_ = 0;
};

class FlatMapEngine final : public Engine {
 public:
  explicit FlatMapEngine(std::uint64_t keys) : map_(keys) {}

  std::unique_ptr<Session> session(const Sampling& sampling, std::size_t key_size_max) override {
    return std::make_unique<FlatMapSession>(&map_, sampling, key_size_max);
  }
  Status flush() override { return Status(); }
  bool compacts() override { return false; }
  InEffect in_effect() override { return {}; }
  std::string backend() override { return "boost::concurrent_flat_map, volatile"; }
  bool keeps() override { return false; }

 private:
  Map map_;
};

}  // namespace

Result<std::unique_ptr<Engine>> open_flat_map(const EngineConfig& config) {
  if (config.key_size != sizeof(std::uint64_t) || config.value_size != sizeof(std::uint64_t)) {
    return Status::InvalidArgument("flatmap needs --key_size 8 and --value_size 8");
  }
  std::unique_ptr<Engine> engine = std::make_unique<FlatMapEngine>(config.keys);
  return engine;
}

#else

Result<std::unique_ptr<Engine>> open_flat_map(const EngineConfig& /*config*/) {
  return Status::NotSupported("built without boost 1.83 or newer; `./dev setup` brings it");
}

#endif

}  // namespace breccia::bench
