// Graph Segment Training: what a step costs and how much memory it takes by the graph's size, for
// whole graphs and for each source of the segments that are not sampled.

#include <ATen/ATen.h>
#include <benchmark/benchmark.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>

#include "lagom/cost_model/losses.h"
#include "lagom/cost_model/segments.h"
#include "lagom/graph/op_graph.h"
#include "lagom/tensor/caching_allocator.h"
#include "lagom/tensor/threads.h"

namespace lagom::cost_model {
namespace {

/// Counts what tensors hold.
class CountingAllocator : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator* base) : base_(base) {}

  c10::DataPtr allocate(size_t bytes) override {
    auto* block = new Block{base_->allocate(bytes), bytes, this};
    live_ += bytes;
    peak_ = std::max(peak_, live_);
    return {block->data.get(), block, &free_block, block->data.device()};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

  size_t live() const { return live_; }
  size_t take_peak() { return std::exchange(peak_, live_); }

 private:
  struct Block {
    c10::DataPtr data;
    size_t bytes;
    CountingAllocator* owner;
  };
  static void free_block(void* context) {
    auto* block = static_cast<Block*>(context);
    block->owner->live_ -= block->bytes;
    delete block;
  }

  c10::Allocator* base_;
  size_t live_ = 0, peak_ = 0;
};

CountingAllocator& allocator() {
  static CountingAllocator* const counting = [] {
    tensor::use_caching_allocator();  // as in lagom-learn
    auto* made = new CountingAllocator(c10::GetCPUAllocator());
    c10::SetCPUAllocator(made, /*priority=*/255);
    return made;
  }();
  return *counting;
}
const bool kCounts = (allocator(), true);

constexpr int64_t kConfigs = 8, kSegmentNodes = 5000;

/// A program-like graph: nodes read what was made shortly before; one node in ten is configurable.
struct LargeGraph {
  explicit LargeGraph(int64_t nodes) {
    std::mt19937 random(1);
    for (int64_t i = 0; i < nodes; ++i) {
      opcode.push_back(static_cast<uint8_t>(1 + random() % 119));
      for (int64_t k = 0; k < graph::kNodeFeatures; ++k) {
        features.push_back(static_cast<float>(random() % 100) / 50 - 1);
      }
      for (int edge = 0; i > 0 && edge < 2; ++edge) {
        edges.push_back(i);
        edges.push_back(std::max<int64_t>(0, i - 1 - static_cast<int64_t>(random() % 20)));
      }
      if (i % 10 == 0) config_ids.push_back(i);
    }
    for (size_t i = 0; i < config_ids.size() * kConfigs * graph::kLayoutConfigFeatures; ++i) {
      layouts.push_back(static_cast<int8_t>(static_cast<int>(random() % 6) - 1));
    }
    data = view_graph({.name = "large",
                       .node_opcode = opcode,
                       .node_feat = features,
                       .edge_index = edges,
                       .num_configs = kConfigs,
                       .node_config_ids = config_ids,
                       .node_config_feat = layouts});
    normalization = fit_normalization({{.data = data}}, NodeTransform::kStandardize);
  }

