#include "lagom/util/report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

namespace lagom {
namespace {

constexpr char kStyle[] = R"css(
:root{color-scheme:light dark;--bg:#fbfbf9;--fg:#1d2327;--dim:#667078;--line:#dfe2e0;--card:#fff;
--accent:#0f7b6c;--c0:#0f7b6c;--c1:#c2410c;--c2:#2563eb;--c3:#9333ea;--c4:#a16207;--c5:#be185d;
--c6:#475569;--c7:#15803d}
@media(prefers-color-scheme:dark){:root{--bg:#15191c;--fg:#e6e9ea;--dim:#98a3aa;--line:#2c3338;
--card:#1c2226;--accent:#35b8a4;--c0:#35b8a4;--c1:#fb923c;--c2:#7cb0ff;--c3:#c79bff;--c4:#e0b84a;
--c5:#f58ab8;--c6:#a3b1c2;--c7:#6fd08c}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--fg);font:16px/1.5 system-ui,sans-serif}
main{max-width:960px;margin:0 auto;padding:24px 16px 64px}
h1{font-size:1.35rem;margin:0;overflow-wrap:anywhere}h2{font-size:1.05rem;margin:40px 0 8px}
p{margin:6px 0}.dim{color:var(--dim)}
svg{width:100%;height:auto;display:block;background:var(--card);border:1px solid var(--line);
border-radius:8px;margin:8px 0}
.grid{stroke:var(--line)}.tick{fill:var(--dim);font:11px system-ui,sans-serif}
.axis{fill:var(--fg);font:12px system-ui,sans-serif}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:.88rem}
th,td{text-align:left;padding:5px 14px 5px 0;border-bottom:1px solid var(--line);
vertical-align:top}
th{color:var(--dim);font-weight:500}td.n,th.n{text-align:right;white-space:nowrap}
code,pre{font:.84rem/1.45 ui-monospace,monospace}code{overflow-wrap:anywhere}
pre{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:10px 12px;
overflow-x:auto}
)css";

constexpr double kWidth = 720, kHeight = 320;
constexpr double kLeft = 62, kRight = 16, kTop = 32, kBottom = 46;

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  /// Leaves room at both ends, and is never empty.
  void widen() {
    if (high <= low) {
      const double half = low != 0 ? 0.05 * std::abs(low) : 1;
      low -= half;
      high += half;
    }
    const double room = 0.04 * (high - low);
    low -= room;
    high += room;
  }
};

/// A number on an axis: "250", "2e5".
std::string tick_text(double value) {
  std::string text = format_number("%.4g", value);
  if (const size_t exponent = text.find("e+"); exponent != std::string::npos) {
    text.erase(exponent + 1, text.find_first_not_of("+0", exponent + 1) - exponent - 1);
  }
  return text;
}

std::string at(double value) {
  return format_number("%.1f", value);
}

/// Places a chart's numbers on the drawing.
class Drawing {
 public:
  explicit Drawing(const Chart& chart) : chart_(chart) {
    for (const ChartSeries& series : chart.series) {
      for (const ChartPoint& point : series.points) {
        if (!is_drawn(point)) continue;
        x_.add(scaled(point.x));
        y_.add(point.y);
        if (point.high > point.low) {
          y_.add(point.low);
          y_.add(point.high);
        }
      }
    }
    empty_ = x_.low > x_.high;
    x_.widen();
    y_.widen();
  }

  std::string svg() const {
    if (empty_) return "";
    std::string out = "<svg viewBox=\"0 0 720 320\" role=\"img\" aria-label=\"" +
                      html_escape(chart_.y_label + " over " + chart_.x_label) + "\">";
    out += axes();
    for (size_t i = 0; i < chart_.series.size(); ++i) out += series(chart_.series[i], i);
    return out + legend() + "</svg>";
  }

 private:
  double scaled(double x) const { return chart_.log_x ? std::log10(x) : x; }
  bool is_drawn(const ChartPoint& point) const {
    return std::isfinite(scaled(point.x)) && std::isfinite(point.y);
  }
  double left(double scaled_x) const {
    return kLeft + (kWidth - kLeft - kRight) * (scaled_x - x_.low) / (x_.high - x_.low);
  }
  double top(double y) const {
    return kTop + (kHeight - kTop - kBottom) * (y_.high - y) / (y_.high - y_.low);
  }

  static std::string text(const char* kind, const char* anchor, double x, double y,
                          const std::string& what) {
    return "<text class=\"" + std::string(kind) + "\" text-anchor=\"" + anchor + "\" x=\"" + at(x) +
           "\" y=\"" + at(y) + "\">" + html_escape(what) + "</text>";
  }

