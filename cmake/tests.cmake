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
  "BRECCIA_TEST_SHARE=${BRECCIA_TEST_SHARE}"
  "BRECCIA_SOURCE_DIR=${PROJECT_SOURCE_DIR}"
  "TSAN_OPTIONS=suppressions=${suppressions}/tsan.supp:ignore_noninstrumented_modules=1"
  "LSAN_OPTIONS=suppressions=${suppressions}/lsan.supp:print_suppressions=0"
  "ASAN_OPTIONS=detect_stack_use_after_return=0"
  "UBSAN_OPTIONS=print_stacktrace=1")
if(BRECCIA_TEST_FILTER)
  list(APPEND test_environment "GTEST_FILTER=${BRECCIA_TEST_FILTER}")
endif()

function(breccia_add_test name)
  set(full "${BRECCIA_TEST_NAME}.${name}")
  add_test(NAME ${full} COMMAND ${ARGN} WORKING_DIRECTORY "${PROJECT_BINARY_DIR}")
  set_tests_properties(${full} PROPERTIES TIMEOUT 1800 ENVIRONMENT "${test_environment}")
endfunction()

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
  set(program breccia_${folder}_tests)
  breccia_program(${program} ${files} LIBRARIES breccia_test_support)
  # A machine without a GPU builds the device tests and leaves them alone.
  if(TARGET ${program} AND (NOT folder STREQUAL "device" OR EXISTS /dev/nvidiactl))
    breccia_add_test(${folder} ${program} --gtest_brief=1)
  endif()
endforeach()

if(TARGET breccia_micro AND NOT BRECCIA_SANITIZE)
  breccia_add_test(micro breccia_micro --benchmark_min_time=0.001)
endif()
foreach(test IN ITEMS tidy "tidy_self_test --self-test")
  separate_arguments(test)
  list(POP_FRONT test name)
  breccia_add_test(${name} ${Python3_EXECUTABLE} "${PROJECT_SOURCE_DIR}/tools/tidy.py" ${test})
endforeach()
