#include "lagom/lm/isoflop_fit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>

namespace lagom::lm {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr int kResamples = 1000;

/// How often each seed counts; empty: once each.
using SeedWeights = std::map<int64_t, int>;

/// The mean loss of a size, NaN where no drawn seed has a result.
double mean_loss(const IsoflopPoint& point, const SeedWeights& weights) {
  double sum = 0, count = 0;
  for (const auto& [seed, loss] : point.losses) {
    const auto found = weights.find(seed);
    const double weight = weights.empty()          ? 1
                          : found == weights.end() ? 0
                                                   : static_cast<double>(found->second);
    if (std::isnan(loss)) continue;
    sum += weight * loss;
    count += weight;
  }
  return count > 0 ? sum / count : kNaN;
}

std::optional<Parabola> fit_curve(const IsoflopCurve& curve, const SeedWeights& weights) {
  std::vector<double> x, y;
  for (const IsoflopPoint& point : curve.points) {
    const double loss = mean_loss(point, weights);
    if (std::isnan(loss)) continue;
    x.push_back(std::log10(static_cast<double>(point.parameters)));
    y.push_back(loss);
  }
  return fit_parabola(x, y);
}

/// The lowest mean loss of a curve's sizes.
const IsoflopPoint* best_point(const IsoflopCurve& curve) {
  const IsoflopPoint* best = nullptr;
  for (const IsoflopPoint& point : curve.points) {
    if (std::isnan(point.loss)) continue;
    if (best == nullptr || point.loss < best->loss) best = &point;
  }
  return best;
}

/// FLOPs of a model between two sizes: a line in logarithms.
double flops_at(const IsoflopCurve& curve, double parameters) {
  const auto& points = curve.points;
  if (points.size() < 2) return points.empty() ? kNaN : points[0].forward_flops_per_token;
  size_t i = 1;
  while (i + 1 < points.size() && static_cast<double>(points[i].parameters) < parameters) ++i;
  const double a = std::log(static_cast<double>(points[i - 1].parameters));
  const double b = std::log(static_cast<double>(points[i].parameters));
  const double share = b > a ? (std::log(parameters) - a) / (b - a) : 0;
  return std::exp(std::lerp(std::log(points[i - 1].forward_flops_per_token),
                            std::log(points[i].forward_flops_per_token), share));
}

std::set<int64_t> seeds_of(const IsoflopCurve& curve) {
  std::set<int64_t> seeds;
  for (const IsoflopPoint& point : curve.points) {
    for (const auto& [seed, loss] : point.losses) seeds.insert(seed);
  }
  return seeds;
}

/// Draws of seeds with replacement; none of fewer than two seeds.
std::vector<SeedWeights> draw_seeds(const std::set<int64_t>& seeds) {
  const std::vector<int64_t> all(seeds.begin(), seeds.end());
  std::vector<SeedWeights> draws;
  if (all.size() < 2) return draws;
  std::mt19937_64 random(1);
  for (int i = 0; i < kResamples; ++i) {
    SeedWeights weights;
    for (size_t s = 0; s < all.size(); ++s) ++weights[all[random() % all.size()]];
    draws.push_back(std::move(weights));
  }
  return draws;
}

void fit(IsoflopCurve& curve, const std::vector<SeedWeights>& draws) {
  curve.fit = fit_curve(curve, {});
  if (!curve.fit) return;
  curve.parameters = std::pow(10, curve.fit->x0);
  curve.loss = curve.fit->y0;
  curve.is_bracketed = curve.parameters >= static_cast<double>(curve.points.front().parameters) &&
                       curve.parameters <= static_cast<double>(curve.points.back().parameters);
  curve.forward_flops_per_token = flops_at(curve, curve.parameters);
  std::vector<double> parameters, losses;
  for (const SeedWeights& weights : draws) {
    if (const auto drawn = fit_curve(curve, weights)) {
      parameters.push_back(std::pow(10, drawn->x0));
      losses.push_back(drawn->y0);
    }
  }
  curve.parameters_interval = percentile_interval(std::move(parameters));
  curve.loss_interval = percentile_interval(std::move(losses));
}

double percent_of(double loss, double baseline) {
  return 100 * (loss / baseline - 1);
}

/// Optimum against optimum, by the fits.
std::optional<IsoflopComparison> compare_fits(const IsoflopCurve& curve,
                                              const IsoflopCurve& baseline,
                                              const std::vector<SeedWeights>& draws) {
  if (!curve.is_bracketed || !baseline.is_bracketed) return std::nullopt;
  IsoflopComparison result{.budget = curve.budget, .family = curve.family, .what = "fitted optima"};
  result.difference = percent_of(curve.loss, baseline.loss);
  std::vector<double> differences;
  for (const SeedWeights& weights : draws) {
    const auto a = fit_curve(curve, weights), b = fit_curve(baseline, weights);
    if (a && b) differences.push_back(percent_of(a->y0, b->y0));
  }
  result.interval = percentile_interval(std::move(differences));
  const auto ours = seeds_of(curve), theirs = seeds_of(baseline);
  for (const int64_t seed : ours) result.seeds += theirs.contains(seed);
  return result;
}

/// One size against one of the baseline's, seed by seed.
std::optional<IsoflopComparison> compare_points(const IsoflopCurve& curve, const IsoflopPoint& a,
                                                const IsoflopPoint& b, const std::string& what) {
  std::map<int64_t, double> theirs(b.losses.begin(), b.losses.end());
  IsoflopPoint ours_paired, theirs_paired;
  std::set<int64_t> seeds;
  for (const auto& [seed, loss] : a.losses) {
    const auto found = theirs.find(seed);
    if (found == theirs.end() || std::isnan(loss) || std::isnan(found->second)) continue;
    ours_paired.losses.emplace_back(seed, loss);
    theirs_paired.losses.emplace_back(seed, found->second);
    seeds.insert(seed);
  }
  if (seeds.empty()) return std::nullopt;
  IsoflopComparison result{.budget = curve.budget, .family = curve.family, .what = what};
  const auto difference = [&](const SeedWeights& weights) {
    return percent_of(mean_loss(ours_paired, weights), mean_loss(theirs_paired, weights));
  };
  result.difference = difference({});
  result.seeds = std::ssize(seeds);
  std::vector<double> differences;
  for (const SeedWeights& weights : draw_seeds(seeds)) differences.push_back(difference(weights));
  result.interval = percentile_interval(std::move(differences));
  return result;
}

/// The point whose FLOPs per forward pass are nearest.
const IsoflopPoint* nearest_in_flops(const IsoflopCurve& curve, double flops) {
  const IsoflopPoint* best = nullptr;
  const auto gap = [&](const IsoflopPoint& point) {
    return std::abs(std::log(point.forward_flops_per_token / flops));
  };
  for (const IsoflopPoint& point : curve.points) {
    if (std::isnan(point.loss)) continue;
    if (best == nullptr || gap(point) < gap(*best)) best = &point;
  }
  return best;
}

void compare(const IsoflopCurve& curve, const IsoflopCurve& baseline,
             const std::vector<SeedWeights>& draws, std::vector<IsoflopComparison>& all) {
  const auto add = [&](std::optional<IsoflopComparison> comparison) {
    if (comparison) all.push_back(std::move(*comparison));
  };
  add(compare_fits(curve, baseline, draws));
  const IsoflopPoint* ours = best_point(curve);
  const IsoflopPoint* theirs = best_point(baseline);
  if (ours == nullptr || theirs == nullptr) return;
  add(compare_points(curve, *ours, *theirs, "best sizes: " + ours->size + " and " + theirs->size));
  const IsoflopPoint* equal = nearest_in_flops(baseline, ours->forward_flops_per_token);
  if (equal != theirs) {
    add(compare_points(curve, *ours, *equal,
                       "nearest in FLOPs per forward: " + ours->size + " and " + equal->size));
  }
}

IsoflopPoint& point_of(IsoflopCurve& curve, const IsoflopRun& run) {
  for (IsoflopPoint& point : curve.points) {
    if (point.size == run.size) return point;
  }
  return curve.points.emplace_back(
      IsoflopPoint{.size = run.size,
                   .parameters = run.parameters,
                   .forward_flops_per_token = run.forward_flops_per_token,
                   .losses = {}});
}

/// Sums become means.
void finish(IsoflopCurve& curve) {
  std::erase_if(curve.points, [](const IsoflopPoint& point) { return point.losses.empty(); });
  for (IsoflopPoint& point : curve.points) {
    const auto count = static_cast<double>(point.losses.size());
    std::vector<double> losses;
    for (const auto& [seed, loss] : point.losses) losses.push_back(loss);
    point.loss = mean_of(losses);
    point.deviation = deviation_of(losses);
    point.loss_topk /= count;
    point.steps_per_second /= count;
    point.tokens_per_second /= count;
  }
  std::stable_sort(
      curve.points.begin(), curve.points.end(),
      [](const IsoflopPoint& a, const IsoflopPoint& b) { return a.parameters < b.parameters; });
}

}  // namespace

