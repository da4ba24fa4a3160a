# Tests: one GoogleTest program per folder of tests/, one ctest entry per program. Listing thousands
# of tests one by one would cost more than running them.
include(CTest)
if(NOT BUILD_TESTING)
  return()
endif()
find_package(GTest REQUIRED)
find_package(Python3 REQUIRED COMPONENTS Interpreter)
find_library(BRECCIA_RAPIDCHECK rapidcheck REQUIRED)

breccia_sources(support_files tests/support "cc")
add_library(breccia_test_support INTERFACE)
if(support_files)
  add_library(breccia_test_support_files STATIC ${support_files})
  target_link_libraries(breccia_test_support_files PUBLIC breccia::breccia GTest::gtest)
  target_include_directories(breccia_test_support_files PUBLIC tests)
  target_compile_options(breccia_test_support_files PRIVATE ${BRECCIA_TEST_FLAGS})
  breccia_precompile(breccia_test_support_files <gtest/gtest.h>)
  target_link_libraries(breccia_test_support INTERFACE breccia_test_support_files)
endif()
target_include_directories(breccia_test_support INTERFACE tests)
target_link_libraries(breccia_test_support INTERFACE
  GTest::gtest GTest::gtest_main ${BRECCIA_RAPIDCHECK})

if(BRECCIA_SANITIZE STREQUAL "thread")
  target_sources(breccia_test_support INTERFACE
    "${PROJECT_SOURCE_DIR}/tools/sanitizers/tsan_tbb.cc")
endif()

set(suppressions "${PROJECT_SOURCE_DIR}/tools/sanitizers")
set(test_environment
  # Thousands of planted faults would hide the one line that says what failed.
  "BRECCIA_LOG_LEVEL=off"
  "BRECCIA_SOURCE_DIR=${PROJECT_SOURCE_DIR}"
  "TSAN_OPTIONS=suppressions=${suppressions}/tsan.supp:ignore_noninstrumented_modules=1"
  "LSAN_OPTIONS=suppressions=${suppressions}/lsan.supp:print_suppressions=0"
  "ASAN_OPTIONS=detect_stack_use_after_return=0"
  "UBSAN_OPTIONS=print_stacktrace=1")
if(BRECCIA_TEST_WORD)
  list(APPEND test_environment "GTEST_FILTER=*${BRECCIA_TEST_WORD}*")
endif()
# Their full counts are for `./dev soak`.
set(long_folders crash linearize memory metamorphic model)
# Where rare roads are taken (base/sometimes.h): programs that compare results, and count no steps.
set(sometimes_folders crash linearize metamorphic model)
# The last starts first, so that no core waits at the end; a second ctest knows by itself.
set(slowest_last memory metamorphic facade unit crash)

function(breccia_add_test name)
  set(full "${BRECCIA_TEST_NAME}.${name}")
  add_test(NAME ${full} COMMAND ${ARGN} WORKING_DIRECTORY "${PROJECT_BINARY_DIR}")
  set(share ${BRECCIA_TEST_SHARE})
  if(name IN_LIST long_folders)
    set(share ${BRECCIA_LONG_SHARE})
  endif()
  set(sometimes 0)
  if(name IN_LIST sometimes_folders)
    set(sometimes 1)
  endif()
  list(FIND slowest_last ${name} cost)
  set_tests_properties(${full} PROPERTIES TIMEOUT 1800 COST ${cost}
    ENVIRONMENT "${test_environment};BRECCIA_TEST_SHARE=${share};BRECCIA_SOMETIMES=${sometimes}")
endfunction()

# Takes out of `list` the files whose tests all lack BRECCIA_TEST_WORD; every file, if none of the
# folder has the word.
function(breccia_keep_tests_with_word folder list)
  set(kept)
  set(is_needed FALSE)
  breccia_sources(sources tests/${folder} "cc;h;cu")
  foreach(file IN LISTS sources)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${file}")
    file(STRINGS "${PROJECT_SOURCE_DIR}/${file}" tests REGEX "^(TYPED_)?TEST(_F|_P)?\\(")
    file(STRINGS "${PROJECT_SOURCE_DIR}/${file}" words REGEX "${BRECCIA_TEST_WORD}")
    if(words)
      set(is_needed TRUE)
    endif()
    if(file IN_LIST ${list} AND (words OR NOT tests))
      list(APPEND kept "${file}")
    endif()
  endforeach()
  if(NOT is_needed)
    set(kept)
  endif()
  set(${list} ${kept} PARENT_SCOPE)
endfunction()

# A second entry of a folder's tests, with batches on the device and `share` percent of the seeds.
# It runs in a folder of its own, as some tests leave files there, while no other uses the device.
function(breccia_add_cuda_test name share)
  set(full "${BRECCIA_TEST_NAME}.${name}_on_cuda")
  set(folder "${PROJECT_BINARY_DIR}/on_cuda")
  file(MAKE_DIRECTORY "${folder}")
  add_test(NAME ${full} COMMAND breccia_${name}_tests --gtest_brief=1 WORKING_DIRECTORY "${folder}")
  set_tests_properties(${full} PROPERTIES TIMEOUT 1800 RESOURCE_LOCK gpu
    ENVIRONMENT "${test_environment};BRECCIA_TEST_SHARE=${share};BRECCIA_TEST_BACKEND=cuda")
