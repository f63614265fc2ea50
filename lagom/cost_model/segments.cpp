#include "lagom/cost_model/segments.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "lagom/util/random_stream.h"
#include "lagom/train/check_field.h"

namespace lagom::cost_model {
namespace {

/// A dropout of its own for each segment; segment 0 has the graph's.
ForwardContext context_of(const ForwardContext& context, int64_t segment) {
  ForwardContext own = context;
  own.dropout_seed += static_cast<uint64_t>(segment) * 0xC2B2AE3D27D4EB4FULL;
  return own;
}

int64_t concerned_nodes(const PreparedGraph& graph, const PreparedGraph& segment) {
  return graph.num_config_nodes > 0 ? segment.num_config_nodes : segment.num_nodes;
}

}  // namespace

std::span<const std::string_view> option_names(SegmentMethod) {
  static constexpr std::string_view kNames[] = {"none", "metis", "contiguous", "computation"};
  return kNames;
}
std::span<const std::string_view> option_names(OtherSegments) {
  static constexpr std::string_view kNames[] = {"fresh", "none", "history"};
  return kNames;
}
std::span<const std::string_view> option_names(Aggregation) {
  static constexpr std::string_view kNames[] = {"pooling", "sum", "mean"};
  return kNames;
}
std::span<const std::string_view> option_names(SegmentHead) {
  static constexpr std::string_view kNames[] = {"graph", "segment"};
  return kNames;
}
std::span<const std::string_view> option_names(WarmStart) {
  static constexpr std::string_view kNames[] = {"lazy", "pass", "zeros"};
  return kNames;
}

void SegmentOptions::validate() const {
  if (!cuts()) return;
  const auto check = [](bool ok, const char* field, const char* expected, double found) {
    train::check_field(ok, (std::string("segments.") + field).c_str(), expected, found);
  };
  check(max_nodes >= 1, "max_nodes", "at least 1", static_cast<double>(max_nodes));
  check(sampled >= 0, "sampled", "a number from 0 (all)", static_cast<double>(sampled));
  check(keep_probability >= 0 && keep_probability <= 1, "keep_probability", "a number in [0, 1]",
        keep_probability);
  check(finetune_share >= 0 && finetune_share < 1, "finetune_share", "a number in [0, 1)",
        finetune_share);
  check(history.max_bytes >= 1, "history.max_bytes", "at least 1",
        static_cast<double>(history.max_bytes));
  if (head == SegmentHead::kSegment && aggregation == Aggregation::kPooling) {
    throw std::invalid_argument(
        "segments.aggregation: \"pooling\" needs head = \"graph\"; costs of segments are "
        "aggregated by \"sum\" or \"mean\"");
  }
  if (head == SegmentHead::kSegment && finetune_share > 0) {
    throw std::invalid_argument(
        "segments.finetune_share: with head = \"segment\" nothing is behind the aggregation that "
        "could be trained");
  }
}

SegmentPlan plan_segments(int64_t num_segments, const SegmentOptions& options, int64_t seed,
                          int64_t number) {
  const int64_t s = options.sampled == 0 ? num_segments : std::min(num_segments, options.sampled);
  SegmentPlan plan{
      .sampled = different_numbers(num_segments, s, random_stream(seed, number, /*purpose=*/4)),
      .weights = std::vector<double>(static_cast<size_t>(num_segments), 0)};
  const bool has_others = options.others != OtherSegments::kNone;
  const double p = has_others ? options.keep_probability : 1;
  if (has_others) {
    Random random = random_stream(seed, number, /*purpose=*/5);
    for (double& weight : plan.weights) weight = random.unit() < p ? 1 : 0;
  }
  for (const int64_t segment : plan.sampled) {
    plan.weights[static_cast<size_t>(segment)] =
        p + (1 - p) * static_cast<double>(num_segments) / static_cast<double>(s);
  }
  return plan;
}

std::vector<PooledColumns> SegmentedNetwork::columns() const {
  if (options_.head == SegmentHead::kSegment) return {{Pooling::kSum, 1}};
  return network_.pooled_columns();
}

int64_t SegmentedNetwork::num_columns() const {
  int64_t count = 0;
  for (const PooledColumns& part : columns()) count += part.columns;
  return count;
}

at::Tensor SegmentedNetwork::encode(const Batch& segment, const ForwardContext& context) const {
  const at::Tensor embedding = network_.embed(segment, context);  // [C, P]
  if (options_.head == SegmentHead::kGraph) return embedding;
  return network_.head(embedding, segment, context).unsqueeze(-1);  // [C, 1]
}

at::Tensor SegmentedNetwork::finish(const at::Tensor& aggregate, const Batch& whole,
                                    const ForwardContext& context) const {
  if (options_.head == SegmentHead::kSegment) return aggregate.squeeze(-1);
  return network_.head(aggregate, whole, context);
}

at::Tensor SegmentedNetwork::forward(const PreparedGraph& graph, const Batch& whole,
                                     const std::function<Batch(int64_t segment)>& batch_of,
                                     const ForwardContext& context) const {
  const std::vector<double> weights(graph.segments.size(), 1);
  Sum sum(*this, graph, weights);
  for (size_t s = 0; s < graph.segments.size(); ++s) {
    const auto segment = static_cast<int64_t>(s);
    sum.add(segment, encode(batch_of(segment), context_of(context, segment)));
  }
  return finish(sum.value(), whole, context);
}

SegmentedNetwork::Sum::Sum(const SegmentedNetwork& network, const PreparedGraph& graph,
                           std::span<const double> weights)
    : network_(network), graph_(graph), weights_(weights) {
  const bool counts_all = network.options_.others != OtherSegments::kNone;
  for (size_t s = 0; s < graph.segments.size(); ++s) {
    if (!counts_all && weights[s] == 0) continue;
    const PreparedGraph& segment = *graph.segments[s].graph;
    node_total_ += static_cast<double>(segment.num_nodes);
    config_total_ += static_cast<double>(concerned_nodes(graph, segment));
    segment_total_ += 1;
  }
}

at::Tensor SegmentedNetwork::Sum::scaled(int64_t segment, const at::Tensor& embedding) const {
  const auto at = static_cast<size_t>(segment);
  const PreparedGraph& of = *graph_.segments[at].graph;
  const double weight = weights_[at];
  const Aggregation aggregation = network_.options_.aggregation;
  if (aggregation != Aggregation::kPooling) {
    return embedding * (aggregation == Aggregation::kSum ? weight : weight / segment_total_);
  }
  const double nodes = static_cast<double>(of.num_nodes) / node_total_;
  const double configs =
      static_cast<double>(concerned_nodes(graph_, of)) / std::max(1.0, config_total_);
  const auto factor = [&](Pooling pooling) {
    if (pooling == Pooling::kNodeMean) return weight * nodes;
    return pooling == Pooling::kConfigMean ? weight * configs : weight;
  };
  const std::vector<PooledColumns> columns = network_.columns();
  if (columns.size() == 1) return embedding * factor(columns[0].pooling);
  std::vector<at::Tensor> factors;
  for (const PooledColumns& part : columns) {
    factors.push_back(at::full({part.columns}, factor(part.pooling), embedding.options()));
  }
  return embedding * at::cat(factors);
}

void SegmentedNetwork::Sum::add(int64_t segment, const at::Tensor& embedding) {
  const at::Tensor term = scaled(segment, embedding);
  linear_ = linear_.defined() ? linear_ + term : term;
  if (network_.options_.aggregation != Aggregation::kPooling) return;
  if (concerned_nodes(graph_, *graph_.segments[static_cast<size_t>(segment)].graph) == 0) return;
  std::vector<at::Tensor> parts;
  int64_t first = 0;
  for (const PooledColumns& part : network_.columns()) {
    if (part.pooling == Pooling::kConfigMax) {
      parts.push_back(embedding.narrow(1, first, part.columns));
    }
    first += part.columns;
  }
  if (parts.empty()) return;
  const at::Tensor found = at::cat(parts, 1);
  largest_ = largest_.defined() ? at::maximum(largest_, found) : found;
}

at::Tensor SegmentedNetwork::Sum::value() const {
  if (network_.options_.aggregation != Aggregation::kPooling) return linear_;
  std::vector<at::Tensor> parts;
  int64_t first = 0, first_largest = 0;
  for (const PooledColumns& part : network_.columns()) {
    if (part.pooling != Pooling::kConfigMax) {
      parts.push_back(linear_.narrow(1, first, part.columns));
    } else if (largest_.defined()) {
      parts.push_back(largest_.narrow(1, first_largest, part.columns));
      first_largest += part.columns;
    } else {
      parts.push_back(at::zeros({linear_.size(0), part.columns}, linear_.options()));
    }
    first += part.columns;
  }
  return parts.size() == 1 ? parts[0] : at::cat(parts, 1);
}

namespace {

/// What a segment that is not sampled counts with, without gradients.
class OthersSource {
 public:
  OthersSource(const SegmentedNetwork& network, const SegmentOptions& options,
               const SegmentedSample& sample, const ForwardContext& context, HistoryTable* history,
               int64_t step, StaleReport& report)
      : network_(network),
        options_(options),
        sample_(sample),
        context_(context),
        history_(history),
        step_(step),
        report_(report) {}

