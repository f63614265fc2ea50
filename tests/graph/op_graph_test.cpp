#include "lagom/graph/op_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
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
  const auto& names = node_feature_names(graph.feature_version);
  const auto it = std::find(names.begin(), names.end(), name);
  EXPECT_NE(it, names.end()) << name;
  const auto width = static_cast<int64_t>(names.size());
  return graph.node_feat[static_cast<size_t>(node * width + (it - names.begin()))];
}

/// The places NAME_0, NAME_1, ...
std::vector<float> features(const OpGraph& graph, int64_t node, const std::string& name,
                            int places) {
  std::vector<float> values;
  for (int i = 0; i < places; ++i) {
    values.push_back(feature(graph, node, name + "_" + std::to_string(i)));
  }
  return values;
}

OpGraph graph_of(const std::string& entry, int version) {
  return make_op_graph(hlo::read_hlo_text("HloModule m\n" + entry, "t"),
                       {.feature_version = version});
}
OpGraph v2_of(const std::string& entry) {
  return graph_of(entry, 2);
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

TEST(FeaturesV2Test, BeginWithV1) {
  const OpGraph one = sample(), two = sample({.feature_version = 2});
  ASSERT_EQ(two.node_feat.size(), static_cast<size_t>(two.num_nodes() * kNodeFeaturesV2));
  EXPECT_EQ(two.feature_version, 2);
  EXPECT_EQ(two.node_opcode, one.node_opcode);  // it has no later opcodes
  EXPECT_EQ(two.edge_index, one.edge_index);
  for (int64_t node = 0; node < one.num_nodes(); ++node) {
    const auto row = two.node_feat.begin() + node * kNodeFeaturesV2;
    ASSERT_TRUE(std::equal(row, row + kNodeFeatures, one.node_feat.begin() + node * kNodeFeatures))
        << node;
  }
}

TEST(FeaturesV2Test, Dot) {
  const OpGraph graph = v2_of(R"(ENTRY e { a = bf16[8,32,64]{2,1,0} parameter(0)
  b = bf16[8,64,16]{1,2,0:S(1)} parameter(1)
  ROOT d = f32[8,32,16]{2,1,0} dot(a, b), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1} })");
  EXPECT_THAT(features(graph, 2, "dot_lhs_contracting", 4), ElementsAre(2, -1, -1, -1));
  EXPECT_THAT(features(graph, 2, "dot_rhs_contracting", 4), ElementsAre(1, -1, -1, -1));
  EXPECT_THAT(features(graph, 2, "dot_lhs_batch", 4), ElementsAre(0, -1, -1, -1));
  EXPECT_THAT(features(graph, 2, "dot_rhs_batch", 4), ElementsAre(0, -1, -1, -1));
  EXPECT_EQ(feature(graph, 2, "num_operands"), 2);
  EXPECT_EQ(feature(graph, 2, "element_bits"), 32);
  EXPECT_THAT(features(graph, 2, "operand_0_dimensions", 6), ElementsAre(8, 32, 64, -1, -1, -1));
  EXPECT_EQ(feature(graph, 2, "operand_0_elements"), 8 * 32 * 64);
  EXPECT_EQ(feature(graph, 2, "operand_0_element_bits"), 16);
  EXPECT_EQ(feature(graph, 2, "operand_0_memory_space"), 0);
  EXPECT_THAT(features(graph, 2, "operand_1_dimensions", 6), ElementsAre(8, 64, 16, -1, -1, -1));
  EXPECT_THAT(features(graph, 2, "operand_1_layout", 6), ElementsAre(1, 2, 0, -1, -1, -1));
  EXPECT_EQ(feature(graph, 2, "operand_1_memory_space"), 1);
  EXPECT_EQ(feature(graph, 1, "memory_space"), 1);
  EXPECT_EQ(feature(graph, 2, "operand_2_elements"), -1);
  // A parameter has nothing of this.
  EXPECT_THAT(features(graph, 0, "dot_lhs_contracting", 4), ElementsAre(-1, -1, -1, -1));
  EXPECT_EQ(feature(graph, 0, "num_operands"), 0);
}