endfunction()

# They instantiate the algorithms themselves, and run long; BRECCIA_TEST_FLAGS are not for them.
set(optimized_folders conformance device)

# Generated inputs and fuzz targets have no test program of their own; device/ needs CUDA.
file(GLOB folders CONFIGURE_DEPENDS LIST_DIRECTORIES true
     RELATIVE "${PROJECT_SOURCE_DIR}/tests" "${PROJECT_SOURCE_DIR}/tests/*")
list(REMOVE_ITEM folders support data fuzz)
foreach(folder IN LISTS folders)
  breccia_sources(files tests/${folder} "cc")
  if(folder STREQUAL "device" AND NOT BRECCIA_CUDA)
    continue()
  elseif(folder STREQUAL "device")
    breccia_sources(kernels tests/device "cu")
    list(APPEND files ${kernels})
  endif()
  if(NOT BRECCIA_TEST_PROGRAM)
    list(FILTER files EXCLUDE REGEX "^tests/(preload|unit/(bench|cli|console))/")
  endif()
  if(BRECCIA_TEST_WORD)
    breccia_keep_tests_with_word(${folder} files)
  endif()
  if(NOT files)
    continue()
  endif()
  if(folder STREQUAL "metamorphic")
    list(APPEND files tests/model/keys.cc)
  elseif(folder STREQUAL "crash")
    list(APPEND files tests/linearize/history.cc)
  elseif(folder STREQUAL "preload")
    list(APPEND files src/preload/settings.cc)
  endif()
  set(program breccia_${folder}_tests)
  breccia_program(${program} ${files} LIBRARIES breccia_test_support)
  # A precompiled header and the files that take it need the same flags.
  if(folder IN_LIST optimized_folders)
    breccia_precompile(${program} FROM breccia_core)
    if(NOT CMAKE_BUILD_TYPE STREQUAL "Release")
      # Half of the compiler's time; device code of the library is as it ships.
      target_compile_options(${program} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:--Ofast-compile=mid>")
    endif()
  else()
    target_compile_options(${program} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${BRECCIA_TEST_FLAGS}>")
    breccia_precompile(${program} FROM breccia_test_support_files)
  endif()
  # A machine without a GPU builds the device tests and leaves them alone.
  if(TARGET ${program} AND (NOT folder STREQUAL "device" OR EXISTS /dev/nvidiactl))
    breccia_add_test(${folder} ${program} --gtest_brief=1)
  endif()
endforeach()

if(TARGET breccia_unit_tests AND CMAKE_BUILD_TYPE STREQUAL "Release" AND
   CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 reports this where two vectors are compared.
  target_compile_options(breccia_unit_tests PRIVATE -Wno-stringop-overread)
endif()

# tests/unit/wal/recorded_calls.cc sees what our own code asks of the system, syncs above all.
if(TARGET breccia_unit_tests)
  foreach(call IN ITEMS open mkdir rename unlink ftruncate posix_fallocate pwrite pwritev2 fsync
                        fdatasync io_uring_submit_and_wait pmem2_get_flush_fn pmem2_get_drain_fn)
    target_link_options(breccia_unit_tests PRIVATE "LINKER:--wrap=${call}")
  endforeach()
endif()

# The tests of the whole engine run on the device, too. The shares aim at two minutes each.
if(BRECCIA_CUDA AND EXISTS /dev/nvidiactl)
  breccia_add_cuda_test(metamorphic 6)
  breccia_add_cuda_test(model 50)
  breccia_add_cuda_test(linearize 100)
  set_tests_properties(${BRECCIA_TEST_NAME}.device PROPERTIES RESOURCE_LOCK gpu)
endif()

if(TARGET breccia_preload_tests)
  # What the programs that a test starts need first in LD_PRELOAD.
  set(preload_first)
  if(BRECCIA_SANITIZE MATCHES "address")
    execute_process(COMMAND "${CMAKE_CXX_COMPILER}" -print-file-name=libasan.so
      OUTPUT_VARIABLE preload_first OUTPUT_STRIP_TRAILING_WHITESPACE)
  endif()
  target_compile_definitions(breccia_preload_tests PRIVATE
    "BRECCIA_PRELOAD_LIBRARY=\"${preload_first} $<TARGET_FILE:breccia_preload>\""
    "BRECCIA_PROGRAM=\"$<TARGET_FILE:breccia>\"")
  add_dependencies(breccia_preload_tests breccia_preload breccia)
endif()

if(TARGET breccia_capi_tests)
  # One program in C, compiled for each of the two C APIs.
  foreach(side IN ITEMS rocksdb breccia)
    add_library(breccia_capi_on_${side} OBJECT tests/capi/random_program.c)
    target_include_directories(breccia_capi_on_${side} PRIVATE "${BRECCIA_ROCKSDB_INCLUDE}")
  endforeach()
  target_compile_definitions(breccia_capi_on_breccia PRIVATE ON_BRECCIA)
  add_library(breccia_capi_walk OBJECT tests/capi/walk.c)
  foreach(target IN ITEMS breccia_capi_on_rocksdb breccia_capi_on_breccia breccia_capi_walk)
    set_target_properties(${target} PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF)
    target_compile_options(${target} PRIVATE -Wall -Wextra -Werror)
    target_include_directories(${target} PRIVATE include "${capi_made}/include")
    add_dependencies(${target} breccia_capi_made)
    target_link_libraries(breccia_capi_tests PRIVATE ${target})
  endforeach()
  target_link_libraries(breccia_capi_tests PRIVATE breccia_c)
  if(NOT BRECCIA_SANITIZE)
    breccia_add_test(capi_table ${Python3_EXECUTABLE} "${capi_script}" "${rocksdb_c_header}"
      --check "${PROJECT_SOURCE_DIR}/docs/c-api.md")
  endif()
endif()

if(TARGET breccia_micro AND NOT BRECCIA_SANITIZE)
  breccia_add_test(micro breccia_micro --benchmark_min_time=0.001)
  # Beside other tests its threads, which wait for each other, take forty times as long.
  set_tests_properties(${BRECCIA_TEST_NAME}.micro PROPERTIES RUN_SERIAL ON)
endif()
# What is installed: a program of a user's, the program, and the preload library under the
# distribution's db_bench with the distribution's RocksDB, whichever one the library was built with.
# No file names a folder of this machine. ThreadSanitizer's runtime cannot be loaded into db_bench.
if(NOT BRECCIA_SANITIZE)
  breccia_add_test(install sh -ec "${CMAKE_COMMAND} --install . --prefix installed >/dev/null
    export PKG_CONFIG_PATH=installed/${CMAKE_INSTALL_LIBDIR}/pkgconfig
    ${CMAKE_CXX_COMPILER} -std=c++20 -o installed/first_steps \
      ${PROJECT_SOURCE_DIR}/examples/first_steps.cc $(pkg-config --cflags --libs breccia-cpp)
    installed/bin/breccia --help >/dev/null
    ! grep -l '${PROJECT_SOURCE_DIR}/' installed/bin/breccia installed/${CMAKE_INSTALL_LIBDIR}/lib*
    ")
endif()
if(BRECCIA_TEST_PROGRAM AND NOT BRECCIA_SANITIZE STREQUAL "thread")
  set(installed_preload installed_preload/${CMAKE_INSTALL_LIBDIR})
  breccia_add_test(install_preload sh -ec "
    ${CMAKE_COMMAND} --install . --prefix installed_preload >/dev/null
    rm -rf installed_preload/db
    env ASAN_OPTIONS=detect_leaks=0 BRECCIA_BACKEND=host BRECCIA_LOG_LEVEL=warning \
      LD_PRELOAD='${preload_first} ${installed_preload}/libbreccia_preload.so' \
      LD_BIND_NOW=1 db_bench --db=installed_preload/db --num=2000 \
      --benchmarks=fillrandom,readrandom >installed_preload/out 2>installed_preload/err || {
        cat installed_preload/out installed_preload/err
        exit 1
      }
    grep '^breccia: serves installed_preload/db' installed_preload/err")
endif()
# What looks at sources alone says the same in every preset.
if(NOT BRECCIA_SANITIZE)
  set(standard "${PROJECT_SOURCE_DIR}/bench/standard.py")
  breccia_add_test(standard_self_test ${Python3_EXECUTABLE} "${standard}" --self-test)
  breccia_add_test(compaction_load_self_test ${Python3_EXECUTABLE}
    "${PROJECT_SOURCE_DIR}/bench/compaction_load.py" --self-test)
  breccia_add_test(report_test ${Python3_EXECUTABLE} "${PROJECT_SOURCE_DIR}/bench/report_test.py")
  breccia_add_test(standard sh -ec "
    rm -rf standard && mkdir standard
    ${standard} ./breccia --scale 0.0001 --out standard/rows.jsonl --only 'in memory' transactions \
      'single requests' 'ycsb e, b'
    ${standard} ./breccia --scale 0.0001 --only put --against . --rounds 2
    ${PROJECT_SOURCE_DIR}/bench/report.py standard
    grep -q 'clean GET in batches' standard/report/report.html")
  foreach(test IN ITEMS tidy "tidy_self_test --self-test")
    separate_arguments(test)
    list(POP_FRONT test name)
    breccia_add_test(${name} ${Python3_EXECUTABLE} "${PROJECT_SOURCE_DIR}/tools/tidy.py" ${test})
  endforeach()
else()
  # Of the programs only those that a test starts.
  set_target_properties(breccia_cli breccia breccia_preload breccia_c PROPERTIES
    EXCLUDE_FROM_ALL ON)
  foreach(file IN LISTS example_files)
    cmake_path(GET file STEM name)
    set_target_properties(example_${name} PROPERTIES EXCLUDE_FROM_ALL ON)
  endforeach()
endif()
