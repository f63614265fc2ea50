#include "lagom/cost_model/segment_training.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace lagom::cost_model {
namespace {

std::string in_mb(int64_t bytes) {
  return std::to_string((bytes + 999'999) / 1'000'000) + " MB";
}

bool has_history(const SegmentOptions& options) {
  return options.others == OtherSegments::kHistory || options.finetune_share > 0;
}

std::string describe(const std::vector<PreparedGraphPtr>& graphs, const SegmentOptions& options,
                     const std::optional<HistoryTable>& history) {
  int64_t segments = 0, fewer = 0, cut = 0, edges = 0;
  for (const PreparedGraphPtr& graph : graphs) {
    const auto count = static_cast<int64_t>(graph->segments.size());
    segments += count;
    fewer += count < options.sampled;
    cut += graph->cut_edges;
    edges += graph->cut_edges;
    for (const GraphSegment& segment : graph->segments) {
      edges += segment.graph->to_users->num_edges();
    }
  }
  std::string text = std::to_string(graphs.size()) + " graphs in " + std::to_string(segments) +
                     " segments of at most " + std::to_string(options.max_nodes) + " nodes; " +
                     std::to_string(cut) + " of " + std::to_string(edges) +
                     " edges lie between segments";
  if (fewer > 0) {
    text += "; " + std::to_string(fewer) + " graphs have fewer than " +
            std::to_string(options.sampled) + " segments: all of theirs are sampled";
  }
  if (history) {
    text +=
        "; history of up to " + in_mb(std::min(history->full_bytes(), options.history.max_bytes));
  }
  return text;
}

}  // namespace

SegmentTraining::SegmentTraining(const Network& network, const SegmentOptions& options,
                                 int64_t steps, const std::vector<PreparedGraphPtr>& graphs,
                                 const std::vector<int64_t>& configs, at::ScalarType dtype,
                                 const std::filesystem::path& file)
    : network_(network),
      options_(options),
      finetune_begin_(options.finetune_share == 0
                          ? std::numeric_limits<int64_t>::max()
                          : steps -
                                std::llround(options.finetune_share * static_cast<double>(steps))) {
  if (has_history(options)) {
    if (network.compares_configs()) {
      throw std::invalid_argument(
          "segments.others: the network compares the configurations of a step, so that an "
          "embedding depends on all of them and a history says nothing; take \"fresh\" or "
          "\"none\" without finetune_share, or cross_config = false");
    }
    std::vector<HistoryTable::Graph> sizes;
    for (size_t g = 0; g < graphs.size(); ++g) {
      sizes.push_back({.num_configs = configs[g],
                       .num_segments = static_cast<int64_t>(graphs[g]->segments.size())});
    }
    history_.emplace(std::move(sizes), SegmentedNetwork(network, options).num_columns(), dtype,
                     options.history, file);
  }
  description_ = describe(graphs, options, history_);
}

void SegmentTraining::begin_finetuning() {
  history_->clear();
}

void SegmentTraining::fill(const SegmentedSample& sample, const ForwardContext& context) {
  fill_history(network_, options_, sample, context, *history_, /*step=*/0);
}

at::Tensor SegmentTraining::costs(const SegmentedSample& sample, const ForwardContext& context,
                                  int64_t step) {
  if (is_finetuning(step)) {
    return finetune_costs(network_, options_, sample, context, *history_, step);
  }
  return segmented_costs(network_, options_, sample, context, history_ ? &*history_ : nullptr, step,
                         report_);
}

void SegmentTraining::report(std::vector<formats::Scalar>& line) {
  if (!history_) return;
  const auto known = static_cast<double>(std::max<int64_t>(1, report_.used - report_.missing));
  line.push_back({"stale_used", static_cast<double>(report_.used)});
  line.push_back({"stale_missing", static_cast<double>(report_.missing)});
  line.push_back({"stale_age_mean", static_cast<double>(report_.age_sum) / known});
  line.push_back({"stale_age_max", static_cast<double>(report_.age_max)});
  line.push_back({"history_entries", static_cast<double>(history_->num_entries())});
  line.push_back({"history_replaced", static_cast<double>(history_->num_replaced())});
  report_ = {};
}

void SegmentTraining::add_state(std::vector<tensor::NamedTensor>& state) const {
  if (!history_) return;
  for (tensor::NamedTensor& each : history_->state()) state.push_back(std::move(each));
}

void SegmentTraining::load_state(const tensor::TensorFile& checkpoint) {
  if (history_) history_->load_state(checkpoint);
}

std::vector<train::ParameterGroup> parameter_groups(const Network& network,
                                                    const SegmentOptions& options,
                                                    double weight_decay) {
  if (!options.cuts() || options.finetune_share == 0) {
    return {{.name = "all", .parameters = network.parameters(), .weight_decay = weight_decay}};
  }
  std::vector<tensor::NamedTensor> encoder, head;
  for (const tensor::NamedTensor& each : network.parameters()) {
    (network.is_head_parameter(each.first) ? head : encoder).push_back(each);
  }
  if (head.empty()) {
    throw std::invalid_argument(
        "segments.finetune_share: this network has no parameters behind its pooling");
  }
  return {{.name = "encoder", .parameters = encoder, .weight_decay = weight_decay},
          {.name = "head", .parameters = head, .weight_decay = weight_decay}};
}

}  // namespace lagom::cost_model
