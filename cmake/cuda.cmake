# CUDA: finds nvcc and turns the language on. `./dev setup` puts a toolkit below .deps/cuda.
function(breccia_find_nvcc out)
  foreach(nvcc IN ITEMS "$ENV{CUDACXX}" "${PROJECT_SOURCE_DIR}/.deps/cuda/toolkit/bin/nvcc"
                        "$ENV{CUDA_PATH}/bin/nvcc" /usr/local/cuda/bin/nvcc)
    if(EXISTS "${nvcc}")
      set(${out} "${nvcc}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

# The generation of this machine's GPU; that of the H100 if there is none.
function(breccia_own_gpu out)
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader --id=0
    OUTPUT_VARIABLE found ERROR_QUIET RESULT_VARIABLE failed)
  string(REGEX MATCH "^[0-9]+\\.[0-9]" found "${found}")
  string(REPLACE "." "" found "${found}")
  if(failed OR NOT found)
    set(found 90)
  endif()
  set(${out} ${found}-real PARENT_SCOPE)
endfunction()

if(BRECCIA_CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    breccia_find_nvcc(CMAKE_CUDA_COMPILER)
  endif()
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(breccia_other_gpus 80-real 90-real 100-real)
    breccia_own_gpu(CMAKE_CUDA_ARCHITECTURES)
    if(BRECCIA_CUDA_ALL)
      set(CMAKE_CUDA_ARCHITECTURES ${breccia_other_gpus})
    endif()
    list(REMOVE_ITEM breccia_other_gpus ${CMAKE_CUDA_ARCHITECTURES})
  endif()
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  enable_language(CUDA)
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 13)
    message(FATAL_ERROR "CUDA 13 or newer is needed, found ${CMAKE_CUDA_COMPILER_VERSION}")
  endif()
  # CMake 3.25 does not know yet that nvcc 13 speaks C++20.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  target_compile_options(breccia_flags INTERFACE
    "$<$<COMPILE_LANGUAGE:CUDA>:--extended-lambda;--expt-relaxed-constexpr;-Werror=all-warnings>")
  # Before CUB in every CUDA file: the header says why.
  set(first_header "${PROJECT_SOURCE_DIR}/src/exec/cuda/cub_without_pdl.cuh")
  target_compile_options(breccia_flags INTERFACE
    "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-include ${first_header}>")
endif()

# Adds the CUDA half of src/ to `target`; does nothing in a build without CUDA.
function(breccia_add_cuda target)
  if(NOT BRECCIA_CUDA)
    return()
  endif()
  breccia_sources(kernels src "cu")
  breccia_sources(all src "cc" EXCLUDE "^src/(console|bench|cli|preload|capi)/")
  list(FILTER all INCLUDE REGEX "/cuda/")
  target_sources(${target} PRIVATE ${kernels} ${all})
  # Public: host files ask for it to know whether the CUDA backend is linked in.
  target_compile_definitions(${target} PUBLIC BRECCIA_HAVE_CUDA=1)
  # nvcc adds these folders by itself.
  set(toolkit ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
  list(APPEND toolkit "${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES}/cccl")
  target_include_directories(${target} SYSTEM PUBLIC "$<$<COMPILE_LANGUAGE:CXX>:${toolkit}>")
  # What does not compile for the GPUs that this build leaves out shows here, hardly optimized.
  if(breccia_other_gpus)
    add_library(breccia_other_gpus OBJECT ${kernels})
    set_target_properties(breccia_other_gpus PROPERTIES CUDA_ARCHITECTURES "${breccia_other_gpus}")
    target_compile_options(breccia_other_gpus PRIVATE --Ofast-compile=max)
    target_link_libraries(breccia_other_gpus PRIVATE ${target})
  endif()
endfunction()
