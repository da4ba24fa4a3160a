#pragma once

#include <breccia/family.h>

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <unordered_set>
#include <vector>

#include "ordered/state.h"

/// Column family handles as users hold them.
///
/// They are objects of our own: a user may delete one at any time, while the tree's handle is
/// needed as long as anybody reads. All handles of a family share a Family; the registry knows
/// which of them are alive, so that a wrong one is an error and no crash.

namespace breccia::facade {

/// A column family of an open database, as its handles share it.
/// Threads any; close() by whoever closes the database.
class Family : public std::enable_shared_from_this<Family> {
 public:
  explicit Family(tree::TreeFamily tree)
      : id_(tree->GetID()), name_(tree->GetName()), tree_(std::move(tree)) {}

  [[nodiscard]] FamilyId id() const { return id_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  /// The tree's handle; null when the database was closed.
  [[nodiscard]] rocksdb::ColumnFamilyHandle* tree() const { return tree_.get(); }

  /// What the family held when it was dropped: all that there will ever be. Null before.
  [[nodiscard]] const ordered::Pin* at_drop() const {
    return at_drop_.load(std::memory_order_acquire);  // pairs with drop()
  }
  /// What of the family a reader with `pin` sees: of one that was dropped before that, its last
  /// state, as flushes leave it out from the drop on.
  /// Order   the pin is taken first: one that was taken after a drop never goes without its mark.
  [[nodiscard]] ordered::Pin seen_at(ordered::Pin pin) const {
    const ordered::Pin* const last = at_drop();
    if (last != nullptr && last->visible <= pin.visible) return *last;
    return pin;
  }
  /// The family is about to be dropped; nothing is written until that is done, or keep() is called.
  /// Threads one at a time, as keep().
  void drop(ordered::Pin last) {
    lasts_.push_back(std::move(last));
    at_drop_.store(&lasts_.back(), std::memory_order_release);
  }
  /// It was not dropped after all.
  void keep() { at_drop_.store(nullptr, std::memory_order_release); }
  /// Lets go of the database.
  void close() {
    keep();
    lasts_.clear();
    tree_.reset();
  }

 private:
  const FamilyId id_;
  const std::string name_;
  tree::TreeFamily tree_;
  std::atomic<const ordered::Pin*> at_drop_{nullptr};  // into lasts_
  std::list<ordered::Pin> lasts_;  // one of a drop that failed stays: somebody may be reading there
};

/// How librocksdb's own handles begin. Its utilities (WriteBatchWithIndex, DeleteFilesInRange, ...)
/// cast every handle to a class whose first virtual function beyond ColumnFamilyHandle's is cfd();
/// ours has one in the same place, so that they work with it.
class TreeHandle : public rocksdb::ColumnFamilyHandle {
 public:
  [[nodiscard]] virtual void* cfd() const = 0;
};
static_assert(ROCKSDB_MAJOR == 7 && ROCKSDB_MINOR == 8, "look at ColumnFamilyHandleImpl again");

class Handles;

/// Who deletes a handle.
enum class Holder { kUser, kBreccia };

/// What users hold.
class Handle final : public TreeHandle {
 public:
  Handle(std::shared_ptr<Family> family, std::shared_ptr<Handles> registry, Holder holder)
      : family_(std::move(family)), registry_(std::move(registry)), holder_(holder) {}
  ~Handle() override;
  /// The registry gets the memory: see Handles.
  static void operator delete(Handle* handle, std::destroying_delete_t);

  [[nodiscard]] void* cfd() const override;
  [[nodiscard]] const std::string& GetName() const override { return family_->name(); }
  [[nodiscard]] std::uint32_t GetID() const override { return family_->id(); }
  Status GetDescriptor(rocksdb::ColumnFamilyDescriptor* descriptor) override;
  [[nodiscard]] const rocksdb::Comparator* GetComparator() const override;

  [[nodiscard]] const std::shared_ptr<Family>& family() const { return family_; }
  [[nodiscard]] Holder holder() const { return holder_; }

 private:
  const std::shared_ptr<Family> family_;
  const std::shared_ptr<Handles> registry_;
  const Holder holder_;
};

/// The handles of one database that are alive.
///
/// They are known by their addresses. The memory of the last kDestroyedMax that were destroyed
/// stays, so that no new handle takes the place of one that somebody still uses.
///
/// Threads any number.
class Handles : public std::enable_shared_from_this<Handles> {
 public:
  static constexpr std::size_t kDestroyedMax = 1024;

  struct Hooks {
    /// A user is about to delete a handle.
    std::function<void(Handle*)> going;
    /// The last handle of a dropped family is gone.
    std::function<void(FamilyId)> forget;
  };

  /// `flush_parts`: see tree/level0_triggers.h.
  Handles(int flush_parts, Hooks hooks) : flush_parts_(flush_parts), hooks_(std::move(hooks)) {}

  /// A new handle; its end is the end of its life.
  [[nodiscard]] std::unique_ptr<Handle> make(const tree::TreeFamily& tree, Holder holder);
  /// The family of a handle that is one of these and alive; else null.
  /// Cost    no lock for the few handles that the thread used last.
  [[nodiscard]] Family* find(const rocksdb::ColumnFamilyHandle* handle) const;
  /// From now on no handle is one of these, and none holds anything of the database.
  void close();

  [[nodiscard]] int flush_parts() const { return flush_parts_; }

 private:
  friend class Handle;
  struct FreeMemory {
    void operator()(void* memory) const { ::operator delete(memory); }
  };
  struct Entry {
    std::shared_ptr<Family> family;
    int handles = 0;
  };
  void tell_going(Handle* handle) const;
  void remove(const Handle* handle);
  void keep_memory(void* destroyed);
  void change_generation();

  const int flush_parts_;
  mutable std::mutex mutex_;
  Hooks hooks_;
  std::unordered_set<const rocksdb::ColumnFamilyHandle*> live_;
  std::map<FamilyId, Entry> families_;
  std::deque<std::unique_ptr<void, FreeMemory>> destroyed_;  // oldest first
  /// Differs from every earlier value of every registry whenever live_ has changed.
  std::atomic<std::uint64_t> generation_{0};
};

/// Deletes what was opened with a database that is no more.
void destroy(std::vector<rocksdb::ColumnFamilyHandle*>* handles);

/// What is wrong with a handle that Handles::find does not know.
Status not_a_handle();

}  // namespace breccia::facade