std::optional<Parabola> fit_parabola(const std::vector<double>& x, const std::vector<double>& y) {
  if (std::set<double>(x.begin(), x.end()).size() < 3) return std::nullopt;
  // Around the mean, least squares for y = a u^2 + b u + c: three normal equations.
  const double middle = mean_of(x);
  double s1 = 0, s2 = 0, s3 = 0, s4 = 0, t0 = 0, t1 = 0, t2 = 0;
  const auto n = static_cast<double>(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double u = x[i] - middle;
    s1 += u;
    s2 += u * u;
    s3 += u * u * u;
    s4 += u * u * u * u;
    t0 += y[i];
    t1 += u * y[i];
    t2 += u * u * y[i];
  }
  const auto determinant = [](double a, double b, double c, double d, double e, double f, double g,
                              double h, double i) {
    return a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g);
  };
  const double all = determinant(s4, s3, s2, s3, s2, s1, s2, s1, n);
  const double a = determinant(t2, s3, s2, t1, s2, s1, t0, s1, n) / all;
  const double b = determinant(s4, t2, s2, s3, t1, s1, s2, t0, n) / all;
  const double c = determinant(s4, s3, t2, s3, s2, t1, s2, s1, t0) / all;
  if (!(a > 0)) return std::nullopt;
  return Parabola{.curvature = a, .x0 = middle - b / (2 * a), .y0 = c - b * b / (4 * a)};
}

