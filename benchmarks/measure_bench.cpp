#include <benchmark/benchmark.h>

#include "lagom/measure/compare.h"
#include "lagom/measure/inputs.h"
#include "lagom/measure/messages.h"
#include "lagom/measure/worker.h"

namespace lagom::measure {
namespace {

void BM_MakeInput(benchmark::State& state) {
  const InputSpec spec{.element_type = static_cast<PrimitiveType>(state.range(0)),
                       .dimensions = {state.range(1)},
                       .int_high = 1000};
  std::string out(static_cast<size_t>(spec.size_bytes()), '\0');
  for (auto _ : state) {
    fill_input(spec, 0, {}, out);
    benchmark::DoNotOptimize(out.data());
  }
  state.SetBytesProcessed(state.iterations() * spec.size_bytes());
}
BENCHMARK(BM_MakeInput)
    ->ArgNames({"type", "elements"})
    ->Args({static_cast<int>(PrimitiveType::kF32), 100 << 20})
    ->Args({static_cast<int>(PrimitiveType::kBF16), 16 << 20})
    ->Args({static_cast<int>(PrimitiveType::kS32), 16 << 20})
    ->Unit(benchmark::kMillisecond);

void BM_CompareOutput(benchmark::State& state) {
  const auto type = static_cast<PrimitiveType>(state.range(0));
  const InputSpec spec{.element_type = type, .dimensions = {state.range(1)}};
  const std::string reference = make_input(spec, 0, {});
  const std::string candidate = make_input(spec, 0, {.perturbation = 1e-6});
  for (auto _ : state) benchmark::DoNotOptimize(compare_output(type, reference, candidate));
  state.SetBytesProcessed(state.iterations() * spec.size_bytes());
}
BENCHMARK(BM_CompareOutput)
    ->ArgNames({"type", "elements"})
    ->Args({static_cast<int>(PrimitiveType::kF32), 4 << 20})
    ->Args({static_cast<int>(PrimitiveType::kBF16), 4 << 20})
    ->Unit(benchmark::kMillisecond);

// What a trial pays for being in another process: a message with a module of this size, and back.
void BM_EncodeMeasureRequest(benchmark::State& state) {
  MeasureRequest request;
  request.program.module.assign(static_cast<size_t>(state.range(0)), 'm');
  request.program.flags = {{"xla_backend_optimization_level", int64_t{2}}};
  for (auto _ : state) {
    const MessageView view = encode(request);
    Message message{.header = view.header, .payloads = {std::string(view.payloads.at(0))}};
    benchmark::DoNotOptimize(decode_measure_request(std::move(message)));
  }
}
BENCHMARK(BM_EncodeMeasureRequest)->ArgName("bytes")->Arg(100 << 10)->Arg(10 << 20);

void BM_WorkerRoundTrip(benchmark::State& state) {
  Worker worker({});
  const WorkerInfo info = worker.hello();
  if (!info.ok()) {
    state.SkipWithError(info.error.c_str());
    return;
  }
  for (auto _ : state) benchmark::DoNotOptimize(worker.hello());
}
BENCHMARK(BM_WorkerRoundTrip)->UseRealTime();

}  // namespace
}  // namespace lagom::measure