  std::string axes() const {
    std::string out;
    const double step = nice_step(y_.high - y_.low, 5);
    for (double tick = std::ceil(y_.low / step) * step; tick < y_.high; tick += step) {
      const double y = top(tick);
      out += "<line class=\"grid\" x1=\"" + at(kLeft) + "\" x2=\"" + at(kWidth - kRight) +
             "\" y1=\"" + at(y) + "\" y2=\"" + at(y) + "\"/>";
      out +=
          text("tick", "end", kLeft - 6, y + 4, tick_text(std::abs(tick) < 1e-9 * step ? 0 : tick));
    }
    if (chart_.log_x) {
      const bool is_narrow = x_.high - x_.low < 1;  // less than a decade
      for (double power = std::floor(x_.low); power <= x_.high; ++power) {
        for (const double factor : {1.0, 1.5, 2.0, 3.0, 5.0, 7.0}) {
          if (!is_narrow && factor != 1 && factor != 2 && factor != 5) continue;
          const double x = power + std::log10(factor);
          if (x < x_.low || x > x_.high) continue;
          out += text("tick", "middle", left(x), kHeight - kBottom + 18,
                      tick_text(factor * std::pow(10, power)));
        }
      }
    } else {
      const double x_step = nice_step(x_.high - x_.low, 7);
      for (double tick = std::ceil(x_.low / x_step) * x_step; tick <= x_.high; tick += x_step) {
        out += text("tick", "middle", left(tick), kHeight - kBottom + 18,
                    tick_text(std::abs(tick) < 1e-9 * x_step ? 0 : tick));
      }
    }
    out += text("axis", "middle", (kLeft + kWidth - kRight) / 2, kHeight - 8, chart_.x_label);
    return out + "<text class=\"axis\" text-anchor=\"middle\" transform=\"translate(14 " +
           at((kTop + kHeight - kBottom) / 2) + ") rotate(-90)\">" + html_escape(chart_.y_label) +
           "</text>";
  }

  static std::string color(const ChartSeries& series, size_t index) {
    constexpr size_t kColors = 8;
    const size_t number = series.color >= 0 ? static_cast<size_t>(series.color) : index;
    return "var(--c" + std::to_string(number % kColors) + ")";
  }

  std::string series(const ChartSeries& series, size_t index) const {
    const std::string ink = color(series, index);
    std::string path, marks;
    for (const ChartPoint& point : series.points) {
      if (!is_drawn(point)) continue;
      const std::string x = at(left(scaled(point.x))), y = at(top(point.y));
      path += (path.empty() ? "M" : "L") + x + " " + y;
      if (point.high > point.low) {
        marks += "<line stroke=\"" + ink + "\" opacity=\".5\" x1=\"" + x + "\" x2=\"" + x +
                 "\" y1=\"" + at(top(point.low)) + "\" y2=\"" + at(top(point.high)) + "\"/>";
      }
      if (!series.marks) continue;
      marks += "<circle r=\"3.2\" fill=\"" + ink + "\" cx=\"" + x + "\" cy=\"" + y + "\">" +
               (point.label.empty() ? "" : "<title>" + html_escape(point.label) + "</title>") +
               "</circle>";
    }
    std::string out;
    if (series.line && !path.empty()) {
      out += "<path fill=\"none\" stroke=\"" + ink + "\" stroke-width=\"1.5\" d=\"" + path + "\"/>";
    }
    return out + marks;
  }

  /// Names in a row above the axes.
  std::string legend() const {
    std::string out;
    double x = kLeft + 4;
    for (size_t i = 0; i < chart_.series.size(); ++i) {
      const ChartSeries& series = chart_.series[i];
      if (series.name.empty()) continue;
      out += "<circle r=\"4\" fill=\"" + color(series, i) + "\" cx=\"" + at(x) + "\" cy=\"14\"/>" +
             text("tick", "start", x + 8, 18, series.name);
      x += 30 + 6.2 * static_cast<double>(series.name.size());
    }
    return out;
  }

  const Chart& chart_;
  Range x_, y_;
  bool empty_ = false;
};

}  // namespace

std::string text_table(const std::vector<std::string>& header, const TableRows& rows,
                       size_t text_columns) {
  // Letters beyond ASCII take several bytes and one place.
  const auto width_of = [](const std::string& text) {
    return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
      return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    }));
  };
  TableRows all = {header};
  all.insert(all.end(), rows.begin(), rows.end());
  std::vector<size_t> widths;
  for (const auto& row : all) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string out;
  for (const auto& row : all) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string room(widths[i] - width_of(row[i]), ' ');
      line += (i > 0 ? "  " : "") + (i < text_columns ? row[i] + room : room + row[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string html_escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string html_page(std::string_view title, std::string_view body) {
  std::string page =
      "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>" +
      html_escape(title) + "</title><style>" + kStyle + "</style></head><body><main>";
  return page.append(body) + "</main></body></html>\n";
}

std::string html_table(const std::vector<std::string>& header, const TableRows& rows,
                       size_t text_columns) {
  std::string out = "<div class=\"scroll\"><table><tr>";
  const auto cell = [&](const char* tag, size_t column, const std::string& text) {
    return "<" + std::string(tag) + (column < text_columns ? ">" : " class=\"n\">") +
           html_escape(text) + "</" + tag + ">";
  };
  for (size_t i = 0; i < header.size(); ++i) out += cell("th", i, header[i]);
  out += "</tr>";
  for (const auto& row : rows) {
    out += "<tr>";
    for (size_t i = 0; i < row.size(); ++i) out += cell("td", i, row[i]);
    out += "</tr>";
  }
  return out + "</table></div>";
}

std::string format_number(const char* pattern, double value) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, pattern, value);
  return buffer;
}

double nice_step(double range, int count) {
  const double raw = range / count;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (raw <= factor * power) return factor * power;
  }
  return 10 * power;
}

std::string chart_svg(const Chart& chart) {
  return Drawing(chart).svg();
}

}  // namespace lagom
