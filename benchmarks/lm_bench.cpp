#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <memory>

#include "lagom/lm/checkpoint.h"
#include "lagom/lm/decoder.h"
#include "lagom/lm/flops.h"
#include "lagom/lm/ops.h"
#include "lagom/lm/simd.h"
#include "lagom/lm/trainer.h"
#include "lagom/tensor/caching_allocator.h"
#include "lagom/tensor/threads.h"
#include "lagom/train/flat_parameters.h"

// LAGOM_BENCH_THREADS=N sets the threads; one CPU each otherwise. LAGOM_BENCH_MODEL: see
// BM_DecodeModel.

namespace lagom::lm {
namespace {

using at::Tensor;

constexpr int64_t kBatch = 8, kLength = 256;

/// What stands in every other block; the others are dense.
enum Kind { kDense, kMod, kMoe, kStagedMode, kIntegratedMode, kTokenChoiceMoe };

/// d 256, 6 blocks; the dense one has 4.9 million parameters. Experts as in configs/lm.
LmOptions bench_model(int64_t kind) {
  LmOptions options;
  options.routing.every = kind == kMod || kind == kStagedMode ? 2 : 0;
  if (kind >= kMoe) {
    options.experts.count = 4;
    options.experts.every = 2;
    options.experts.offset = 1;
  }
  if (kind == kIntegratedMode) options.experts.no_ops = 12;
  if (kind == kTokenChoiceMoe) options.experts.choice = ExpertChoice::kToken;
  return options;
}

/// A model with all that a step of training needs.
struct Step {
  explicit Step(const LmOptions& options) : model(options, 1) {
    train::ParameterGroup group{.name = "all"};
    for (const NamedTensor& p : model.parameters()) group.parameters.emplace_back(p.name, p.value);
    flat = std::make_unique<train::FlatParameters>(std::vector{group});
    optimizer = std::make_unique<train::AdamW>(*flat, train::AdamWOptions{});
    tokens = at::randint(options.vocab_size, {kBatch, kLength}, at::kLong);
    targets = at::randint(options.vocab_size, {kBatch * kLength}, at::kLong);
  }

