#include "lagom/graph/op_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "lagom/hlo/module_file.h"
#include "lagom/hlo/text_reader.h"
#include "tests/testing/data.h"

namespace lagom::graph {
namespace {

using ::testing::ElementsAre;

OpGraph sample(const OpGraphOptions& options = {}) {
  return make_op_graph(
      hlo::read_module_file(testing::data_folder() / "tpugraphs/module_tuning_data_layout.pb"),
      options);
}

float feature(const OpGraph& graph, int64_t node, const std::string& name) {
  const auto& names = node_feature_names();
  const auto it = std::find(names.begin(), names.end(), name);
  EXPECT_NE(it, names.end()) << name;
  return graph.node_feat[static_cast<size_t>(node * kNodeFeatures + (it - names.begin()))];
}

/// The features of a node that are not 0.
std::map<int, float> nonzeros(const OpGraph& graph, int64_t node) {
  std::map<int, float> result;
  for (int f = 0; f < kNodeFeatures; ++f) {
    const float value = graph.node_feat[static_cast<size_t>(node * kNodeFeatures + f)];
    if (value != 0) result[f] = value;
  }
  return result;
}

// Golden values of an independent implementation of TpuGraphs' encoder; the oracle has the md5
// sums.
TEST(OpGraphTest, TheSamplesArraysAreTheDataSets) {
  const OpGraph graph = sample();

  EXPECT_EQ(graph.num_nodes(), 3163);
  EXPECT_EQ(graph.num_edges(), 5112);
  EXPECT_THAT(graph.node_splits, ElementsAre(0, 449, 453, 467, 471, 498, 502, 3163));
  int64_t opcodes = 0, users = 0, operands = 0;
  for (const uint8_t opcode : graph.node_opcode) opcodes += opcode;
  for (size_t i = 0; i < graph.edge_index.size(); i += 2) {
    users += graph.edge_index[i];
    operands += graph.edge_index[i + 1];
  }
  EXPECT_EQ(opcodes, 139867);
  EXPECT_EQ(users, 9113143);
  EXPECT_EQ(operands, 7244333);
  EXPECT_THAT(std::vector<int64_t>(graph.edge_index.begin(), graph.edge_index.begin() + 8),
              ElementsAre(2, 0, 2, 1, 5, 3, 5, 4));
}

TEST(OpGraphTest, TheSamplesColumnSumsAreTheDataSets) {
  const OpGraph graph = sample();
  std::vector<double> sums(kNodeFeatures, 0);
  double all = 0;
  for (size_t i = 0; i < graph.node_feat.size(); ++i) {
    sums[i % kNodeFeatures] += graph.node_feat[i];
    all += graph.node_feat[i];
  }
  const std::map<int, double> expected = {{0, 143},    {6, 106},  {13, 2504},  {15, 300},
                                          {29, 529},   {30, 160}, {92, 138},   {107, 59},
                                          {112, 3151}, {133, 1},  {134, 4755}, {124, 14158935}};
  for (const auto& [column, sum] : expected) {
    EXPECT_EQ(sums[static_cast<size_t>(column)], sum) << node_feature_names()[column];
  }
  EXPECT_EQ(all, 30551286504.0);
}

TEST(OpGraphTest, TheSamplesRowsAreTheDataSets) {
  const OpGraph graph = sample();
  // A scalar addition, the root of its computation.
  EXPECT_EQ(nonzeros(graph, 2), (std::map<int, float>{{0, 1},
                                                      {13, 1},
                                                      {28, 1},
                                                      {44, 1},
                                                      {52, 1},
                                                      {60, 1},
                                                      {68, 1},
                                                      {76, 1},
                                                      {84, 1},
                                                      {112, 1},
                                                      {116, 1},
                                                      {120, 1},
                                                      {124, 1},
                                                      {128, 1},
                                                      {132, 1}}));
  // A 3-D convolution of bf16.
  const std::map<int, float> convolution = nonzeros(graph, 1119);
  for (const auto& [column, value] : std::map<int, float>{
           {15, 1},         {21, 2},  {22, 96}, {23, 96}, {24, 96}, {25, 128}, {27, 418},
           {28, 226492416}, {37, 2},  {44, 8},  {77, 2},  {85, 1},  {91, 3},   {94, 4},
           {95, 1},         {97, 3},  {99, 4},  {100, 3}, {106, 4}, {107, 1},  {108, 1},
           {134, 4},        {135, 3}, {136, 2}, {137, 1}}) {
    EXPECT_EQ(convolution.at(column), value) << column;
  }
  EXPECT_FALSE(convolution.contains(92));
}

TEST(OpGraphTest, SortedEdgesAreTheSameEdges) {
  const OpGraph graph = sample(), sorted = sample({.sort_edges = true});
  std::multiset<std::pair<int64_t, int64_t>> one, two;
  for (size_t i = 0; i < graph.edge_index.size(); i += 2) {
    one.emplace(graph.edge_index[i], graph.edge_index[i + 1]);
    two.emplace(sorted.edge_index[i], sorted.edge_index[i + 1]);
  }
  EXPECT_EQ(one, two);
  EXPECT_NE(graph.edge_index, sorted.edge_index);
}

TEST(OpGraphTest, APaddingOfMinusOneTellsAbsentFromDimensionZero) {
  const hlo::Module module = hlo::read_hlo_text(
      "HloModule m\nENTRY e { x = f32[2,3]{1,0} parameter(0)\n"
      "ROOT t = f32[3,2]{1,0} transpose(x), dimensions={1,0} }",
      "t");
  const OpGraph zero = make_op_graph(module), minus = make_op_graph(module, {.list_padding = -1});
  EXPECT_EQ(feature(zero, 1, "dimensions_1"), 0);
  EXPECT_EQ(feature(minus, 1, "dimensions_1"), 0);
  EXPECT_EQ(feature(zero, 1, "dimensions_2"), 0);
  EXPECT_EQ(feature(minus, 1, "dimensions_2"), -1);
  EXPECT_EQ(feature(minus, 1, "layout_minor_to_major_5"), -1);
  EXPECT_EQ(feature(minus, 1, "shape_dimensions_5"), 0);  // has a sum and a product
  EXPECT_EQ(feature(minus, 1, "convolution_input_spatial_0"), -1);
}

TEST(OpGraphTest, EdgesGoToOperandsOnceAndToRootsOfCallees) {
  const hlo::Module module = hlo::read_hlo_text(R"(HloModule m
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
ENTRY e { x = f32[4]{0} parameter(0)
  d = f32[4]{0} add(x, x)
  z = f32[] constant(0)
  ROOT r = f32[] reduce(d, z), dimensions={0}, to_apply=add })",
                                                "t");
  const OpGraph graph = make_op_graph(module);
  EXPECT_THAT(graph.edge_index, ElementsAre(2, 0, 2, 1, 4, 3, 6, 4, 6, 5, 6, 2));
  EXPECT_THAT(graph.node_splits, ElementsAre(0, 7));
}

TEST(OpcodeNumberTest, IsTheDataSets) {
  using hlo::Opcode;
  EXPECT_EQ(opcode_number(Opcode::kAbs), 1);
  EXPECT_EQ(opcode_number(Opcode::kCollectivePermute), 18);
  EXPECT_EQ(opcode_number(Opcode::kCountLeadingZeros), 19);
  EXPECT_EQ(opcode_number(Opcode::kCompare), 20);
  EXPECT_EQ(opcode_number(Opcode::kRoundNearestAfz), 80);
  EXPECT_EQ(opcode_number(Opcode::kRoundNearestEven), 118);
  EXPECT_EQ(opcode_number(Opcode::kStochasticConvert), 119);
  EXPECT_EQ(opcode_number(Opcode::kTan), 120);
  EXPECT_EQ(opcode_number(Opcode::kTopK), 0);  // came later
}

TEST(FeatureNamesTest, OnePerColumnAndAllDifferent) {
  const auto check = [](const std::vector<std::string>& names, int64_t count) {
    EXPECT_EQ(static_cast<int64_t>(names.size()), count);
    EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  };
  check(node_feature_names(), kNodeFeatures);
  check(tile_config_feature_names(), kTileConfigFeatures);
  check(layout_config_feature_names(), kLayoutConfigFeatures);
  EXPECT_EQ(node_feature_names()[15], "element_type_bf16");
  EXPECT_EQ(node_feature_names()[28], "shape_dimensions_product");
  EXPECT_EQ(node_feature_names()[113], "slice_stride_0");
  EXPECT_EQ(node_feature_names()[133], "is_stable");
}

TEST(ConfigFeaturesTest, TilesAndLayouts) {
  EXPECT_THAT(
      tile_config_features({.kernel_bounds = {1, 1, 16, 1}, .output_bounds = {4, 2, 1, 1}}),
      ElementsAre(1, 1, 16, 1, 0, 0, 19, 16, 4, 2, 1, 1, 0, 0, 8, 8, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(layout_config_features({{1, 0}, {}, {2, 0, 1, 3, 4, 5, 6}}),
              ElementsAre(1, 0, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 2, 0, 1, 3, 4, 5));
  EXPECT_THROW(layout_config_features(NodeLayouts(4)), std::invalid_argument);
}

}  // namespace
}  // namespace lagom::graph
