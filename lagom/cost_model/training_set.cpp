#include "lagom/cost_model/training_set.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_set>

#include "lagom/util/error.h"

namespace lagom::cost_model {
namespace {

constexpr size_t kAhead = 2;

/// SplitMix64 (Steele, Lea and Flood 2014): the same stream in every build.
class Random {
 public:
  explicit Random(uint64_t state) : state_(state) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15ULL;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
  /// In [0, count); off by less than count / 2^64.
  int64_t below(int64_t count) {
    return static_cast<int64_t>(next() % static_cast<uint64_t>(count));
  }
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  uint64_t state_;
};

Random stream(int64_t seed, int64_t number, uint64_t purpose) {
  Random mix(static_cast<uint64_t>(seed) * 0xD1342543DE82EF95ULL + purpose);
  return Random(mix.next() ^ static_cast<uint64_t>(number) * 0xA0761D6478BD642FULL);
}

size_t graph_at(const std::vector<TrainingGraph>& graphs, const SamplingOptions& options,
                int64_t index) {
  const auto count = static_cast<int64_t>(graphs.size());
  if (options.by_num_configs) {
    Random random = stream(options.seed, index, 1);
    double sum = 0;
    const auto weight = [](const TrainingGraph& g) {
      return std::sqrt(static_cast<double>(g.source.labels->rows.size()));
    };
    for (const TrainingGraph& graph : graphs) sum += weight(graph);
    double left = random.unit() * sum;
    for (size_t i = 0; i + 1 < graphs.size(); ++i) {
      left -= weight(graphs[i]);
      if (left < 0) return i;
    }
    return graphs.size() - 1;
  }
  Random random = stream(options.seed, index / count, 2);
  std::vector<size_t> order(graphs.size());
  std::iota(order.begin(), order.end(), 0);
  for (int64_t i = count - 1; i > 0; --i) {
    std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(random.below(i + 1))]);
  }
  return order[static_cast<size_t>(index % count)];
}

/// `wanted` different numbers below `count`, ascending (Floyd's method).
std::vector<int64_t> different_numbers(int64_t count, int64_t wanted, Random random) {
  std::unordered_set<int64_t> chosen;
  for (int64_t i = count - wanted; i < count; ++i) {
    const int64_t pick = random.below(i + 1);
    chosen.insert(chosen.contains(pick) ? i : pick);
  }
  std::vector<int64_t> out(chosen.begin(), chosen.end());
  std::sort(out.begin(), out.end());
  return out;
}

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::vector<TrainingGraph> prepare_graphs(const std::vector<LabeledGraph>& graphs,
                                          const Normalization& normalization,
                                          const DataOptions& options) {
  std::vector<TrainingGraph> out;
  for (const LabeledGraph& graph : graphs) {
    if (!graph.labels) throw FormatError(graph.data->path, "", "has no runtimes");
    if (graph.data->num_config_nodes() == 0 && graph.data->format.config_columns == 0) {
      throw FormatError(graph.data->path, "node_config_ids",
                        "is empty: no configuration changes anything");
    }
    out.push_back(
        {.source = graph, .prepared = prepare_graph(*graph.data, normalization, options)});
    const double median = median_of(graph.labels->runtimes);
    // Ratios to a default are near 1, times in ns are not.
    if (median > 100) out.back().runtime_scale = median;
  }
  return out;
}

Batch labeled_batch(const TrainingGraph& graph, std::span<const int64_t> picks,
                    const Normalization& normalization) {
  const Labels& labels = *graph.source.labels;
  std::vector<int64_t> rows;
  std::vector<double> runtimes, uncertainties;
  for (const int64_t pick : picks) {
    const auto at = static_cast<size_t>(pick);
    rows.push_back(labels.rows[at]);
    runtimes.push_back(labels.runtimes[at] / graph.runtime_scale);
    uncertainties.push_back(
        labels.uncertainties.empty() ? 0 : labels.uncertainties[at] / graph.runtime_scale);
  }
  Batch batch = make_batch(graph.prepared, graph.source.data->read(rows), normalization);
  batch.runtimes = at::tensor(runtimes, at::kDouble);
  batch.uncertainties = at::tensor(uncertainties, at::kDouble);
  return batch;
}

Sample sample_at(const std::vector<TrainingGraph>& graphs, const SamplingOptions& options,
                 int64_t index) {
  Sample sample{.graph = graph_at(graphs, options, index)};
  const auto count = static_cast<int64_t>(graphs[sample.graph].source.labels->rows.size());
  sample.picks =
      different_numbers(count, std::min(count, options.configs), stream(options.seed, index, 3));
  return sample;
}

BatchLoader::BatchLoader(const std::vector<TrainingGraph>& graphs,
                         const Normalization& normalization, const SamplingOptions& options,
                         int64_t first_index)
    : graphs_(graphs), normalization_(normalization), options_(options) {
  thread_ = std::thread([this, first_index] { run(first_index); });
}

BatchLoader::~BatchLoader() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void BatchLoader::run(int64_t index) {
  try {
    for (;; ++index) {
      const Sample sample = sample_at(graphs_, options_, index);
      Batch batch = labeled_batch(graphs_[sample.graph], sample.picks, normalization_);
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return is_stopping_ || ready_.size() < kAhead; });
      if (is_stopping_) return;
      ready_.push_back(std::move(batch));
      changed_.notify_all();
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
    changed_.notify_all();
  }
}

Batch BatchLoader::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return failure_ || !ready_.empty(); });
  if (ready_.empty()) std::rethrow_exception(failure_);
  Batch batch = std::move(ready_.front());
  ready_.pop_front();
  changed_.notify_all();
  return batch;
}

}  // namespace lagom::cost_model