TEST(FeaturesV2Test, GatherAndScatter) {
  const OpGraph graph = v2_of(R"(add { p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q) }
ENTRY e { x = f32[10,20]{1,0} parameter(0)
  i = s32[5,1]{1,0} parameter(1)
  g = f32[5,20]{1,0} gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,20}, indices_are_sorted=true
  ROOT r = f32[10,20]{1,0} scatter(x, i, g), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, unique_indices=true, to_apply=add })");
  constexpr int64_t kGather = 5, kScatter = 6;
  EXPECT_THAT(features(graph, kGather, "gather_offset", 4), ElementsAre(1, -1, -1, -1));
  EXPECT_THAT(features(graph, kGather, "gather_collapsed_slice", 4), ElementsAre(0, -1, -1, -1));
  EXPECT_THAT(features(graph, kGather, "gather_start_index_map", 4), ElementsAre(0, -1, -1, -1));
  EXPECT_THAT(features(graph, kGather, "gather_slice_sizes", 6),
              ElementsAre(1, 20, -1, -1, -1, -1));
  EXPECT_EQ(feature(graph, kGather, "gather_index_vector"), 1);
  EXPECT_EQ(feature(graph, kGather, "indices_are_sorted"), 1);
  EXPECT_EQ(feature(graph, kGather, "scatter_index_vector"), -1);
  EXPECT_THAT(features(graph, kScatter, "scatter_update_window", 4), ElementsAre(1, -1, -1, -1));
  EXPECT_THAT(features(graph, kScatter, "scatter_inserted_window", 4), ElementsAre(0, -1, -1, -1));
  EXPECT_THAT(features(graph, kScatter, "scatter_to_operand", 4), ElementsAre(0, -1, -1, -1));
  EXPECT_EQ(feature(graph, kScatter, "scatter_index_vector"), 1);
  EXPECT_EQ(feature(graph, kScatter, "unique_indices"), 1);
  EXPECT_EQ(feature(graph, kScatter, "gather_index_vector"), -1);
  EXPECT_THAT(features(graph, kScatter, "operand_2_dimensions", 6),
              ElementsAre(5, 20, -1, -1, -1, -1));
}

TEST(FeaturesV2Test, LaterElementTypesOpcodesAndDynamicShapes) {
  const OpGraph graph = v2_of(R"(ENTRY e { x = f8e4m3fn[<=16]{0} parameter(0)
  ROOT a = f8e4m3fn[<=16]{0} acos(x) })");
  EXPECT_EQ(feature(graph, 1, "element_type_f8e4m3fn"), 1);
  EXPECT_EQ(feature(graph, 1, "element_type_f8e5m2"), 0);
  EXPECT_EQ(feature(graph, 1, "element_bits"), 8);
  EXPECT_EQ(feature(graph, 1, "is_dynamic"), 1);
  EXPECT_THAT(graph.node_opcode, ElementsAre(63, kFirstExtendedOpcode));
}

TEST(FeaturesV3Test, BeginWithV2) {
  const OpGraph two = sample({.feature_version = 2}), three = sample({.feature_version = 3});
  ASSERT_EQ(three.node_feat.size(), static_cast<size_t>(three.num_nodes() * kNodeFeaturesV3));
  EXPECT_EQ(three.node_opcode, two.node_opcode);
  for (int64_t node = 0; node < two.num_nodes(); ++node) {
    const auto row = three.node_feat.begin() + node * kNodeFeaturesV3;
    ASSERT_TRUE(
        std::equal(row, row + kNodeFeaturesV2, two.node_feat.begin() + node * kNodeFeaturesV2))
        << node;
  }
}

TEST(FeaturesV3Test, SizesOfADotAreLogarithms) {
  const OpGraph graph = graph_of(R"(ENTRY e { a = f32[4,32,64]{2,1,0} parameter(0)
  b = f32[4,64,16]{1,2,0} parameter(1)
  ROOT d = f32[4,32,16]{2,1,0} dot(a, b), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1} })",
                                 3);
  const auto size = [&](std::string_view name) {
    return std::exp2(feature(graph, 2, "log_" + std::string(name))) - 1;
  };
  EXPECT_NEAR(size("flops"), 2 * 4 * 32 * 64 * 16, 2);
  EXPECT_NEAR(size("bytes_written"), 4 * 4 * 32 * 16, 0.1);
  EXPECT_NEAR(size("bytes_read"), 4 * 4 * 64 * (32 + 16), 0.5);
  EXPECT_NEAR(size("operand_1_bytes"), 4 * 4 * 64 * 16, 0.1);
  EXPECT_NEAR(size("operand_1_minor_size"), 64, 1e-3);
  EXPECT_NEAR(size("result_minor_size"), 16, 1e-3);
  EXPECT_NEAR(size("contraction_batch"), 4, 1e-4);
  EXPECT_NEAR(size("contraction_rows"), 32, 1e-3);
  EXPECT_NEAR(size("contraction_columns"), 16, 1e-3);
  EXPECT_NEAR(size("contraction_depth"), 64, 1e-3);
  EXPECT_EQ(size("window_elements"), 0);
  EXPECT_EQ(feature(graph, 2, "left_is_depth_last"), 1);
  EXPECT_EQ(feature(graph, 2, "right_is_depth_last"), 1);  // {1,2,0}: dimension 1 is minor-most
  EXPECT_EQ(feature(graph, 0, "log_contraction_depth"), 0);
}

