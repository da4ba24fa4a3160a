#include "capi/boxes.h"

#include <rocksdb/utilities/stackable_db.h>

#include <array>
#include <cstdlib>
#include <cstring>

namespace breccia::capi {

namespace {

/// Says which of several pointers librocksdb followed.
class Probe final : public rocksdb::StackableDB {
 public:
  explicit Probe(std::uint64_t place) : StackableDB(static_cast<DB*>(nullptr)), place_(place) {}
  [[nodiscard]] rocksdb::SequenceNumber GetLatestSequenceNumber() const override { return place_; }

 private:
  std::uint64_t place_;
};

class ProbeHandle final : public rocksdb::ColumnFamilyHandle {
 public:
  explicit ProbeHandle(std::uint32_t place) : place_(place) {}
  [[nodiscard]] const std::string& GetName() const override { return name_; }
  [[nodiscard]] std::uint32_t GetID() const override { return place_; }
  Status GetDescriptor(rocksdb::ColumnFamilyDescriptor*) override {
    return Status::NotSupported("a probe");
  }
  [[nodiscard]] const rocksdb::Comparator* GetComparator() const override { return nullptr; }

 private:
  std::uint32_t place_;
  std::string name_;
};

/// Whether librocksdb finds the object at the beginning of a box: `ask` gets one whose words point
/// to objects with numbers, and says which of them answered.
template <class Object, class Box, class Ask>
bool is_first(const Ask& ask) {
  std::array<Object, 4> objects{Object(0), Object(1), Object(2), Object(3)};
  std::array<Object*, 4> words{&objects[0], &objects[1], &objects[2], &objects[3]};
  return ask(reinterpret_cast<Box*>(words.data())) == 0;
}

bool is_options_known() {
  rocksdb_options_t* const options = rocksdb_options_create();
  rocksdb_options_set_max_open_files(options, 4711);
  rocksdb_options_set_write_buffer_size(options, 12'345'678);
  const bool is_known =
      options->rep.max_open_files == 4711 && options->rep.write_buffer_size == 12'345'678;
  rocksdb_options_destroy(options);
  rocksdb_writeoptions_t* const write = rocksdb_writeoptions_create();
  rocksdb_writeoptions_set_sync(write, 1);
  const bool is_write_known = write->rep.sync;
  rocksdb_writeoptions_destroy(write);
  return is_known && is_write_known;
}

}  // namespace

Status check_types() {
  static const bool is_known =
      is_options_known() &&
      is_first<Probe, rocksdb_t>([](auto* db) { return rocksdb_get_latest_sequence_number(db); }) &&
      is_first<ProbeHandle, rocksdb_column_family_handle_t>(
          [](auto* handle) { return rocksdb_column_family_handle_get_id(handle); });
  if (is_known) return Status::OK();
  return Status::NotSupported("the loaded librocksdb has other C types than version 7.8",
                              "use the librocksdb that breccia was built with");
}

bool save_error(char** errptr, const Status& status) {
  if (status.ok()) return false;
  std::free(*errptr);
  *errptr = strdup(status.ToString().c_str());
  return true;
}

}  // namespace breccia::capi
