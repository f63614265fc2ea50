#include <benchmark/benchmark.h>

#include <string>

#include "lagom/hlo/evaluator.h"
#include "lagom/hlo/text_reader.h"

namespace lagom::hlo {
namespace {

// Evaluates a program of f32 parameters, all ones; items are products of its root.
void evaluate_program(benchmark::State& state, const std::string& text, int64_t products) {
  const Module module = read_hlo_text("HloModule m\n" + text, "bench");
  std::vector<Value> arguments;
  for (const Instruction* parameter : module.entry()->parameters()) {
    arguments.emplace_back(Values(static_cast<size_t>(parameter->shape.num_elements()), 1.0));
  }
  for (auto _ : state) benchmark::DoNotOptimize(evaluate(*module.entry(), arguments));
  state.SetItemsProcessed(state.iterations() * products);
}

void BM_EvaluateDot(benchmark::State& state) {
  const int64_t n = state.range(0);
  const std::string shape = "f32[" + std::to_string(n) + "," + std::to_string(n) + "]";
  evaluate_program(state,
                   "ENTRY e { x = " + shape + " parameter(0) y = " + shape +
                       " parameter(1) ROOT r = " + shape +
                       " dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }",
                   n * n * n);
}
BENCHMARK(BM_EvaluateDot)->ArgName("n")->Arg(64)->Arg(512)->Unit(benchmark::kMillisecond);

void BM_EvaluateConvolution(benchmark::State& state) {
  evaluate_program(state,
                   R"(ENTRY e { x = f32[1,32,32,64] parameter(0) k = f32[3,3,64,64] parameter(1)
  ROOT r = f32[1,32,32,64] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f })",
                   int64_t{32} * 32 * 64 * 9 * 64);
}
BENCHMARK(BM_EvaluateConvolution)->Unit(benchmark::kMillisecond);

void BM_EvaluateDepthwiseConvolution(benchmark::State& state) {
  evaluate_program(state,
                   R"(ENTRY e { x = f32[1,32,32,256] parameter(0) k = f32[3,3,1,256] parameter(1)
  ROOT r = f32[1,32,32,256] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=256 })",
                   int64_t{32} * 32 * 256 * 9);
}
BENCHMARK(BM_EvaluateDepthwiseConvolution)->Unit(benchmark::kMillisecond);

void BM_EvaluateReduce(benchmark::State& state) {
  evaluate_program(state, R"(
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY e { x = f32[1024,1024] parameter(0) zero = f32[] constant(0)
  ROOT r = f32[1024] reduce(x, zero), dimensions={0}, to_apply=add })",
                   int64_t{1} << 20);
}
BENCHMARK(BM_EvaluateReduce)->Unit(benchmark::kMillisecond);

// A reducer that is interpreted.
void BM_EvaluateArgmax(benchmark::State& state) {
  evaluate_program(state, R"(
larger { a = f32[] parameter(0)  i = s32[] parameter(1)  b = f32[] parameter(2)  j = s32[] parameter(3)
  first = pred[] compare(a, b), direction=GE
  v = f32[] select(first, a, b)  k = s32[] select(first, i, j)
  ROOT t = (f32[], s32[]) tuple(v, k) }
ENTRY e { x = f32[1024,1024] parameter(0)  n = s32[1024,1024] iota(), iota_dimension=1
  low = f32[] constant(-inf)  zero = s32[] constant(0)
  ROOT r = (f32[1024], s32[1024]) reduce(x, n, low, zero), dimensions={1}, to_apply=larger })",
                   int64_t{1} << 20);
}
BENCHMARK(BM_EvaluateArgmax)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lagom::hlo
