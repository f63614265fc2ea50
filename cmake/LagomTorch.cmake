# LibTorch from the unpacked wheel: its libraries and headers, without its own CMake files (they
# bring rpaths of other machines).
set(LAGOM_TORCH_DIR "" CACHE PATH "The folder torch/ of a LibTorch or of the torch wheel; empty: build without it")
if(LAGOM_TORCH_DIR)
  foreach(file lib/libtorch_cpu.so lib/libc10.so lib/libgomp.so.1 include/ATen/Tensor.h)
    if(NOT EXISTS "${LAGOM_TORCH_DIR}/${file}")
      message(FATAL_ERROR "LAGOM_TORCH_DIR: expected ${LAGOM_TORCH_DIR}/${file}, found nothing")
    endif()
  endforeach()
  add_library(lagom_libtorch INTERFACE)
  # After the system's: the wheel carries its own fmt, which would shadow Debian's.
  target_compile_options(lagom_libtorch INTERFACE
    -fopenmp
    "SHELL:-idirafter ${LAGOM_TORCH_DIR}/include"
    "SHELL:-idirafter ${LAGOM_TORCH_DIR}/include/torch/csrc/api/include")
  target_compile_definitions(lagom_libtorch INTERFACE
    USE_DISTRIBUTED USE_C10D_GLOO USE_RPC USE_TENSORPIPE)
  # The wheel's OpenMP runtime, so that the process has only one.
  target_link_libraries(lagom_libtorch INTERFACE
    "${LAGOM_TORCH_DIR}/lib/libtorch_cpu.so" "${LAGOM_TORCH_DIR}/lib/libc10.so"
    "${LAGOM_TORCH_DIR}/lib/libgomp.so.1")
  target_link_options(lagom_libtorch INTERFACE "LINKER:--disable-new-dtags")

  # The library with tensors: what trains and what asks a trained model.
  lagom_sources(torch_sources lagom/tensor lagom/dist lagom/train lagom/cost_model lagom/lm)
  add_library(lagom_torch STATIC ${torch_sources})
  # Loops over values, meant to become vector code; their order of summing is written out.
  set_source_files_properties(lagom/tensor/segment.cpp PROPERTIES COMPILE_OPTIONS "-O3")
  set_source_files_properties(lagom/cost_model/fused_columns.cpp
    lagom/cost_model/fused_conv.cpp lagom/cost_model/fused_tail.cpp
    lagom/cost_model/fused_vector.cpp PROPERTIES
    COMPILE_OPTIONS "-O3;-ffp-contract=fast;-fno-math-errno;-fno-trapping-math")
  # Kernels contract a * b + c and unroll; they name the instruction sets they are compiled for.
  set_source_files_properties(lagom/lm/kernels.cpp lagom/lm/decode_kernels.cpp
    lagom/lm/decode_rounded.cpp PROPERTIES
    COMPILE_OPTIONS "-O3;-ffp-contract=fast;-Wno-psabi")
  # GCC 12 warns of its own headers: their undefined vectors.
  set_property(SOURCE lagom/lm/decode_kernels.cpp lagom/lm/decode_rounded.cpp APPEND PROPERTY
    COMPILE_OPTIONS -Wno-uninitialized -Wno-maybe-uninitialized)
  target_link_libraries(lagom_torch
    PUBLIC lagom_core lagom_libtorch
    PRIVATE lagom_json lagom_fmt lagom_httplib)

  # The commands that need tensors, in a program of their own: loading LibTorch takes a quarter of
  # a second and 120 MB, which the other commands need not pay. `lagom train` runs it.
  lagom_program(lagom_learn lagom-learn learn)
  if(TARGET lagom_learn)
    target_sources(lagom_learn PRIVATE cli/common.cpp cli/interrupt.cpp cli/metrics_table.cpp
      cli/program.cpp cli/tune.cpp cli/tune_many.cpp)
    target_link_libraries(lagom_learn PRIVATE lagom_torch lagom_allocator)
  endif()
endif()
