#include "lagom/lm/isoflop_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "lagom/util/json_lines.h"
#include "lagom/util/report.h"

namespace lagom::lm {
namespace {

using Rows = TableRows;

std::string loss_text(double loss) {
  return std::isnan(loss) ? "diverged" : format_number("%.4f", loss);
}

std::string interval_text(const Interval& interval, const char* pattern) {
  if (std::isnan(interval.low)) return "";
  return "[" + format_number(pattern, interval.low) + ", " + format_number(pattern, interval.high) +
         "]";
}

const std::vector<std::string> kPointHeader = {"family",      "budget", "size", "parameters",
                                               "FLOPs/token", "seeds",  "loss", "+-",
                                               "top-k",       "steps/s"};

Rows point_rows(const IsoflopAnalysis& analysis) {
  Rows rows;
  for (const IsoflopCurve& curve : analysis.curves) {
    for (const IsoflopPoint& point : curve.points) {
      rows.push_back({curve.family, budget_name(curve.budget), point.size,
                      std::to_string(point.parameters),
                      format_number("%.3g", point.forward_flops_per_token),
                      std::to_string(point.losses.size()), loss_text(point.loss),
                      point.losses.size() > 1 ? format_number("%.4f", point.deviation) : "",
                      loss_text(point.loss_topk), format_number("%.2f", point.steps_per_second)});
    }
  }
  return rows;
}

const std::vector<std::string> kFitHeader = {
    "family", "budget", "learning rate", "optimum: parameters",
    "95 %",   "loss",   "95 %",          "FLOPs/token"};

Rows fit_rows(const IsoflopAnalysis& analysis) {
  Rows rows;
  for (const IsoflopCurve& curve : analysis.curves) {
    auto& row = rows.emplace_back();
    row = {curve.family, budget_name(curve.budget), format_number("%g", curve.learning_rate)};
    if (!curve.fit) {
      row.insert(row.end(), {"no minimum: too few sizes, or no bend upwards"});
      continue;
    }
    row.insert(row.end(), {format_number("%.3g", curve.parameters) +
                               (curve.is_bracketed ? "" : " (beyond the sizes)"),
                           interval_text(curve.parameters_interval, "%.3g"), loss_text(curve.loss),
                           interval_text(curve.loss_interval, "%.4f"),
                           format_number("%.3g", curve.forward_flops_per_token)});
  }
  return rows;
}

const std::vector<std::string> kComparisonHeader = {"family",     "budget", "against the baseline",
                                                    "difference", "95 %",   "paired seeds"};

Rows comparison_rows(const IsoflopAnalysis& analysis) {
  Rows rows;
  for (const IsoflopComparison& c : analysis.comparisons) {
    rows.push_back({c.family, budget_name(c.budget), c.what,
                    format_number("%+.2f %%", c.difference), interval_text(c.interval, "%+.2f"),
                    std::to_string(c.seeds)});
  }
  return rows;
}

/// A family keeps its colour through all charts.
std::map<std::string, int> colors_of(const IsoflopPlan& plan) {
  std::map<std::string, int> colors;
  for (const auto& [name, family] : plan.families) {
    const int next = static_cast<int>(colors.size());
    colors[name] = next;
  }
  return colors;
}

std::string point_label(const IsoflopCurve& curve, const IsoflopPoint& point) {
  return curve.family + " " + point.size + ": " + loss_text(point.loss) + ", " +
         std::to_string(point.losses.size()) + " seeds, " +
         format_number("%.3g FLOPs/token", point.forward_flops_per_token);
}

/// Points of a budget's curves at x(point), with their deviations over seeds.
template <typename X>
Chart loss_chart(const IsoflopAnalysis& analysis, double budget,
                 const std::map<std::string, int>& colors, const std::string& x_label, X&& x) {
  Chart chart{.x_label = x_label, .y_label = "validation loss, nats per token", .log_x = true};
  for (const IsoflopCurve& curve : analysis.curves) {
    if (curve.budget != budget) continue;
    ChartSeries series{.name = curve.family, .line = !curve.fit, .color = colors.at(curve.family)};
    for (const IsoflopPoint& point : curve.points) {
      series.points.push_back({.x = x(curve, point),
                               .y = point.loss,
                               .low = point.loss - point.deviation,
                               .high = point.loss + point.deviation,
                               .label = point_label(curve, point)});
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

std::string parameters_chart(const IsoflopAnalysis& analysis, double budget,
                             const std::map<std::string, int>& colors) {
  Chart chart = loss_chart(analysis, budget, colors, "parameters",
                           [](const IsoflopCurve&, const IsoflopPoint& point) {
                             return static_cast<double>(point.parameters);
                           });
  constexpr int kSteps = 40;
  for (const IsoflopCurve& curve : analysis.curves) {
    if (curve.budget != budget || !curve.fit) continue;
    ChartSeries line{.name = "", .line = true, .marks = false, .color = colors.at(curve.family)};
    const double low = std::log10(static_cast<double>(curve.points.front().parameters));
    const double high = std::log10(static_cast<double>(curve.points.back().parameters));
    for (int i = 0; i <= kSteps; ++i) {
      const double x = std::lerp(low, high, static_cast<double>(i) / kSteps);
      line.points.push_back({.x = std::pow(10, x), .y = curve.fit->at(x)});
    }
    chart.series.push_back(std::move(line));
  }
  return chart_svg(chart);
}

const IsoflopPoint* best_point(const IsoflopCurve& curve) {
  const IsoflopPoint* best = nullptr;
  for (const IsoflopPoint& point : curve.points) {
    if (!std::isnan(point.loss) && (best == nullptr || point.loss < best->loss)) best = &point;
  }
  return best;
}

/// Training loss over FLOPs of each family's best size, its first seed, smoothed.
std::string learning_chart(const IsoflopAnalysis& analysis, double budget,
                           const std::map<std::string, int>& colors,
                           const std::filesystem::path& folder) {
  Chart chart{.x_label = "training FLOPs", .y_label = "training loss, smoothed", .log_x = true};
  for (const IsoflopCurve& curve : analysis.curves) {
    const IsoflopPoint* best = curve.budget == budget ? best_point(curve) : nullptr;
    if (best == nullptr) continue;
    ChartSeries series{.name = curve.family + " " + best->size,
                       .line = true,
                       .marks = false,
                       .color = colors.at(curve.family)};
    const std::string id = budget_name(budget) + "-" + curve.family + "-" + best->size + "-s" +
                           std::to_string(best->losses.front().first);
    double smooth = 0;
    for_each_json_line(folder / "runs" / id / "log.jsonl", [&](const nlohmann::json& line) {
      if (!line.contains("loss") || !line["loss"].is_number()) return;
      const auto loss = line["loss"].get<double>();
      smooth = series.points.empty() ? loss : 0.9 * smooth + 0.1 * loss;
      series.points.push_back({.x = line.at("training_flops").get<double>(), .y = smooth});
    });
    // The first tenth falls from log V: it would squeeze the rest.
    const auto tenth = static_cast<std::ptrdiff_t>(series.points.size() / 10);
    series.points.erase(series.points.begin(), series.points.begin() + tenth);
    chart.series.push_back(std::move(series));
  }
  return chart_svg(chart);
}

std::string top_k_chart(const IsoflopAnalysis& analysis, const std::map<std::string, int>& colors) {
  Chart chart{.x_label = "loss under top-k (looks ahead)", .y_label = "loss as sampled (causal)"};
  for (const IsoflopCurve& curve : analysis.curves) {
    ChartSeries series{.name = curve.budget == analysis.curves.front().budget ? curve.family : "",
                       .color = colors.at(curve.family)};
    for (const IsoflopPoint& point : curve.points) {
      series.points.push_back(
          {.x = point.loss_topk, .y = point.loss, .label = point_label(curve, point)});
    }
    chart.series.push_back(std::move(series));
  }
  return chart_svg(chart);
}

std::string speed_chart(const IsoflopAnalysis& analysis, const std::map<std::string, int>& colors) {
  Chart chart{.x_label = "FLOPs per token of a forward pass",
              .y_label = "training tokens per second",
              .log_x = true};
  for (const IsoflopCurve& curve : analysis.curves) {
    ChartSeries series{.name = curve.budget == analysis.curves.front().budget ? curve.family : "",
                       .color = colors.at(curve.family)};
    for (const IsoflopPoint& point : curve.points) {
      series.points.push_back({.x = point.forward_flops_per_token,
                               .y = point.tokens_per_second,
                               .label = point_label(curve, point)});
    }
    chart.series.push_back(std::move(series));
  }
  return chart_svg(chart);
}

}  // namespace

std::string isoflop_text(const IsoflopAnalysis& analysis) {
  std::string out = std::to_string(analysis.runs_done) + " of " +
                    std::to_string(analysis.runs_total) + " runs are done\n\n" +
                    text_table(kPointHeader, point_rows(analysis), 3) + "\n" +
                    text_table(kFitHeader, fit_rows(analysis), 2);
  if (!analysis.comparisons.empty()) {
    out += "\n" + text_table(kComparisonHeader, comparison_rows(analysis), 3);
  }
  return out;
}

std::string isoflop_points_csv(const IsoflopAnalysis& analysis) {
  std::string out =
      "budget,family,size,parameters,forward_flops_per_token,learning_rate,seeds,loss,deviation,"
      "loss_topk,steps_per_second,tokens_per_second\n";
  for (const IsoflopCurve& curve : analysis.curves) {
    for (const IsoflopPoint& p : curve.points) {
      char line[320];
      std::snprintf(line, sizeof line, "%s,%s,%s,%lld,%.8g,%g,%zu,%.6f,%.6f,%.6f,%.4f,%.1f\n",
                    budget_name(curve.budget).c_str(), curve.family.c_str(), p.size.c_str(),
                    static_cast<long long>(p.parameters), p.forward_flops_per_token,
                    curve.learning_rate, p.losses.size(), p.loss, p.deviation, p.loss_topk,
                    p.steps_per_second, p.tokens_per_second);
      out += line;
    }
  }
  return out;
}

std::string isoflop_fit_csv(const IsoflopAnalysis& analysis) {
  std::string out =
      "budget,family,bracketed,parameters,parameters_low,parameters_high,loss,loss_low,loss_high,"
      "forward_flops_per_token,curvature\n";
  for (const IsoflopCurve& c : analysis.curves) {
    if (!c.fit) continue;
    char line[320];
    std::snprintf(line, sizeof line, "%s,%s,%d,%.6g,%.6g,%.6g,%.6f,%.6f,%.6f,%.6g,%.6g\n",
                  budget_name(c.budget).c_str(), c.family.c_str(), c.is_bracketed ? 1 : 0,
                  c.parameters, c.parameters_interval.low, c.parameters_interval.high, c.loss,
                  c.loss_interval.low, c.loss_interval.high, c.forward_flops_per_token,
                  c.fit->curvature);
    out += line;
  }
  return out;
}

std::string isoflop_html(const IsoflopPlan& plan, const IsoflopAnalysis& analysis,
                         const std::filesystem::path& folder) {
  const auto colors = colors_of(plan);
  std::string body = "<h1>Models at equal training FLOPs</h1><p class=\"dim\">" +
                     std::to_string(analysis.runs_done) + " of " +
                     std::to_string(analysis.runs_total) +
                     " runs are done; points are means over seeds with their standard deviation, "
                     "lines are parabolas in log parameters.</p>";
  if (!analysis.comparisons.empty()) {
    body += "<h2>Against " + html_escape(plan.baseline) + "</h2>" +
            html_table(kComparisonHeader, comparison_rows(analysis), 3) +
            "<p class=\"dim\">Losses, in percent of the baseline's: below 0 is better. Intervals "
            "are bootstraps over seeds.</p>";
  }
  std::vector<double> budgets = plan.budgets;
  std::sort(budgets.begin(), budgets.end());
  for (const double budget : budgets) {
    double unit = 1;
    for (const IsoflopCurve& curve : analysis.curves) {
      if (curve.budget == budget && curve.family == plan.baseline && curve.is_bracketed) {
        unit = curve.forward_flops_per_token;
      }
    }
    body +=
        "<h2>" + budget_name(budget) + " FLOPs</h2>" + parameters_chart(analysis, budget, colors);
    body += chart_svg(
        loss_chart(analysis, budget, colors,
                   unit == 1 ? "FLOPs per token of a forward pass"
                             : "FLOPs per forward pass, " + plan.baseline + "'s optimum = 1",
                   [&](const IsoflopCurve&, const IsoflopPoint& p) {
                     return p.forward_flops_per_token / unit;
                   }));
    body += learning_chart(analysis, budget, colors, folder);
  }
  body += "<h2>Optima of the fits</h2>" + html_table(kFitHeader, fit_rows(analysis), 2);
  body += "<h2>Causal and top-k losses</h2>" + top_k_chart(analysis, colors);
  body += "<h2>Speed of training steps</h2>" + speed_chart(analysis, colors);
  body += "<h2>All sizes</h2>" + html_table(kPointHeader, point_rows(analysis), 3);
  return html_page("Models at equal training FLOPs", body);
}

}  // namespace lagom::lm
