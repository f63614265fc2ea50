#include "lagom/cost_model/training_set.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lagom/util/error.h"
#include "lagom/util/random_stream.h"

namespace lagom::cost_model {
namespace {

constexpr size_t kAhead = 2;

size_t graph_at(const std::vector<TrainingGraph>& graphs, const SamplingOptions& options,
                int64_t index) {
  if (options.by_num_configs) {
    Random random = random_stream(options.seed, index, 1);
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
  return place_in_rounds(graphs.size(), options.seed, index);
}

std::vector<int64_t> rows_of(const Labels& labels, std::span<const int64_t> picks) {
  std::vector<int64_t> rows;
  for (const int64_t pick : picks) rows.push_back(labels.rows[static_cast<size_t>(pick)]);
  return rows;
}

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::vector<TrainingGraph> prepare_graphs(const std::vector<LabeledGraph>& graphs,
                                          const Normalization& normalization,
                                          const DataOptions& options,
                                          const SegmentOptions& segments) {
  std::vector<TrainingGraph> out;
  for (const LabeledGraph& graph : graphs) {
    if (!graph.labels) throw FormatError(graph.data->path, "", "has no runtimes");
    if (graph.data->num_config_nodes() == 0 && graph.data->format.config_columns == 0) {
      throw FormatError(graph.data->path, "node_config_ids",
                        "is empty: no configuration changes anything");
    }
    out.push_back(
        {.source = graph,
         .prepared = cut_graph(prepare_graph(*graph.data, normalization, options), segments)});
    const double median = median_of(graph.labels->runtimes);
    // Ratios to a default are near 1, times in ns are not.
    if (median > 100) out.back().runtime_scale = median;
  }
  return out;
}

Batch labeled_batch(const TrainingGraph& graph, std::span<const int64_t> picks,
                    const Normalization& normalization) {
  const Labels& labels = *graph.source.labels;
  const std::vector<int64_t> rows = rows_of(labels, picks);
  std::vector<double> runtimes, uncertainties;
  for (const int64_t pick : picks) {
    const auto at = static_cast<size_t>(pick);
    runtimes.push_back(labels.runtimes[at] / graph.runtime_scale);
    uncertainties.push_back(
        labels.uncertainties.empty() ? 0 : labels.uncertainties[at] / graph.runtime_scale);
  }
  const GraphData& data = *graph.source.data;
  Batch batch = graph.prepared->segments.empty()
                    ? make_batch(graph.prepared, data.read(rows), normalization)
                    : make_whole_batch(graph.prepared, data.read(rows, std::span<const int64_t>{}),
                                       normalization);
  batch.runtimes = at::tensor(runtimes, at::kDouble);
  batch.uncertainties = at::tensor(uncertainties, at::kDouble);
  return batch;
}

Batch segment_batch(const TrainingGraph& graph, std::span<const int64_t> picks, int64_t segment,
                    const Normalization& normalization) {
  return segment_batch(*graph.prepared, *graph.source.data, rows_of(*graph.source.labels, picks),
                       segment, normalization);
}

Sample sample_at(const std::vector<TrainingGraph>& graphs, const SamplingOptions& options,
                 int64_t index) {
  Sample sample{.graph = graph_at(graphs, options, index)};
  const auto count = static_cast<int64_t>(graphs[sample.graph].source.labels->rows.size());
  sample.picks = different_numbers(count, std::min(count, options.configs),
                                   random_stream(options.seed, index, 3));
  return sample;
}

BatchLoader::BatchLoader(const std::vector<TrainingGraph>& graphs,
                         const Normalization& normalization, const SamplingOptions& options,
                         const SegmentOptions& segments, int64_t first_index)
    : graphs_(graphs), normalization_(normalization), options_(options), segments_(segments) {
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
      LoadedSample loaded{.sample = sample_at(graphs_, options_, index)};
      const Sample& sample = loaded.sample;
      const TrainingGraph& graph = graphs_[sample.graph];
      loaded.batch = labeled_batch(graph, sample.picks, normalization_);
      if (segments_.cuts()) {
        loaded.plan = plan_segments(static_cast<int64_t>(graph.prepared->segments.size()),
                                    segments_, options_.seed, index);
        for (const int64_t segment : loaded.plan.sampled) {
          loaded.sampled.push_back(segment_batch(graph, sample.picks, segment, normalization_));
        }
      }
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return is_stopping_ || ready_.size() < kAhead; });
      if (is_stopping_) return;
      ready_.push_back(std::move(loaded));
      changed_.notify_all();
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
    changed_.notify_all();
  }
}

LoadedSample BatchLoader::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return failure_ || !ready_.empty(); });
  if (ready_.empty()) std::rethrow_exception(failure_);
  LoadedSample sample = std::move(ready_.front());
  ready_.pop_front();
  changed_.notify_all();
  return sample;
}

}  // namespace lagom::cost_model
