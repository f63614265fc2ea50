# One Google Benchmark binary from benchmarks/*_bench.cpp, and one each for what needs LibTorch.
set(torch_benchmarks cost_model lm segments)
file(GLOB bench_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/benchmarks/*_bench.cpp")
foreach(name IN LISTS torch_benchmarks)
  list(REMOVE_ITEM bench_sources "${PROJECT_SOURCE_DIR}/benchmarks/${name}_bench.cpp")
endforeach()
if(bench_sources)
  find_package(benchmark REQUIRED)
  add_executable(lagom_bench ${bench_sources})
  target_compile_definitions(lagom_bench PRIVATE LAGOM_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_link_libraries(lagom_bench PRIVATE
    lagom_core lagom_json lagom_fmt lagom_protozero lagom_allocator
    benchmark::benchmark benchmark::benchmark_main)
endif()
foreach(name IN LISTS torch_benchmarks)
  if(TARGET lagom_torch AND EXISTS "${PROJECT_SOURCE_DIR}/benchmarks/${name}_bench.cpp")
    find_package(benchmark REQUIRED)
    add_executable(${name}_bench "benchmarks/${name}_bench.cpp")
    target_link_libraries(${name}_bench PRIVATE
      lagom_torch lagom_allocator benchmark::benchmark benchmark::benchmark_main)
  endif()
endforeach()
if(TARGET lm_bench)  # its loop over memory is compiled as kernels are
  target_compile_options(lm_bench PRIVATE -Wno-psabi)
endif()
# A study that measures nothing itself.
add_executable(kernel_study benchmarks/kernel_study.cpp)
target_link_libraries(kernel_study PRIVATE lagom_core)
add_executable(form_study benchmarks/form_study.cpp)
target_link_libraries(form_study PRIVATE lagom_core)
if(TARGET lagom_torch)
  add_executable(program_study benchmarks/program_study.cpp learn/models.cpp)
  target_link_libraries(program_study PRIVATE lagom_torch lagom_allocator)
endif()
