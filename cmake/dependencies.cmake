# Libraries, all from the distribution, as the interface target breccia_dependencies.
find_package(Threads REQUIRED)
find_package(TBB REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(pmem2 REQUIRED IMPORTED_TARGET libpmem2)
pkg_check_modules(uring REQUIRED IMPORTED_TARGET liburing)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(isal REQUIRED IMPORTED_TARGET libisal)
pkg_check_modules(snappy REQUIRED IMPORTED_TARGET snappy)
pkg_check_modules(lz4 REQUIRED IMPORTED_TARGET liblz4)
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd)

# Its headers alone: the library is loaded by what uses a network (src/fabric/libfabric/library.h).
pkg_check_modules(fabric REQUIRED libfabric)

# The distribution has no pkg-config file of it.
find_library(BRECCIA_ZOOKEEPER_LIBRARY zookeeper_mt REQUIRED)
find_path(BRECCIA_ZOOKEEPER_INCLUDE zookeeper/zookeeper.h REQUIRED)
add_library(breccia_zookeeper SHARED IMPORTED)
set_target_properties(breccia_zookeeper PROPERTIES
  IMPORTED_LOCATION "${BRECCIA_ZOOKEEPER_LIBRARY}"
  INTERFACE_INCLUDE_DIRECTORIES "${BRECCIA_ZOOKEEPER_INCLUDE}")

# RocksDB: the system's, or one built in Release mode by `./dev rocksdb-release`. The distribution's
# CMake package names private paths of its build, so the library is looked up by name.
if(BRECCIA_ROCKSDB_ROOT)
  cmake_path(ABSOLUTE_PATH BRECCIA_ROCKSDB_ROOT BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" NORMALIZE)
  set(rocksdb_lookup PATHS "${BRECCIA_ROCKSDB_ROOT}" NO_DEFAULT_PATH)
endif()
find_library(BRECCIA_ROCKSDB_LIBRARY rocksdb ${rocksdb_lookup} PATH_SUFFIXES lib REQUIRED)
find_path(BRECCIA_ROCKSDB_INCLUDE rocksdb/db.h ${rocksdb_lookup} PATH_SUFFIXES include REQUIRED)
file(STRINGS "${BRECCIA_ROCKSDB_INCLUDE}/rocksdb/version.h" rocksdb_version
     REGEX "define ROCKSDB_(MAJOR|MINOR)")
list(TRANSFORM rocksdb_version REPLACE ".* " "")
list(JOIN rocksdb_version "." rocksdb_version)
if(NOT rocksdb_version STREQUAL "7.8")
  message(FATAL_ERROR "RocksDB 7.8 is needed, as Debian 12 has it (librocksdb-dev); "
    "${BRECCIA_ROCKSDB_INCLUDE} has ${rocksdb_version}")
endif()
add_library(breccia_rocksdb SHARED IMPORTED)
set_target_properties(breccia_rocksdb PROPERTIES
  IMPORTED_LOCATION "${BRECCIA_ROCKSDB_LIBRARY}"
  INTERFACE_INCLUDE_DIRECTORIES "${BRECCIA_ROCKSDB_INCLUDE}")

# RocksDB last: what it happens to export of other libraries (a librocksdb that was linked with
# liburing.a has all of it) must not stand in for them, as the one that a program runs with need not
# have it.
add_library(breccia_dependencies INTERFACE)
target_link_libraries(breccia_dependencies INTERFACE
  TBB::tbb fmt::fmt spdlog::spdlog nlohmann_json::nlohmann_json
  PkgConfig::pmem2 PkgConfig::uring PkgConfig::xxhash PkgConfig::isal
  PkgConfig::snappy PkgConfig::lz4 PkgConfig::zstd breccia_zookeeper Threads::Threads
  ${CMAKE_DL_LIBS} breccia_rocksdb)

target_include_directories(breccia_dependencies SYSTEM INTERFACE ${fabric_INCLUDE_DIRS})

if(BRECCIA_BENCH)
  find_package(benchmark REQUIRED)
endif()

# The benchmark's hash table, if its headers are there: the system's, or those of `./dev setup`.
find_path(BRECCIA_BOOST_INCLUDE boost/unordered/concurrent_flat_map.hpp
  HINTS "${PROJECT_SOURCE_DIR}/.deps/boost/include")
