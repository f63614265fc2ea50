#include "lagom/graph/audit.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "lagom/rank/metrics.h"

namespace lagom::graph {
namespace {

std::string text(const char* format, double value) {
  char buffer[160];
  std::snprintf(buffer, sizeof buffer, format, value);
  return buffer;
}

double tau_along_rows(std::span<const double> values) {
  std::vector<double> rows(values.size());
  std::iota(rows.begin(), rows.end(), 0.0);
  const double tau = rank::kendall_tau(rows, values);
  return std::isnan(tau) ? 0 : tau;
}

/// Of rows whose configuration was repeated, relative to the mean of its rows.
std::vector<double> residuals(const DuplicateGroups& groups, std::span<const double> values) {
  const std::vector<double> means = merge_rows(groups, values, MergeRule::kMean);
  std::vector<int64_t> sizes(means.size(), 0);
  for (const int64_t group : groups.group_of_row) ++sizes[static_cast<size_t>(group)];
  std::vector<double> result;
  for (size_t row = 0; row < values.size(); ++row) {
    const auto group = static_cast<size_t>(groups.group_of_row[row]);
    if (sizes[group] > 1) result.push_back(values[row] / means[group]);
  }
  return result;
}

struct Gap {
  double ratio = 1;
  double threshold = 0;  ///< Values above are the upper band.
};
Gap widest_gap(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const size_t margin = std::max<size_t>(sorted.size() / 50, 5);
  Gap gap;
  for (size_t i = margin; i + margin <= sorted.size(); ++i) {
    const double ratio = sorted[i] / sorted[i - 1];
    if (ratio > gap.ratio) gap = {.ratio = ratio, .threshold = sorted[i - 1]};
  }
  return gap;
}

/// Wald and Wolfowitz's test: how many standard deviations fewer runs of one band there are than in
/// a random order.
double fewer_runs_than_random(std::span<const double> values, double threshold) {
  double upper = 0, runs = 1;
  for (size_t row = 0; row < values.size(); ++row) {
    const bool is_upper = values[row] > threshold;
    upper += is_upper;
    if (row > 0) runs += is_upper != (values[row - 1] > threshold);
  }
  const auto all = static_cast<double>(values.size());
  const double both = 2 * upper * (all - upper);
  const double expected = both / all + 1;
  const double variance = both * (both - all) / (all * all * (all - 1));
  return variance > 0 ? (expected - runs) / std::sqrt(variance) : 0;
}

void judge_order(const DuplicateGroups& groups, std::span<const double> values,
                 const AuditOptions& options, GraphAudit& audit) {
  const std::vector<double> repeated = residuals(groups, values);
  const bool use_repeats = static_cast<int64_t>(repeated.size()) >= options.min_rows;
  audit.drift = tau_along_rows(use_repeats ? std::span<const double>(repeated) : values);
  if (std::abs(audit.drift) > (use_repeats ? options.max_repeat_drift : options.max_drift)) {
    audit.findings.push_back(
        text(use_repeats ? "drift: repeats of one configuration change with the row (tau %.2f)"
                         : "drift: runtimes change with the row (tau %.2f)",
             audit.drift));
  }
  const Gap gap = widest_gap(values);
  audit.gap = gap.ratio;
  if (gap.ratio < options.min_gap) return;
  audit.block_z = fewer_runs_than_random(values, gap.threshold);
  if (audit.block_z < options.min_block_z) return;
  audit.findings.push_back(text("blocks: two bands a factor of %.2f apart,", gap.ratio) +
                           text(" in blocks of rows (z %.1f)", audit.block_z));
}

}  // namespace

GraphAudit audit_runtimes(const DuplicateGroups& groups, std::span<const double> values,
                          const AuditOptions& options) {
  GraphAudit audit{.rows = groups.num_rows(), .distinct = groups.num_groups()};
  audit.noise = noise_of_repeats(groups, values);
  if (values.empty()) return audit;
  const auto [fastest, slowest] = std::minmax_element(values.begin(), values.end());
  audit.fastest = *fastest;
  audit.slowest = *slowest;
  if (audit.slowest / audit.fastest > options.max_ratio) {
    audit.findings.push_back(
        text("impossible runtimes: slowest over fastest is %.0f", audit.slowest / audit.fastest));
  }
  if (audit.noise.largest_spread > options.max_repeat_spread) {
    audit.findings.push_back(text("impossible runtimes: one configuration differs by %.1f %%",
                                  100 * audit.noise.largest_spread));
  }
  if (audit.rows >= options.min_rows) judge_order(groups, values, options, audit);
  return audit;
}

GraphAudit audit_graph(const GraphCache& graph, const AuditOptions& options) {
  const DuplicateGroups groups = find_duplicates(graph);
  if (graph.has_labels()) return audit_runtimes(groups, comparable_runtimes(graph), options);
  return {.rows = groups.num_rows(), .distinct = groups.num_groups()};
}

}  // namespace lagom::graph
