#include "lagom/util/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace lagom {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ReportTest, ColumnsStandUnderEachOther) {
  EXPECT_EQ(text_table({"name", "n"}, {{"a", "10"}, {"ä b c", "5"}, {"d"}}),
            "name    n\n"
            "a      10\n"
            "ä b c   5\n"
            "d\n");
}

TEST(ReportTest, CellsOfAPageAreEscaped) {
  EXPECT_EQ(html_escape("a<b & \"c\">"), "a&lt;b &amp; &quot;c&quot;&gt;");
  const std::string table = html_table({"x", "y"}, {{"<b>", "1"}});
  EXPECT_THAT(table, HasSubstr("<td>&lt;b&gt;</td><td class=\"n\">1</td>"));
}

TEST(ReportTest, ChartsLeaveOutWhatIsNotFinite) {
  Chart chart{.x_label = "x", .y_label = "y", .log_x = true};
  EXPECT_EQ(chart_svg(chart), "");
  chart.series.push_back({.name = "a & b", .points = {{.x = 10, .y = 1}, {.x = 0, .y = 2}}});
  chart.series.push_back({.name = "c", .points = {{.x = 100, .y = NAN}}, .line = true});
  const std::string svg = chart_svg(chart);
  EXPECT_THAT(svg, HasSubstr("a &amp; b"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
  EXPECT_EQ(svg.find("<circle r=\"3.2\""), svg.rfind("<circle r=\"3.2\""));  // one point
}

TEST(ReportTest, TicksAreRound) {
  EXPECT_DOUBLE_EQ(nice_step(10, 5), 2);
  EXPECT_DOUBLE_EQ(nice_step(0.9, 5), 0.2);
  EXPECT_DOUBLE_EQ(nice_step(42, 5), 10);
}

}  // namespace
}  // namespace lagom