IsoflopAnalysis analyze_isoflop(const IsoflopPlan& plan, const std::filesystem::path& folder) {
  const std::vector<IsoflopRun> runs = plan_runs(plan);
  IsoflopAnalysis analysis{.runs_total = std::ssize(runs)};
  std::map<std::pair<double, std::string>, size_t> places;
  std::vector<double> budgets = plan.budgets;
  std::sort(budgets.begin(), budgets.end());
  std::map<std::string, double> rates;
  for (const double budget : budgets) {
    for (const auto& [name, family] : plan.families) {
      places[{budget, name}] = analysis.curves.size();
      analysis.curves.push_back({.budget = budget, .family = name, .points = {}});
      rates[name] = chosen_rate(folder, runs, name).value_or(0);
    }
  }
  for (const IsoflopRun& run : runs) {
    const auto result = read_result(folder, run);
    if (!result) continue;
    ++analysis.runs_done;
    if (run.tries_rate) continue;
    IsoflopCurve& curve = analysis.curves[places.at({run.budget, run.family})];
    curve.learning_rate =
        rates[run.family] > 0 ? rates[run.family] : run.options.schedule.learning_rate;
    IsoflopPoint& point = point_of(curve, run);
    point.losses.emplace_back(run.seed, result->loss);
    point.loss_topk += result->loss_topk;
    const double speed = static_cast<double>(run.options.steps) / result->training_seconds;
    point.steps_per_second += speed;
    point.tokens_per_second += speed * static_cast<double>(run.options.batch) *
                               static_cast<double>(run.options.accumulate) *
                               static_cast<double>(run.options.model.seq_len);
  }
  std::map<double, std::set<int64_t>> seeds;
  for (IsoflopCurve& curve : analysis.curves) {
    finish(curve);
    seeds[curve.budget].merge(seeds_of(curve));
  }
  std::map<double, std::vector<SeedWeights>> draws;
  for (const double budget : budgets) draws[budget] = draw_seeds(seeds[budget]);
  for (IsoflopCurve& curve : analysis.curves) fit(curve, draws[curve.budget]);
  for (const IsoflopCurve& curve : analysis.curves) {
    if (curve.family == plan.baseline) continue;
    compare(curve, analysis.curves[places.at({curve.budget, plan.baseline})], draws[curve.budget],
            analysis.comparisons);
  }
  std::erase_if(analysis.curves, [](const IsoflopCurve& curve) { return curve.points.empty(); });
  return analysis;
}

}  // namespace lagom::lm
