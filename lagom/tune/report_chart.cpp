#include "lagom/tune/report_chart.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "lagom/util/report.h"

namespace lagom::tune {
namespace {

constexpr double kWidth = 720, kHeight = 280;
constexpr double kLeft = 52, kRight = 16, kTop = 14, kBottom = 36;

std::string number(double value, const char* format = "%.1f") {
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, format, value);
  return buffer;
}

}  // namespace

std::string search_chart_svg(const TuneResult& result) {
  double last = 1, high = 1.05, low = 0.95;
  for (const Trial& t : result.trials) {
    last = std::max(last, t.elapsed_seconds);
    if (!t.measured) continue;
    high = std::max(high, 1 / t.ratio.low);
    low = std::min(low, 1 / t.ratio.median);
  }
  high += 0.06 * (high - low);
  low = std::max(0.0, low - 0.06 * (high - low));
  const auto x = [&](double seconds) { return kLeft + (kWidth - kLeft - kRight) * seconds / last; };
  const auto y = [&](double speedup) {
    return kTop + (kHeight - kTop - kBottom) * (high - speedup) / (high - low);
  };

  std::string svg =
      "<svg viewBox=\"0 0 720 280\" role=\"img\" aria-label=\"Speed-up of every "
      "trial over the time of the search\">";
  const double step = nice_step(high - low, 5);
  for (double tick = std::ceil(low / step) * step; tick < high; tick += step) {
    svg += "<line class=\"grid\" x1=\"" + number(kLeft) + "\" x2=\"" + number(kWidth - kRight) +
           "\" y1=\"" + number(y(tick)) + "\" y2=\"" + number(y(tick)) + "\"/>";
    svg += "<text class=\"tick\" text-anchor=\"end\" x=\"" + number(kLeft - 6) + "\" y=\"" +
           number(y(tick) + 4) + "\">" + number(tick, "%.3g") + "x</text>";
  }
  const double seconds_step = nice_step(last, 6);
  for (double tick = 0; tick <= last; tick += seconds_step) {
    svg += "<text class=\"tick\" text-anchor=\"middle\" x=\"" + number(x(tick)) + "\" y=\"" +
           number(kHeight - 14) + "\">" + number(tick, "%.3g") + " s</text>";
  }
  const double floor = std::min(result.baseline.noise_floor, 0.9);
  svg += "<rect class=\"noise\" x=\"" + number(kLeft) + "\" width=\"" +
         number(kWidth - kLeft - kRight) + "\" y=\"" + number(y(1 + floor)) + "\" height=\"" +
         number(std::max(1.0, y(1 - floor) - y(1 + floor))) +
         "\"><title>noise floor</title></rect>";

  std::string path;
  double best = 1;
  for (const Trial& t : result.trials) {
    if (!t.measured || t.origin == "final") continue;
    const double speedup = 1 / t.ratio.median;
    if (speedup <= best) continue;
    path += path.empty() ? "M" + number(x(0)) + " " + number(y(1)) : "";
    path += " H" + number(x(t.elapsed_seconds)) + " V" + number(y(speedup));
    best = speedup;
  }
  if (!path.empty()) {
    svg += "<path class=\"best\" d=\"" + path + " H" + number(x(last)) + "\"/>";
  }
  for (const Trial& t : result.trials) {
    const double at = x(t.elapsed_seconds);
    std::string title = "trial " + std::to_string(t.number) + ", " + t.origin;
    if (t.measured) {
      const double speedup = 1 / t.ratio.median;
      title += ": " + number(speedup, "%.3f") + "x [" + number(1 / t.ratio.high, "%.3f") + ", " +
               number(1 / t.ratio.low, "%.3f") + "]";
      svg += "<line class=\"interval\" x1=\"" + number(at) + "\" x2=\"" + number(at) + "\" y1=\"" +
             number(y(1 / t.ratio.low)) + "\" y2=\"" + number(y(1 / t.ratio.high)) + "\"/>";
      svg += "<circle class=\"" + std::string(t.origin == "final" ? "final" : "trial") +
             "\" r=\"3.5\" cx=\"" + number(at) + "\" cy=\"" + number(y(speedup)) + "\"><title>" +
             html_escape(title) + "</title></circle>";
    } else {
      title += t.failure == measure::FailureKind::kNone ? ": slower, given up" : ": " + t.error;
      svg += "<circle class=\"failed\" r=\"2.5\" cx=\"" + number(at) + "\" cy=\"" +
             number(kHeight - kBottom) + "\"><title>" + html_escape(title) + "</title></circle>";
    }
  }
  return svg + "</svg>";
}

std::string bar_pair_html(double before, double after, double largest) {
  const auto bar = [&](const char* kind, double value) {
    const double share = largest > 0 ? std::clamp(100 * value / largest, 0.3, 100.0) : 0;
    return "<i class=\"" + std::string(kind) + "\" style=\"width:" + number(share) + "%\"></i>";
  };
  return "<div class=\"bars\">" + bar("before", before) + bar("after", after) + "</div>";
}

}  // namespace lagom::tune