  at::Tensor operator()(int64_t segment) {
    if (options_.others == OtherSegments::kFresh) return fresh(segment);
    const auto count = static_cast<int64_t>(sample_.configs.size());
    report_.used += count;
    bool is_complete = true;
    int64_t age_sum = 0, age_max = 0;
    for (const int64_t config : sample_.configs) {
      const auto stored = history_->step_of(sample_.graph, config, segment);
      if (!stored) {
        is_complete = false;
        ++report_.missing;
        continue;
      }
      age_sum += step_ - *stored;
      age_max = std::max(age_max, step_ - *stored);
    }
    if (!is_complete && options_.warm_start != WarmStart::kZeros) {
      const at::Tensor values = fresh(segment);
      history_->store(sample_.graph, sample_.configs, segment, values, step_);
      return values;
    }
    report_.age_sum += age_sum;
    report_.age_max = std::max(report_.age_max, age_max);
    return history_->read(sample_.graph, sample_.configs, segment);
  }

 private:
  at::Tensor fresh(int64_t segment) const {
    const at::NoGradGuard no_gradients;
    return network_.encode(sample_.batch_of(segment), context_of(context_, segment));
  }

  const SegmentedNetwork& network_;
  const SegmentOptions& options_;
  const SegmentedSample& sample_;
  const ForwardContext& context_;
  HistoryTable* history_;
  int64_t step_;
  StaleReport& report_;
};

}  // namespace

at::Tensor segmented_costs(const Network& network, const SegmentOptions& options,
                           const SegmentedSample& sample, const ForwardContext& context,
                           HistoryTable* history, int64_t step, StaleReport& report) {
  const SegmentedNetwork segmented(network, options);
  const SegmentPlan& plan = *sample.plan;
  SegmentedNetwork::Sum sum(segmented, *sample.prepared, plan.weights);
  OthersSource other(segmented, options, sample, context, history, step, report);
  std::vector<bool> is_sampled(plan.weights.size(), false);
  for (const int64_t segment : plan.sampled) is_sampled[static_cast<size_t>(segment)] = true;
  for (size_t s = 0; s < plan.weights.size(); ++s) {
    const auto segment = static_cast<int64_t>(s);
    if (is_sampled[s]) {
      const at::Tensor embedding =
          segmented.encode(sample.batch_of(segment), context_of(context, segment));
      if (history != nullptr) {
        history->store(sample.graph, sample.configs, segment, embedding, step);
      }
      sum.add(segment, embedding);
    } else if (plan.weights[s] > 0) {
      sum.add(segment, other(segment));
    }
  }
  return segmented.finish(sum.value(), sample.whole, context);
}

void fill_history(const Network& network, const SegmentOptions& options,
                  const SegmentedSample& sample, const ForwardContext& context,
                  HistoryTable& history, int64_t step) {
  const at::NoGradGuard no_gradients;
  const SegmentedNetwork segmented(network, options);
  for (size_t s = 0; s < sample.prepared->segments.size(); ++s) {
    const auto segment = static_cast<int64_t>(s);
    const auto has = [&](int64_t config) {
      return history.step_of(sample.graph, config, segment).has_value();
    };
    if (std::all_of(sample.configs.begin(), sample.configs.end(), has)) continue;
    history.store(sample.graph, sample.configs, segment,
                  segmented.encode(sample.batch_of(segment), context), step);
  }
}

at::Tensor finetune_costs(const Network& network, const SegmentOptions& options,
                          const SegmentedSample& sample, const ForwardContext& context,
                          HistoryTable& history, int64_t step) {
  ForwardContext of_encoder = context;
  of_encoder.is_training = false;  // as it will be asked
  const SegmentedNetwork segmented(network, options);
  const std::vector<double> weights(sample.prepared->segments.size(), 1);
  SegmentedNetwork::Sum sum(segmented, *sample.prepared, weights);
  for (size_t s = 0; s < weights.size(); ++s) {
    const auto segment = static_cast<int64_t>(s);
    const auto has = [&](int64_t config) {
      return history.step_of(sample.graph, config, segment).has_value();
    };
    const at::NoGradGuard no_gradients;
    if (std::all_of(sample.configs.begin(), sample.configs.end(), has)) {
      sum.add(segment, history.read(sample.graph, sample.configs, segment));
      continue;
    }
    const at::Tensor values = segmented.encode(sample.batch_of(segment), of_encoder);
    history.store(sample.graph, sample.configs, segment, values, step);
    sum.add(segment, values);
  }
  return segmented.finish(sum.value(), sample.whole, context);
}

}  // namespace lagom::cost_model
