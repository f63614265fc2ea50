// The cost model's training step and ranking, and the segment kernels. Sizes are those of a pruned
// graph of TpuGraphs' layout:xla: 2,000 nodes, 2,040 edges.

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <fstream>
#include <numeric>
#include <random>
#include <string>

#include "lagom/cost_model/losses.h"
#include "lagom/cost_model/network.h"
#include "lagom/graph/op_graph.h"
#include "lagom/tensor/caching_allocator.h"
#include "lagom/tensor/safetensors.h"
#include "lagom/tensor/segment.h"
#include "lagom/tensor/threads.h"

namespace lagom::cost_model {
namespace {

// As in lagom-learn.
const bool kCaches = (tensor::use_caching_allocator(), true);

constexpr int64_t kNodes = 2000, kEdges = 2040, kConfigNodes = 400;

/// Peak of the resident memory since the last call, in MB.
double peak_mb() {
  std::ifstream status("/proc/self/status");
  double peak = 0;
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) peak = std::stod(line.substr(6)) / 1024;
  }
  std::ofstream("/proc/self/clear_refs") << "5";
  return peak;
}

/// Random values in the shapes of a pruned graph.
struct Workload {
  explicit Workload(int64_t configs) {
    std::mt19937 random(1);
    for (int64_t i = 0; i < kNodes; ++i) {
      opcode.push_back(static_cast<uint8_t>(1 + random() % 119));
      for (int64_t k = 0; k < graph::kNodeFeatures; ++k) {
        features.push_back(static_cast<float>(random() % 100) / 50 - 1);
      }
    }
    for (int64_t e = 0; e < kEdges; ++e) {
      const auto user = static_cast<int64_t>(1 + random() % (kNodes - 1));
      edges.push_back(user);
      edges.push_back(std::max<int64_t>(0, user - 1 - static_cast<int64_t>(random() % 20)));
    }
    for (int64_t i = 0; i < kConfigNodes; ++i) config_ids.push_back(i * kNodes / kConfigNodes);
    for (int64_t i = 0; i < configs * kConfigNodes * graph::kLayoutConfigFeatures; ++i) {
      layouts.push_back(static_cast<int8_t>(static_cast<int>(random() % 6) - 1));
    }
    const auto data = view_graph({.name = "workload",
                                  .node_opcode = opcode,
                                  .node_feat = features,
                                  .edge_index = edges,
                                  .num_configs = configs,
                                  .node_config_ids = config_ids,
                                  .node_config_feat = layouts});
    normalization = fit_normalization({{.data = data}}, NodeTransform::kStandardize);
    std::vector<int64_t> rows(static_cast<size_t>(configs));
    std::iota(rows.begin(), rows.end(), 0);
    batch = make_batch(
        prepare_graph(*data, normalization, {.reduction = {.kind = ReductionKind::kNone}}),
        data->read(rows), normalization);
    batch.runtimes = at::rand({configs}, at::kDouble) + 1;
    batch.uncertainties = at::zeros_like(batch.runtimes);
  }

  std::vector<uint8_t> opcode;
  std::vector<float> features;
  std::vector<int64_t> edges, config_ids;
  std::vector<int8_t> layouts;
  Normalization normalization;
  Batch batch;
};

std::unique_ptr<Network> first_place(const Workload& work, bool cross, bool fused) {
  return make_network({.kind = ModelKind::kFirstPlace,
                       .width = 256,
                       .dropout = 0,
                       .cross_config = cross,
                       .fused = fused},
                      {.format = work.batch.graph->format}, 1);
}

