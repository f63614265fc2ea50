#include "cli/metrics_table.h"

#include <cstdio>
#include <nlohmann/json.hpp>

namespace lagom::cli {

using nlohmann::ordered_json;
using rank::GraphMetrics;

ordered_json metrics_to_json(const GraphMetrics& m) {
  return {{"kendall_tau", m.kendall_tau},
          {"ordered_pair_accuracy", m.ordered_pair_accuracy},
          {"top1_slowdown", m.top1_slowdown},
          {"top5_slowdown", m.top5_slowdown},
          {"top10_slowdown", m.top10_slowdown}};
}

ordered_json summary_to_json(const rank::MetricsSummary& summary) {
  ordered_json json = {{"mean", metrics_to_json(summary.mean)},
                       {"low", metrics_to_json(summary.low)},
                       {"high", metrics_to_json(summary.high)}};
  if (summary.seed_means.size() > 1) {
    ordered_json seeds = ordered_json::array();
    for (const GraphMetrics& mean : summary.seed_means) seeds.push_back(metrics_to_json(mean));
    json["seed_means"] = std::move(seeds);
  }
  return json;
}

void print_metrics_header() {
  std::printf("%-48s %8s %8s %8s %8s %8s\n", "graph", "tau", "opa", "top1", "top5", "top10");
}

void print_metrics_row(const std::string& name, const GraphMetrics& m) {
  std::printf("%-48s %8.4f %8.4f %8.4f %8.4f %8.4f\n", name.c_str(), m.kendall_tau,
              m.ordered_pair_accuracy, m.top1_slowdown, m.top5_slowdown, m.top10_slowdown);
}

void print_summary(const std::string& name, const rank::MetricsSummary& summary) {
  print_metrics_row(name, summary.mean);
  print_metrics_row("  2.5 %", summary.low);
  print_metrics_row("  97.5 %", summary.high);
}

}  // namespace lagom::cli
