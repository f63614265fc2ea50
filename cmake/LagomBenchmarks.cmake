# One Google Benchmark binary from benchmarks/*_bench.cpp.
file(GLOB bench_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/benchmarks/*_bench.cpp")
if(bench_sources)
  find_package(benchmark REQUIRED)
  add_executable(lagom_bench ${bench_sources})
  target_compile_definitions(lagom_bench PRIVATE LAGOM_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_link_libraries(lagom_bench PRIVATE
    lagom_core lagom_json lagom_fmt lagom_protozero lagom_allocator
    benchmark::benchmark benchmark::benchmark_main)
endif()
