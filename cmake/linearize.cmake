# The checker of recorded histories, tools/linearize, and the test that runs it on what
# breccia_linearize_tests recorded. Go and its module come with `./dev setup`.
find_program(GO_EXECUTABLE go)
if(NOT GO_EXECUTABLE)
  message(FATAL_ERROR "Go is missing: run ./dev setup, or install golang-go")
endif()
set(linearize_source "${PROJECT_SOURCE_DIR}/tools/linearize")
set(linearize_program "${PROJECT_BINARY_DIR}/linearize")
set(go_environment ${CMAKE_COMMAND} -E env GOTOOLCHAIN=local GOPROXY=off GOSUMDB=off
    "GOFLAGS=-mod=readonly -buildvcs=false -modcacherw"
    "GOMODCACHE=${PROJECT_SOURCE_DIR}/.deps/go")
file(GLOB linearize_files CONFIGURE_DEPENDS "${linearize_source}/*.go" "${linearize_source}/go.*")
add_custom_command(OUTPUT "${linearize_program}"
  COMMAND ${go_environment} ${GO_EXECUTABLE} build -p 1 -o "${linearize_program}" .
  WORKING_DIRECTORY "${linearize_source}" DEPENDS ${linearize_files} VERBATIM)
add_custom_target(breccia_linearize_check ALL DEPENDS "${linearize_program}")

# Tests of processes ask it themselves.
if(TARGET breccia_crash_tests)
  target_compile_definitions(breccia_crash_tests PRIVATE
    "BRECCIA_LINEARIZE=\"${linearize_program}\"")
  add_dependencies(breccia_crash_tests breccia_linearize_check)
endif()

# Checks what the ctest entry `name`, if there is one, leaves in `folder`.
function(breccia_check_histories name folder)
  set(full "${BRECCIA_TEST_NAME}.${name}")
  if(NOT TEST ${full})
    return()
  endif()
  set_tests_properties(${full} PROPERTIES FIXTURES_SETUP ${full}.histories)
  add_test(NAME ${full}_check COMMAND "${linearize_program}" -jobs 2 -timeout 300s
    "${folder}/histories")
  set_tests_properties(${full}_check PROPERTIES
    FIXTURES_REQUIRED ${full}.histories TIMEOUT 1800)
endfunction()
breccia_check_histories(linearize "${PROJECT_BINARY_DIR}")
breccia_check_histories(linearize_on_cuda "${PROJECT_BINARY_DIR}/on_cuda")
if(NOT BRECCIA_SANITIZE)
  add_test(NAME ${BRECCIA_TEST_NAME}.linearize_go WORKING_DIRECTORY "${linearize_source}"
    COMMAND ${go_environment} sh -c "go vet ./... && go test -count=1 ./...")
endif()
