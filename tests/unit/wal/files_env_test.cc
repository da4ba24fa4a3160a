#include "wal/files_env.h"

#include <gtest/gtest.h>

#include <memory>

#include "support/sparse_files.h"

namespace breccia::wal {

namespace {

/// An Env as a user wraps one.
class Wrapper final : public rocksdb::EnvWrapper {
 public:
  explicit Wrapper(rocksdb::Env* env) : EnvWrapper(env) {}
};

}  // namespace

// Goal: an Env that has the log's files is known by what it is, not by its name.
// Method: one that has them, a wrapper around it, which RocksDB calls alike, others, and none.
// Mutation: asking for the name alone takes the wrapper for what it wraps.
TEST(FilesEnv, IsNotItsWrapper) {
  const std::shared_ptr<Files> files = testing::make_sparse_files();
  FilesEnv env(rocksdb::Env::Default(), files);
  Wrapper wrapper(&env);
  Wrapper other(rocksdb::Env::Default());
  ASSERT_STREQ(wrapper.Name(), env.Name());
  EXPECT_EQ(files_of(&env), files);
  EXPECT_EQ(files_of(&wrapper), nullptr);
  EXPECT_EQ(files_of(&other), nullptr);
  EXPECT_EQ(files_of(rocksdb::Env::Default()), nullptr);
  EXPECT_EQ(files_of(nullptr), nullptr);
}

}  // namespace breccia::wal
