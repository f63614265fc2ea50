#pragma once

// What a plan's results say: a parabola of loss over log parameters for each family and budget, and
// families against the baseline, with intervals over seeds.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lagom/lm/isoflop_runner.h"
#include "lagom/util/statistics.h"

namespace lagom::lm {

/// The least-squares parabola y = a (x - x0)^2 + y0 through points.
struct Parabola {
  double curvature = 0, x0 = 0, y0 = 0;
  double at(double x) const { return curvature * (x - x0) * (x - x0) + y0; }
};
/// Empty for fewer than three different x, and where the points do not bend upwards.
std::optional<Parabola> fit_parabola(const std::vector<double>& x, const std::vector<double>& y);

/// One model size of a family at a budget; means over its seeds.
struct IsoflopPoint {
  std::string size;
  int64_t parameters = 0;
  double forward_flops_per_token = 0;
  std::vector<std::pair<int64_t, double>> losses;  ///< (seed, loss) of the runs that are done.
  double loss = 0, deviation = 0;
  double loss_topk = 0;
  double steps_per_second = 0;
  double tokens_per_second = 0;
};

struct IsoflopCurve {
  double budget = 0;
  std::string family;
  std::vector<IsoflopPoint> points;  ///< By parameters.
  double learning_rate = 0;
  std::optional<Parabola> fit;  ///< Over log10 of the parameters.
  /// The fit's minimum lies among the sizes and not beyond them.
  bool is_bracketed = false;
  double parameters = 0, loss = 0, forward_flops_per_token = 0;  ///< Of the fit's minimum.
  Interval parameters_interval, loss_interval;
};

/// A family against the baseline, by one way of looking.
struct IsoflopComparison {
  double budget = 0;
  std::string family, what;
  double difference = 0;  ///< Of losses, in percent of the baseline's: below 0 is better.
  Interval interval;      ///< 95 %, bootstrap over seeds.
  int64_t seeds = 0;      ///< That both have.
};

struct IsoflopAnalysis {
  std::vector<IsoflopCurve> curves;  ///< By budget, families in the plan's order.
  std::vector<IsoflopComparison> comparisons;
  int64_t runs_done = 0, runs_total = 0;
};

/// Reads what is done. Seeds are drawn with replacement, the same for all families of a budget,
/// since runs of one seed share the order of their data; with fewer than two seeds intervals are
/// NaN. Throws as plan_runs and read_result.
IsoflopAnalysis analyze_isoflop(const IsoflopPlan& plan, const std::filesystem::path& folder);

}  // namespace lagom::lm
