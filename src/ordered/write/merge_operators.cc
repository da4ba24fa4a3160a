#include <breccia/merge_operators.h>
#include <rocksdb/utilities/object_registry.h>

#include <cstdint>
#include <cstring>

namespace breccia {

namespace {

using rocksdb::Slice;

std::uint64_t number_or_zero(const Slice& value) {
  std::uint64_t number = 0;
  if (value.size() == sizeof number) std::memcpy(&number, value.data(), sizeof number);
  return number;
}

class Int64Add final : public rocksdb::AssociativeMergeOperator {
 public:
  bool Merge(const Slice&, const Slice* existing, const Slice& operand, std::string* merged,
             rocksdb::Logger*) const override {
    const std::uint64_t before = existing == nullptr ? 0 : number_or_zero(*existing);
    const std::uint64_t sum = before + number_or_zero(operand);
    merged->assign(reinterpret_cast<const char*>(&sum), sizeof sum);
    return true;
  }
  const char* Name() const override { return "breccia.Int64Add"; }
};

/// Keeps the operand that comes last in byte order, or first.
template <bool kLast>
class BytesExtreme final : public rocksdb::AssociativeMergeOperator {
 public:
  bool Merge(const Slice&, const Slice* existing, const Slice& operand, std::string* merged,
             rocksdb::Logger*) const override {
    const bool keeps = existing != nullptr &&
                       (kLast ? existing->compare(operand) >= 0 : existing->compare(operand) <= 0);
    const Slice& kept = keeps ? *existing : operand;
    merged->assign(kept.data(), kept.size());
    return true;
  }
  const char* Name() const override { return kLast ? "breccia.BytesMax" : "breccia.BytesMin"; }
};

}  // namespace

std::shared_ptr<rocksdb::MergeOperator> NewInt64AddOperator() {
  return std::make_shared<Int64Add>();
}
std::shared_ptr<rocksdb::MergeOperator> NewBytesMaxOperator() {
  return std::make_shared<BytesExtreme<true>>();
}
std::shared_ptr<rocksdb::MergeOperator> NewBytesMinOperator() {
  return std::make_shared<BytesExtreme<false>>();
}

void RegisterMergeOperators() {
  using rocksdb::MergeOperator;
  static const bool registered = [] {
    auto& library = *rocksdb::ObjectLibrary::Default();
    const auto add = [&]<class Operator>(Operator* /*which*/) {
      const auto make = [](const std::string&, std::unique_ptr<MergeOperator>* guard,
                           std::string*) {
        *guard = std::make_unique<Operator>();
        return guard->get();
      };
      library.AddFactory<MergeOperator>(Operator().Name(), make);
    };
    add(static_cast<Int64Add*>(nullptr));
    add(static_cast<BytesExtreme<true>*>(nullptr));
    add(static_cast<BytesExtreme<false>*>(nullptr));
    return true;
  }();
  (void)registered;
}

}  // namespace breccia
