#include <benchmark/benchmark.h>
#include <mimalloc.h>

#include <cstdlib>
#include <map>
#include <string>

#include "benchmarks/large_module.h"
#include "lagom/hlo/cost_analysis.h"
#include "lagom/hlo/module_file.h"
#include "lagom/hlo/proto_reader.h"
#include "lagom/hlo/proto_writer.h"
#include "lagom/hlo/text_reader.h"
#include "lagom/hlo/text_writer.h"
#include "lagom/hlo/verifier.h"
#include "lagom/util/file.h"

namespace lagom::hlo {
namespace {

/// LAGOM_BENCH_HLO: a file to compare readers on (benchmarks/peers/hlo_text_peer.py).
const char* file_to_read() {
  return std::getenv("LAGOM_BENCH_HLO");
}

void BM_ReadHloFile(benchmark::State& state) {
  const std::string bytes = read_file(file_to_read());
  size_t instructions = 0;
  for (auto _ : state) {
    const std::vector<Module> modules = read_modules(bytes, "bench");
    instructions = modules.front().num_instructions();
    benchmark::DoNotOptimize(instructions);
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes.size()));
  state.counters["instructions"] = static_cast<double>(instructions);
}

const bool kHasFile =
    file_to_read() != nullptr &&
    benchmark::RegisterBenchmark("BM_ReadHloFile", BM_ReadHloFile)->Unit(benchmark::kMillisecond) !=
        nullptr;

void BM_ReadHloText(benchmark::State& state) {
  const std::string& text = large_text(static_cast<size_t>(state.range(0)));
  size_t instructions = 0;
  for (auto _ : state) {
    const Module module = read_hlo_text(text, "bench");
    instructions = module.num_instructions();
    benchmark::DoNotOptimize(instructions);
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(text.size()));
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(instructions));
}
BENCHMARK(BM_ReadHloText)
    ->ArgName("instructions")
    ->Arg(2400)
    ->Arg(40000)
    ->Unit(benchmark::kMillisecond);

void BM_ReadHloProto(benchmark::State& state) {
  const Module& module = large_module(static_cast<size_t>(state.range(0)));
  const std::string bytes = write_hlo_proto(module);
  for (auto _ : state) {
    const Module read = read_hlo_proto(bytes, "bench");
    benchmark::DoNotOptimize(read.entry());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes.size()));
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(module.num_instructions()));
}
BENCHMARK(BM_ReadHloProto)
    ->ArgName("instructions")
    ->Arg(2400)
    ->Arg(40000)
    ->Unit(benchmark::kMillisecond);

void BM_WriteHloText(benchmark::State& state) {
  const Module& module = large_module(40000);
  for (auto _ : state) benchmark::DoNotOptimize(write_hlo_text(module).size());
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(module.num_instructions()));
}
BENCHMARK(BM_WriteHloText)->Unit(benchmark::kMillisecond);

void BM_WriteHloProto(benchmark::State& state) {
  const Module& module = large_module(40000);
  for (auto _ : state) benchmark::DoNotOptimize(write_hlo_proto(module).size());
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(module.num_instructions()));
}
BENCHMARK(BM_WriteHloProto)->Unit(benchmark::kMillisecond);

/// Bytes of all blocks in use in a heap.
size_t used_bytes(const mi_heap_t* heap) {
  size_t bytes = 0;
  mi_heap_visit_blocks(
      heap, /*visit_all_blocks=*/false,
      [](const mi_heap_t*, const mi_heap_area_t* area, void*, size_t, void* sum) {
        *static_cast<size_t*>(sum) += area->used * area->block_size;
        return true;
      },
      &bytes);
  return bytes;
}

void BM_CloneModule(benchmark::State& state) {
  const Module& module = large_module(40000);
  size_t bytes = 0;
  for (auto _ : state) {
    state.PauseTiming();
    mi_heap_t* const own = mi_heap_new();
    mi_heap_t* const usual = mi_heap_set_default(own);
    state.ResumeTiming();
    {
      const Module copy = module.clone();
      state.PauseTiming();
      mi_heap_set_default(usual);
      bytes = used_bytes(own);
      state.ResumeTiming();
    }
    state.PauseTiming();
    mi_heap_delete(own);
    state.ResumeTiming();
  }
  state.counters["heap_mb"] = static_cast<double>(bytes) / 1e6;
}
BENCHMARK(BM_CloneModule)->Unit(benchmark::kMillisecond);

void BM_Verify(benchmark::State& state) {
  const Module& module = large_module(40000);
  for (auto _ : state) verify(module, "bench");
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(module.num_instructions()));
}
BENCHMARK(BM_Verify)->Unit(benchmark::kMillisecond);

void BM_CostAnalysis(benchmark::State& state) {
  const Module& module = large_module(40000);
  for (auto _ : state) benchmark::DoNotOptimize(CostAnalysis(module).total().flops);
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(module.num_instructions()));
}
BENCHMARK(BM_CostAnalysis)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lagom::hlo
