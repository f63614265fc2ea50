#pragma once

// What reports are made of: tables, as text and on a page, and charts. Pages are single files: no
// network, light and dark, fit for a phone.

#include <string>
#include <string_view>
#include <vector>

namespace lagom {

using TableRows = std::vector<std::vector<std::string>>;

/// Columns side by side, the first `text_columns` set to the left, numbers to the right. Rows may
/// be short.
std::string text_table(const std::vector<std::string>& header, const TableRows& rows,
                       size_t text_columns = 1);

/// &, <, > and quotes as entities.
std::string html_escape(std::string_view text);

/// A whole page around a body: its style knows h1, h2, p.dim, table (td.n: numbers), div.scroll,
/// pre, figure and the charts below.
std::string html_page(std::string_view title, std::string_view body);

/// The same table on a page; cells are text.
std::string html_table(const std::vector<std::string>& header, const TableRows& rows,
                       size_t text_columns = 1);

/// A number by a printf pattern of one double.
std::string format_number(const char* pattern, double value);

/// A step of 1, 2 or 5 times a power of ten that cuts `range` into about `count` parts.
double nice_step(double range, int count);

struct ChartPoint {
  double x = 0, y = 0;
  double low = 0, high = 0;  ///< An interval of y; none where they are equal.
  std::string label;         ///< Shown when the pointer rests on the point.
};

struct ChartSeries {
  std::string name;  ///< In the legend; empty: not in it.
  std::vector<ChartPoint> points;
  bool line = false, marks = true;
  int color = -1;  ///< One of 8; -1: by its place among the series.
};

/// Points and lines over two axes.
struct Chart {
  std::string x_label, y_label;
  bool log_x = false;
  std::vector<ChartSeries> series;
};

/// The chart as SVG, to stand in a page of html_page. Points that are not finite are left out; a
/// chart without any is an empty string.
std::string chart_svg(const Chart& chart);

}  // namespace lagom
