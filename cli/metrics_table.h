#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "lagom/rank/bootstrap.h"

namespace lagom::cli {

nlohmann::ordered_json metrics_to_json(const rank::GraphMetrics& metrics);
/// {"mean": {...}, "low": {...}, "high": {...}}, and "seed_means" where there are several seeds.
nlohmann::ordered_json summary_to_json(const rank::MetricsSummary& summary);

/// A table with a line per graph, and lines for means and for the ends of their intervals.
void print_metrics_header();
void print_metrics_row(const std::string& name, const rank::GraphMetrics& metrics);
void print_summary(const std::string& name, const rank::MetricsSummary& summary);

}  // namespace lagom::cli