/// LAGOM_BENCH_SAVE: a file for what a peer needs to take the same step, and what it must get.
void save_step(const Workload& work, const Network& network, const at::Tensor& loss) {
  const char* path = std::getenv("LAGOM_BENCH_SAVE");
  if (path == nullptr) return;
  const PreparedGraph& graph = *work.batch.graph;
  std::vector<tensor::NamedTensor> tensors = {
      {"node_feat", graph.node_feat},
      {"node_opcode", graph.node_opcode},
      {"node_layout", graph.node_layout},
      {"config_nodes", graph.config_nodes},
      {"layouts", work.batch.layouts},
      {"runtimes", work.batch.runtimes},
      {"edge_index", at::tensor(work.edges, at::kLong).view({-1, 2}).t().contiguous()},
      {"loss", loss.detach()}};
  for (const auto& [name, value] : network.parameters()) {
    tensors.emplace_back("model." + name, value.detach());
    if (name == "head.weight") tensors.emplace_back("head_gradient", value.grad());
  }
  tensor::save_tensors(path, tensors, {});
}

/// bf16, cross-configuration attention, fused kernels.
void BM_TrainingStep(benchmark::State& state) {
  tensor::set_num_threads(1);
  const Workload work(64);
  const auto network = first_place(work, state.range(1) != 0, state.range(2) != 0);
  const ForwardContext context = {
      .is_training = true, .dropout_seed = 1, .bf16_dots = state.range(0) != 0};
  const auto step = [&] {
    for (const auto& [name, value] : network->parameters()) value.mutable_grad() = at::Tensor();
    const at::Tensor costs = network->forward(work.batch, context);
    const at::Tensor loss = ranking_loss(costs, work.batch.runtimes, work.batch.uncertainties, {});
    loss.backward();
    return loss;
  };
  peak_mb();
  save_step(work, *network, step());  // the first one gets its memory from the system
  double peak = peak_mb();
  for (auto _ : state) {
    step();
    peak = std::max(peak, peak_mb());
  }
  state.counters["peak_MB"] = peak;
  state.counters["parameters"] = static_cast<double>(network->num_parameters());
}
BENCHMARK(BM_TrainingStep)
    ->ArgNames({"bf16", "cross", "fused"})
    ->Args({0, 0, 1})
    ->Args({1, 0, 1})
    ->Args({0, 1, 1})
    ->Args({1, 1, 1})
    ->Args({0, 0, 0})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(3);

void BM_Ranking(benchmark::State& state) {
  tensor::set_num_threads(1);
  const Workload work(64);
  const auto network = first_place(work, /*cross=*/false, /*fused=*/true);
  const at::NoGradGuard no_gradients;
  for (auto _ : state) {
    benchmark::DoNotOptimize(network->forward(work.batch, {.bf16_dots = state.range(0) != 0}));
  }
  state.counters["configs_per_second"] = benchmark::Counter(
      64.0 * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}
BENCHMARK(BM_Ranking)
    ->ArgName("bf16")
    ->Arg(0)
    ->Arg(1)
    ->Unit(benchmark::kMillisecond)
    ->Iterations(3);

/// 200,000 nodes, 330,000 random edges: nothing stays in cache.
void BM_SegmentSum(benchmark::State& state) {
  tensor::set_num_threads(1);
  constexpr int64_t kRows = 200000, kMany = 330000;
  std::mt19937 random(2);
  std::vector<int32_t> outputs, inputs;
  for (int64_t e = 0; e < kMany; ++e) {
    outputs.push_back(static_cast<int32_t>(random() % kRows));
    inputs.push_back(static_cast<int32_t>(random() % kRows));
  }
  const tensor::SegmentIndex index(kRows, kRows, outputs, inputs);
  const int64_t width = state.range(0);
  const at::Tensor x = at::rand({kRows, width});
  at::Tensor out = at::empty_like(x);
  for (auto _ : state) {
    tensor::segment_sum_rows<float>(index.by_output(), x.const_data_ptr<float>(), width, nullptr,
                                    nullptr, out.mutable_data_ptr<float>());
  }
  state.SetBytesProcessed(state.iterations() * (kMany + kRows) * width * 4);
}
BENCHMARK(BM_SegmentSum)->ArgName("width")->Arg(64)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lagom::cost_model
