#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <random>

#include "benchmarks/large_module.h"
#include "lagom/formats/npz.h"
#include "lagom/graph/duplicates.h"
#include "lagom/graph/graph_cache.h"
#include "lagom/graph/partition.h"

namespace lagom::graph {
namespace {

void BM_MakeOpGraph(benchmark::State& state) {
  const hlo::Module& module = hlo::large_module(40000);
  const OpGraphOptions options{.feature_version = static_cast<int>(state.range(0))};
  for (auto _ : state) benchmark::DoNotOptimize(make_op_graph(module, options));
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(module.num_instructions()));
}
BENCHMARK(BM_MakeOpGraph)->ArgName("version")->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond);

/// A graph of the size of the data set's larger ones: 10,000 nodes, 10,000 configurations of 500
/// configurable nodes. Layouts vary as a random search varies them.
class LargeGraph {
 public:
  LargeGraph() : folder_(std::filesystem::temp_directory_path() / name()) {
    std::mt19937_64 random(1);
    OpGraph graph;
    graph.node_opcode.resize(kNodes, 26);
    graph.node_feat.resize(kNodes * kNodeFeatures);
    for (float& value : graph.node_feat) value = static_cast<float>(random() % 64);
    for (int64_t node = 1; node < kNodes; ++node) {
      graph.edge_index.insert(graph.edge_index.end(), {node, node - 1});
    }
    graph.node_splits = {0, kNodes};
    TuningTable table;
    table.config_runtime.resize(kConfigs);
    for (int64_t& ns : table.config_runtime) ns = 1000000 + static_cast<int64_t>(random() % 1000);
    table.config_runtime_normalizers = table.config_runtime;
    table.node_config_ids.resize(kConfigNodes);
    std::iota(table.node_config_ids.begin(), table.node_config_ids.end(), 0);
    table.config_feat.resize(kConfigs * kConfigNodes * kLayoutConfigFeatures, -1);
    for (size_t i = 0; i < table.config_feat.size(); i += kLayoutConfigFeatures) {
      for (const size_t place : {0, 1, 6, 7}) {
        table.config_feat[i + place] = static_cast<float>(random() % 4);
      }
    }
    write_layout_npz(npz(), graph, table);
    transcode_graph(npz(), cache());
  }
  ~LargeGraph() { std::filesystem::remove_all(folder_); }

  std::filesystem::path npz() const { return folder_ / "large.npz"; }
  std::filesystem::path cache() const { return folder_ / "large.graph"; }

  static constexpr int64_t kNodes = 10000, kConfigs = 10000, kConfigNodes = 500;

 private:
  static std::string name() {
    return "lagom_graph_bench_" + std::to_string(static_cast<long>(::getpid()));
  }
  std::filesystem::path folder_;
};

const LargeGraph& large_graph() {
  static const LargeGraph graph;
  return graph;
}

void BM_OpenCache(benchmark::State& state) {
  const std::filesystem::path path = large_graph().cache();
  for (auto _ : state) benchmark::DoNotOptimize(GraphCache(path).num_nodes());
}
BENCHMARK(BM_OpenCache)->Unit(benchmark::kMillisecond);

/// Configurations that a training step samples, as layouts.
void BM_ReadLayouts(benchmark::State& state) {
  const GraphCache cache(large_graph().cache());
  std::mt19937_64 random(2);
  std::vector<int64_t> rows(static_cast<size_t>(state.range(0)));
  std::vector<int8_t> layouts(rows.size() * LargeGraph::kConfigNodes * kLayoutConfigFeatures);
  for (auto _ : state) {
    for (int64_t& row : rows) row = static_cast<int64_t>(random() % LargeGraph::kConfigs);
    cache.read_layouts(rows, layouts);
    benchmark::DoNotOptimize(layouts.data());
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_ReadLayouts)->ArgName("configs")->Arg(64)->Unit(benchmark::kMillisecond);

void BM_Transcode(benchmark::State& state) {
  const std::filesystem::path out = large_graph().cache().string() + ".again";
  for (auto _ : state) transcode_graph(large_graph().npz(), out);
  state.SetBytesProcessed(state.iterations() * LargeGraph::kConfigs * LargeGraph::kConfigNodes *
                          kLayoutConfigFeatures * static_cast<int64_t>(sizeof(float)));
}
BENCHMARK(BM_Transcode)->Unit(benchmark::kMillisecond);

void BM_FindDuplicates(benchmark::State& state) {
  const GraphCache cache(large_graph().cache());
  for (auto _ : state) benchmark::DoNotOptimize(find_duplicates(cache));
  state.SetItemsProcessed(state.iterations() * LargeGraph::kConfigs);
}
BENCHMARK(BM_FindDuplicates)->Unit(benchmark::kMillisecond);

/// A chain of nodes with edges to some before, as programs have them, in segments of 5,000.
void BM_Partition(benchmark::State& state) {
  const int64_t nodes = state.range(0);
  std::mt19937_64 random(1);
  std::vector<int64_t> edges;
  for (int64_t user = 1; user < nodes; ++user) {
    for (int k = 0; k < 2; ++k) {
      const auto back = static_cast<int64_t>(1 + random() % 40);
      if (back <= user) edges.insert(edges.end(), {user, user - back});
    }
  }
  for (auto _ : state) benchmark::DoNotOptimize(partition_graph(nodes, edges, {}, {}));
  state.SetItemsProcessed(state.iterations() * nodes);
}
BENCHMARK(BM_Partition)->ArgName("nodes")->Arg(50000)->Arg(500000)->Unit(benchmark::kMillisecond);

/// LAGOM_BENCH_NPZ: a file to compare readers on (benchmarks/peers/npz_peer.py).
const char* npz_to_read() {
  return std::getenv("LAGOM_BENCH_NPZ");
}

/// Opens the file and reads every array in it.
void BM_ReadNpz(benchmark::State& state) {
  int64_t bytes = 0;
  for (auto _ : state) {
    const formats::NpzReader file(npz_to_read());
    std::vector<formats::Array> arrays;
    for (const std::string& name : file.names()) arrays.push_back(file.read(name));
    bytes = 0;
    for (const formats::Array& array : arrays) bytes += static_cast<int64_t>(array.data.size());
  }
  state.SetBytesProcessed(state.iterations() * bytes);
  state.counters["bytes"] = static_cast<double>(bytes);
}

const bool kHasNpz =
    npz_to_read() != nullptr &&
    benchmark::RegisterBenchmark("BM_ReadNpz", BM_ReadNpz)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lagom::graph
