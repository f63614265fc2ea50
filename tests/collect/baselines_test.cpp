#include "lagom/collect/baselines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lagom/collect/measured_file.h"
#include "lagom/hlo/text_reader.h"
#include "lagom/util/error.h"
#include "lagom/util/file.h"
#include "tests/testing/command.h"

namespace lagom::collect {
namespace {

using rewrite::Configuration;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr char kDots[] = R"(HloModule m
ENTRY e {
  a = f32[8,4]{1,0} parameter(0)
  b = f32[4,2]{1,0} parameter(1)
  c = f32[2,2]{1,0} parameter(2)
  d = f32[8,2]{1,0} dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT f = f32[8,2]{1,0} dot(d, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})";

hlo::Module dots() {
  return hlo::read_hlo_text(kDots, "dots");
}
int64_t disagreements(const char* text) {
  return layout_disagreements(dots(), Configuration::from_string(text));
}

TEST(BaselineTest, AnalyticCostIsTheDearerOfArithmeticAndMemory) {
  // Bytes of the first dot: 4 (32 + 8 + 16) = 224, of the second: 4 (16 + 4 + 16) = 144; their
  // FLOPs (128 and 64) take less time.
  EXPECT_DOUBLE_EQ(analytic_cost(dots(), {}), kFlopsPerByte * (224 + 144));
}

TEST(BaselineTest, FormsChangeTheAnalyticCostAndFlagsDoNot) {
  const hlo::Module module = dots();
  const double as_it_is = analytic_cost(module, {});
  EXPECT_DOUBLE_EQ(
      analytic_cost(module, Configuration::from_string("flag xla_cpu_use_xnnpack true\n")),
      as_it_is);
  // A transpose of the result stands behind: it moves bytes, too.
  EXPECT_GT(analytic_cost(module, Configuration::from_string("d form swapped_dot\n")), as_it_is);
}

TEST(BaselineTest, CountsUsesWhoseLayoutsDiffer) {
  EXPECT_EQ(disagreements(""), 0);
  // A parameter lies as the module says.
  EXPECT_EQ(disagreements("d operand-layout 0 {0,1}\n"), 1);
  EXPECT_EQ(disagreements("d operand-layout 0 {1,0}\n"), 0);
  // What nobody else decides is the compiler's.
  EXPECT_EQ(disagreements("d output-layout {0,1}\n"), 0);
  EXPECT_EQ(disagreements("f operand-layout 0 {0,1}\n"), 0);
  EXPECT_EQ(disagreements("d output-layout {0,1}\nf operand-layout 0 {1,0}\n"), 1);
  EXPECT_EQ(disagreements("d output-layout {0,1}\nf operand-layout 0 {0,1}\n"), 0);
  // The result leaves the program as the module says.
  EXPECT_EQ(disagreements("f output-layout {0,1}\n"), 1);
}

TEST(BaselineTest, DecisionsThatDoNotFitAreRefused) {
  EXPECT_THROW(disagreements("x output-layout {0,1}\n"), std::invalid_argument);
  EXPECT_THROW(disagreements("d operand-layout 2 {0,1}\n"), std::invalid_argument);
}

TEST(BaselineTest, ReadsWhatStandsBesideAMeasuredFile) {
  const testing::TemporaryFolder folder;
  std::vector<Row> rows;
  for (const char* text : {"", "d operand-layout 0 {0,1}\n", "d form swapped_dot\n"}) {
    rows.push_back({.configuration = text, .seconds = 1e-6, .default_seconds = 1e-6});
  }
  const hlo::Module module = dots();
  write_measured(folder / "k", module, {.signature = "k", .hlo = kDots}, rows);
  const rank::ConfiguredGraph graph{.name = "k", .num_configs = 3};

  BaselineRanker ranker = baseline_of_file(BaselineKind::kDisagreements, folder / "k.npz", 1);
  EXPECT_THAT(ranker.costs(graph), ElementsAre(0, 1, 0));
  BaselineRanker random = baseline_of_file(BaselineKind::kRandom, folder / "k.npz", 1);
  BaselineRanker other = baseline_of_file(BaselineKind::kRandom, folder / "k.npz", 2);
  EXPECT_NE(random.costs(graph), other.costs(graph));
  EXPECT_THROW(random.costs({.name = "k", .num_configs = 4}), std::invalid_argument);

  write_measured(folder / "g", module, {.signature = "g"}, rows);
  EXPECT_THAT([&] { baseline_of_file(BaselineKind::kAnalytic, folder / "g.npz", 1); },
              ThrowsMessage<FormatError>(HasSubstr("baselines need the program")));
  write_file(folder / "g.json", "{torn");
  EXPECT_THROW(baseline_of_file(BaselineKind::kAnalytic, folder / "g.npz", 1), FormatError);
  EXPECT_THROW(baseline_of_file(BaselineKind::kAnalytic, folder / "none.npz", 1), SystemError);
}

}  // namespace
}  // namespace lagom::collect