  Model model;
  std::unique_ptr<train::FlatParameters> flat;
  std::unique_ptr<train::AdamW> optimizer;
  Tensor tokens, targets;
};

void BM_TrainStep(benchmark::State& state) {
  const bool bfloat16 = state.range(1) != 0;
  Step step(bench_model(state.range(0)));
  for (auto _ : state) {
    step.flat->zero_gradients();
    const ForwardResult result = step.model.forward(step.tokens, {.bfloat16 = bfloat16});
    Tensor loss = next_token_loss(result.hidden.flatten(0, 1), step.model.head(), step.targets);
    const RoutingLosses extra = routing_losses(result, step.model.options());
    if (extra.predictor.defined()) loss = loss + extra.predictor;
    if (extra.balance.defined()) loss = loss + 0.01 * extra.balance;
    loss.backward();
    step.optimizer->step(1e-4);
  }
  state.SetItemsProcessed(state.iterations() * kBatch * kLength);
  state.counters["flops"] = benchmark::Counter(
      static_cast<double>(count_flops(step.model.options(), kLength).training * kBatch),
      benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(BM_TrainStep)
    ->ArgNames({"kind", "bf16"})
    ->ArgsProduct({{kDense, kMod, kMoe, kStagedMode, kIntegratedMode, kTokenChoiceMoe}, {0, 1}})
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMillisecond);

/// The dense step as nanoGPT writes it, one ATen operation after another; in bfloat16 by autocast.
Tensor eager_loss(const Model& model, const Tensor& tokens, const Tensor& targets) {
  const LmOptions& o = model.options();
  const int64_t head_dim = o.head_dim();
  const Tensor angles = at::outer(at::arange(kLength, at::kFloat),
                                  at::pow(o.rope_theta, -at::arange(0, head_dim, 2, at::kFloat) /
                                                            static_cast<double>(head_dim)));
  const Tensor cosines = at::cos(angles), sines = at::sin(angles);
  const auto rotated = [&](const Tensor& x) {
    const Tensor a = x.narrow(3, 0, head_dim / 2), b = x.narrow(3, head_dim / 2, head_dim / 2);
    return at::cat({a * cosines - b * sines, b * cosines + a * sines}, 3);
  };
  const auto norm = [&](const Tensor& x, const NormWeights& weights) {
    return at::rms_norm(x, {o.d_model}, weights.weight, o.norm_epsilon);
  };
  Tensor x = at::embedding(model.embedding(), tokens);
  for (const Block& block : model.blocks()) {
    const auto parts = at::linear(norm(x, block.attention_norm), block.qkv.weight)
                           .view({kBatch, kLength, 3 * o.num_heads, head_dim})
                           .transpose(1, 2)
                           .split(o.num_heads, 1);
    const Tensor attended = at::scaled_dot_product_attention(rotated(parts[0]), rotated(parts[1]),
                                                             parts[2], {}, 0.0, /*is_causal=*/true);
    x = x + at::linear(attended.transpose(1, 2).reshape({kBatch, kLength, o.d_model}),
                       block.attention_out.weight);
    x = x + at::linear(at::gelu(at::linear(norm(x, block.mlp_norm), block.mlp_in.weight), "tanh"),
                       block.mlp_out.weight);
  }
  const Tensor logits = at::linear(norm(x, model.norm()), model.head());
  return at::cross_entropy_loss(logits.view({-1, o.vocab_size}).to(at::kFloat), targets);
}

void BM_EagerTrainStep(benchmark::State& state) {
  const bool bfloat16 = state.range(0) != 0;
  Step step(bench_model(kDense));
  for (auto _ : state) {
    step.flat->zero_gradients();
    at::autocast::set_autocast_enabled(at::kCPU, bfloat16);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    Tensor loss = eager_loss(step.model, step.tokens, step.targets);
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
    loss.backward();
    step.optimizer->step(1e-4);
  }
  state.SetItemsProcessed(state.iterations() * kBatch * kLength);
}
BENCHMARK(BM_EagerTrainStep)
    ->ArgName("bf16")
    ->Arg(0)
    ->Arg(1)
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMillisecond);

/// Attention of one block of that step, forward and backward.
void BM_Attention(benchmark::State& state) {
  const auto type = state.range(0) != 0 ? at::kBFloat16 : at::kFloat;
  const Tensor qkv = at::randn({kBatch, kLength, 768}).to(type).requires_grad_(true);
  const Tensor grad = at::randn({kBatch, kLength, 256}).to(type);
  for (auto _ : state) {
    const Tensor out =
        causal_attention(qkv * 1, {.num_heads = 4, .num_kv_heads = 4, .head_dim = 64});
    out.backward(grad);
  }
}
BENCHMARK(BM_Attention)
    ->ArgName("bf16")
    ->Arg(0)
    ->Arg(1)
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMillisecond);

/// Decoding after 128 tokens, one token of every row a step.
void decode(benchmark::State& state, const Model& model, WeightFormat format, int64_t rows) {
  const LmOptions& options = model.options();
  Decoder decoder(model, {.hard_cap = true, .weights = format});
  const std::vector<int32_t> prompt(128, 7);
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < rows; ++i) {
    const DecodeInput input = {numbers.emplace_back(decoder.add_row()), prompt};
    decoder.step({&input, 1});
  }
  std::vector<int32_t> tokens(static_cast<size_t>(rows), 11);
  int64_t entered = 0, met = 0;
  for (auto _ : state) {
    if (decoder.length(0) >= options.seq_len) {
      state.SkipWithError("the context is full");
      break;
    }
    std::vector<DecodeInput> inputs;
    for (size_t i = 0; i < tokens.size(); ++i) inputs.push_back({numbers[i], {&tokens[i], 1}});
    const std::span<const float> logits = decoder.step(inputs);
    for (size_t i = 0; i < tokens.size(); ++i) {
      const auto row = logits.begin() + static_cast<int64_t>(i) * options.vocab_size;
      tokens[i] = static_cast<int32_t>(std::max_element(row, row + options.vocab_size) - row);
    }
    for (const uint8_t route : decoder.routes()) entered += route;
    met += std::ssize(decoder.routes());
  }
  state.SetItemsProcessed(state.iterations() * rows);
  state.SetBytesProcessed(state.iterations() * decoder.weight_bytes());
  if (met > 0) state.counters["entered"] = static_cast<double>(entered) / static_cast<double>(met);
}

/// Every other block routed, by draws: an untrained predictor would let no token in.
void route_at_random(LmOptions& options) {
  options.routing.every = 2;
  options.routing.selection = Selection::kRandom;
}

