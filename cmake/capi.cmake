# libbreccia.so: the C API. What has RocksDB's shapes is made from the installed rocksdb/c.h.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(capi_made "${PROJECT_BINARY_DIR}/capi")
set(capi_script "${PROJECT_SOURCE_DIR}/tools/c_api.py")
set(rocksdb_c_header "${BRECCIA_ROCKSDB_INCLUDE}/rocksdb/c.h")
add_custom_command(OUTPUT "${capi_made}/forward.c" "${capi_made}/include/breccia/c_rocksdb.h"
  COMMAND ${Python3_EXECUTABLE} "${capi_script}" "${rocksdb_c_header}" --out "${capi_made}"
  DEPENDS "${capi_script}" "${PROJECT_SOURCE_DIR}/tools/c_api.toml" "${rocksdb_c_header}" VERBATIM)
add_custom_target(breccia_capi_made DEPENDS "${capi_made}/forward.c")

breccia_sources(capi_files src/capi "cc")
set(capi_exports "${PROJECT_SOURCE_DIR}/src/capi/exports.map")
add_library(breccia_c SHARED ${capi_files} "${capi_made}/forward.c")
add_dependencies(breccia_c breccia_capi_made)
set_target_properties(breccia_c PROPERTIES OUTPUT_NAME breccia VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR} C_STANDARD 11 LINK_DEPENDS "${capi_exports}")
target_include_directories(breccia_c PUBLIC include "${capi_made}/include")
target_link_libraries(breccia_c PRIVATE breccia::breccia)
target_link_options(breccia_c PRIVATE -Wl,-Bsymbolic-functions -Wl,-z,defs
  "-Wl,--version-script=${capi_exports}")