  std::vector<uint8_t> opcode;
  std::vector<float> features;
  std::vector<int64_t> edges, config_ids;
  std::vector<int8_t> layouts;
  std::shared_ptr<const GraphData> data;
  Normalization normalization;
};

/// The one graph of the last size asked for.
const LargeGraph& large_graph(int64_t nodes) {
  static std::unique_ptr<LargeGraph> graph;
  static int64_t size = 0;
  if (size != nodes) {
    graph.reset();
    graph = std::make_unique<LargeGraph>(nodes);
    size = nodes;
  }
  return *graph;
}

enum Variant { kFull, kGst, kGstOne, kGstE, kGstEd };
constexpr const char* kVariants[] = {"full", "GST", "GST-One", "GST+E", "GST+ED"};

SegmentOptions options_of(Variant variant) {
  SegmentOptions options = {.method = SegmentMethod::kContiguous, .max_nodes = kSegmentNodes};
  if (variant == kFull) options.method = SegmentMethod::kNone;
  options.others = variant == kGst      ? OtherSegments::kFresh
                   : variant == kGstOne ? OtherSegments::kNone
                                        : OtherSegments::kHistory;
  options.keep_probability = variant == kGstEd ? 0.5 : 1;
  return options;
}

/// A step of the 1st place's network on 8 configurations: batch, forward, loss, backward.
void BM_SegmentStep(benchmark::State& state) {
  tensor::set_num_threads(1);
  const auto variant = static_cast<Variant>(state.range(0));
  const LargeGraph& graph = large_graph(state.range(1));
  const SegmentOptions options = options_of(variant);
  const PreparedGraphPtr prepared =
      cut_graph(prepare_graph(*graph.data, graph.normalization,
                              {.reduction = {.kind = ReductionKind::kNone}}),
                options);
  const auto network = make_network({.kind = ModelKind::kFirstPlace, .width = 64, .dropout = 0.1},
                                    {.format = graph.data->format}, 1);
  std::vector<int64_t> rows(kConfigs);
  std::iota(rows.begin(), rows.end(), 0);
  const auto segments = static_cast<int64_t>(prepared->segments.size());
  HistoryTable history({{.num_configs = kConfigs, .num_segments = segments}},
                       SegmentedNetwork(*network, options).num_columns(), at::kFloat, {});
  const at::Tensor runtimes = at::arange(1, kConfigs + 1, at::kDouble);
  const at::Tensor noise = at::zeros_like(runtimes);
  SegmentPlan plan;
  SegmentedSample sample = {
      .configs = rows,
      .prepared = prepared.get(),
      .plan = &plan,
      .whole = make_whole_batch(prepared, graph.data->read(rows, std::span<const int64_t>{}),
                                graph.normalization),
      .batch_of = [&](int64_t segment) {
        return segment_batch(*prepared, *graph.data, rows, segment, graph.normalization);
      }};
  if (options.cuts() && options.others == OtherSegments::kHistory) {
    fill_history(*network, options, sample, {}, history, 0);
  }
  int64_t step = 0;
  const auto take_step = [&] {
    for (const auto& [name, value] : network->parameters()) value.mutable_grad() = at::Tensor();
    const ForwardContext context = {.is_training = true,
                                    .dropout_seed = static_cast<uint64_t>(step)};
    at::Tensor costs;
    if (options.cuts()) {
      plan = plan_segments(segments, options, 1, step);
      StaleReport report;
      HistoryTable* table = options.others == OtherSegments::kHistory ? &history : nullptr;
      costs = segmented_costs(*network, options, sample, context, table, step, report);
    } else {
      costs = network->forward(make_batch(prepared, graph.data->read(rows), graph.normalization),
                               context);
    }
    ranking_loss(costs, runtimes, noise, {}).backward();
    ++step;
  };
  allocator().take_peak();
  const auto before = static_cast<double>(allocator().live());
  for (auto _ : state) take_step();
  state.counters["step_MB"] = (static_cast<double>(allocator().take_peak()) - before) / 1e6;
  state.counters["segments"] = static_cast<double>(segments);
  state.SetLabel(kVariants[variant]);
}
BENCHMARK(BM_SegmentStep)
    ->ArgNames({"variant", "nodes"})
    ->ArgsProduct({{kFull, kGstOne, kGstEd}, {5000}})
    ->ArgsProduct({{kFull, kGst, kGstOne, kGstE, kGstEd}, {50000}})
    ->ArgsProduct({{kFull, kGst, kGstOne, kGstE, kGstEd}, {200000}})
    ->ArgsProduct({{kGstOne, kGstE, kGstEd}, {500000}})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(5);

}  // namespace
}  // namespace lagom::cost_model
