# libbreccia_preload.so: puts breccia before librocksdb in programs that are already built.
breccia_sources(preload_files src/preload "cc")
set(preload_exports "${PROJECT_SOURCE_DIR}/src/preload/exports.map")
add_library(breccia_preload SHARED ${preload_files})
target_link_libraries(breccia_preload PRIVATE breccia::breccia)
breccia_precompile(breccia_preload FROM breccia_core)
# Its own calls and addresses mean its own functions, whatever the program has.
target_link_options(breccia_preload PRIVATE -Wl,-Bsymbolic-functions -Wl,-z,defs
  "-Wl,--version-script=${preload_exports}")
set_target_properties(breccia_preload PROPERTIES LINK_DEPENDS "${preload_exports}")