TEST(FeaturesV3Test, AConvolutionIsAProductPerGroup) {
  // 8 features in 2 groups, 3x3 window, 5x6 positions.
  const OpGraph graph = graph_of(R"(ENTRY e { x = f32[2,7,8,8]{3,2,1,0} parameter(0)
  w = f32[3,3,4,10]{3,2,1,0} parameter(1)
  ROOT c = f32[2,5,6,10]{3,2,1,0} convolution(x, w), window={size=3x3}, dim_labels=b01f_01io->b01f, feature_group_count=2 })",
                                 3);
  const auto size = [&](std::string_view name) {
    return std::exp2(feature(graph, 2, "log_" + std::string(name))) - 1;
  };
  EXPECT_NEAR(size("contraction_batch"), 2, 1e-4);
  EXPECT_NEAR(size("contraction_rows"), 2 * 5 * 6, 1e-3);
  EXPECT_NEAR(size("contraction_columns"), 5, 1e-4);
  EXPECT_NEAR(size("contraction_depth"), 9 * 4, 1e-3);
  EXPECT_NEAR(size("window_elements"), 9, 1e-4);
  EXPECT_NEAR(size("flops"), 2.0 * 2 * 60 * 5 * 36, 2);
  EXPECT_EQ(feature(graph, 2, "left_is_depth_last"), 1);
  EXPECT_EQ(feature(graph, 2, "right_is_depth_last"), 0);
}

TEST(FeaturesV2Test, UnknownVersionsAreRefused) {
  const hlo::Module module =
      hlo::read_hlo_text("HloModule m\nENTRY e { ROOT x = f32[] parameter(0) }", "t");
  for (const int version : {0, 4}) {
    EXPECT_THROW(make_op_graph(module, {.feature_version = version}), std::invalid_argument);
    EXPECT_THROW(node_feature_names(version), std::invalid_argument);
  }
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

// Files and models hold these numbers: they never change.
TEST(OpcodeNumberTest, LaterOpcodesHaveNumbersInV2) {
  using hlo::Opcode;
  const std::vector<Opcode> later = {
      Opcode::kAcos,      Opcode::kAcosh, Opcode::kAsin,
      Opcode::kAsinh,     Opcode::kAtanh, Opcode::kCollectiveBroadcast,
      Opcode::kCosh,      Opcode::kErf,   Opcode::kRaggedAllToAll,
      Opcode::kRaggedDot, Opcode::kScan,  Opcode::kSinh,
      Opcode::kTopK};
  for (size_t i = 0; i < later.size(); ++i) {
    EXPECT_EQ(opcode_number(later[i], 2), 192 + static_cast<int>(i));
  }
  EXPECT_EQ(opcode_number(Opcode::kTan, 2), 120);
}

TEST(OpcodeNumberTest, EveryOpcodeHasItsOwnInV2) {
  std::set<uint8_t> numbers;
  for (int opcode = 0; opcode <= static_cast<int>(hlo::Opcode::kXor); ++opcode) {
    const uint8_t number = opcode_number(static_cast<hlo::Opcode>(opcode), 2);
    EXPECT_NE(number, 0) << hlo::opcode_name(static_cast<hlo::Opcode>(opcode));
    EXPECT_TRUE(numbers.insert(number).second) << static_cast<int>(number);
  }
}

TEST(FeatureNamesTest, OnePerColumnAndAllDifferent) {
  const auto check = [](const std::vector<std::string>& names, int64_t count) {
    EXPECT_EQ(static_cast<int64_t>(names.size()), count);
    EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  };
  check(node_feature_names(), kNodeFeatures);
  check(node_feature_names(2), kNodeFeaturesV2);
  check(node_feature_names(3), kNodeFeaturesV3);
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