/// GPT-2's shape, 124 million parameters.
void BM_DecodeGpt2(benchmark::State& state) {
  LmOptions options;
  options.vocab_size = 50257;
  options.seq_len = 1024;
  options.d_model = 768;
  options.num_layers = 12;
  options.num_heads = 12;
  options.routing.every = 0;
  if (state.range(2) != 0) route_at_random(options);
  decode(state, Model(options, 1), static_cast<WeightFormat>(state.range(0)), state.range(1));
}
BENCHMARK(BM_DecodeGpt2)
    ->ArgNames({"format", "rows", "routed"})
    ->ArgsProduct({{0, 1, 2}, {1, 8}, {0}})
    ->ArgsProduct({{0, 1, 2}, {1}, {1}})
    ->Iterations(64)
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMillisecond);

/// The model in the file or folder LAGOM_BENCH_MODEL.
void BM_DecodeModel(benchmark::State& state) {
  const char* path = std::getenv("LAGOM_BENCH_MODEL");
  if (!path) return state.SkipWithError("LAGOM_BENCH_MODEL names no model");
  const LoadedModel loaded = load_model(path);
  decode(state, *loaded.model, static_cast<WeightFormat>(state.range(0)), state.range(1));
}
BENCHMARK(BM_DecodeModel)
    ->ArgNames({"format", "rows"})
    ->ArgsProduct({{0, 1, 2}, {1, 8}})
    ->Iterations(32)
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMillisecond);

/// Eight prompts of 256 tokens read at once, in the shape of the training step.
void BM_Prefill(benchmark::State& state) {
  LmOptions options = bench_model(kDense);
  options.seq_len = kLength;
  const Model model(options, 1);
  Decoder decoder(model, {.weights = static_cast<WeightFormat>(state.range(0))});
  const std::vector<int32_t> prompt(kLength, 7);
  for (auto _ : state) {
    std::vector<DecodeInput> inputs;
    for (int64_t i = 0; i < kBatch; ++i) inputs.push_back({decoder.add_row(), prompt});
    benchmark::DoNotOptimize(decoder.step(inputs));
    for (const DecodeInput& input : inputs) decoder.remove_row(input.row);
  }
  state.SetItemsProcessed(state.iterations() * kBatch * kLength);
}
BENCHMARK(BM_Prefill)
    ->ArgName("format")
    ->DenseRange(0, 2)
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMillisecond);

/// The forward half of that step, loss included; without autograd.
void BM_Forward(benchmark::State& state) {
  const at::NoGradGuard no_grad;
  const Step step(bench_model(kDense));
  for (auto _ : state) {
    const ForwardResult result = step.model.forward(step.tokens, {.bfloat16 = state.range(0) != 0});
    benchmark::DoNotOptimize(
        next_token_loss(result.hidden.flatten(0, 1), step.model.head(), step.targets));
  }
  state.SetItemsProcessed(state.iterations() * kBatch * kLength);
}
BENCHMARK(BM_Forward)
    ->ArgName("bf16")
    ->Arg(0)
    ->Arg(1)
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMillisecond);

LAGOM_CLONES
int64_t sum_of(const int64_t* values, int64_t count) {
  int64_t sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += values[i];
  return sum;
}

/// What memory gives at best: the sum of as many bytes as GPT-2's weights have in each format.
void BM_ReadWeights(benchmark::State& state) {
  const Tensor weights = at::ones({state.range(0) << 17}, at::kLong);
  const auto* values = weights.const_data_ptr<int64_t>();
  for (auto _ : state) {
    std::atomic<int64_t> sum = 0;
    at::parallel_for(0, weights.numel(), /*grain_size=*/1 << 17, [&](int64_t begin, int64_t end) {
      sum += sum_of(values + begin, end - begin);
    });
    benchmark::DoNotOptimize(sum.load());
  }
  state.SetBytesProcessed(state.iterations() * weights.numel() * 8);
}
BENCHMARK(BM_ReadWeights)
    ->ArgName("MiB")
    ->Arg(475)
    ->Arg(237)
    ->Arg(118)
    ->Iterations(20)
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMillisecond);

void BM_DecodeSmall(benchmark::State& state) {
  LmOptions options = bench_model(kDense);
  if (state.range(1) != 0) route_at_random(options);
  options.seq_len = 100000;
  decode(state, Model(options, 1), static_cast<WeightFormat>(state.range(0)), 1);
}
BENCHMARK(BM_DecodeSmall)
    ->ArgNames({"format", "routed"})
    ->ArgsProduct({{0, 1, 2}, {0, 1}})
    ->Iterations(200)
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMillisecond);

const bool kIsSetUp = [] {
  tensor::use_caching_allocator();  // as lagom-learn does
  const char* threads = std::getenv("LAGOM_BENCH_THREADS");
  tensor::set_num_threads(threads ? std::atoi(threads) : 0);
  return true;
}();

}  // namespace
}  // namespace lagom::lm
