#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "lagom/graph/dataset_file.h"
#include "lagom/util/error.h"
#include "tests/testing/command.h"
#include "tests/testing/npz_arrays.h"

namespace lagom::graph {
namespace {

using formats::Array;
using formats::NpzReader;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::NpzArrays;
using ::testing::ThrowsMessage;

class DatasetReaderTest : public ::testing::Test {
 protected:
  MeasuredGraph read(const NpzArrays& arrays) const {
    testing::write_npz(path_, arrays);
    return read_measured_graph(NpzReader(path_));
  }
  std::vector<int8_t> read_layouts(const NpzArrays& arrays) const {
    testing::write_npz(path_, arrays);
    std::vector<int8_t> all;
    for_each_layout_rows(NpzReader(path_), [&](std::span<const int8_t> rows) {
      all.insert(all.end(), rows.begin(), rows.end());
    });
    return all;
  }
  /// A small graph, changed, is refused with this message.
  void expect_refused(NpzArrays arrays, const std::function<void(NpzArrays&)>& change,
                      const std::string& message) const {
    change(arrays);
    EXPECT_THAT([&] { read(arrays); }, ThrowsMessage<FormatError>(HasSubstr(message)));
  }
  void expect_layout_refused(const std::function<void(NpzArrays&)>& change,
                             const std::string& message) const {
    expect_refused(testing::small_layout_graph(), change, message);
  }

  testing::TemporaryFolder folder_;
  std::string path_ = folder_ / "x.npz";
};

TEST_F(DatasetReaderTest, LayoutGraph) {
  const MeasuredGraph measured = read(testing::small_layout_graph());
  EXPECT_EQ(measured.kind, GraphKind::kLayout);
  EXPECT_EQ(measured.graph.feature_version, 1);
  EXPECT_THAT(measured.graph.node_opcode, ElementsAre(63, 26));
  EXPECT_EQ(measured.graph.node_feat[140], 1);
  EXPECT_THAT(measured.graph.edge_index, ElementsAre(1, 0));
  EXPECT_THAT(measured.config_runtime, ElementsAre(1000, 2000, 1010));
  EXPECT_THAT(measured.node_config_ids, ElementsAre(1));
}

TEST_F(DatasetReaderTest, TileGraphsHaveNoSplits) {
  const MeasuredGraph measured = read(testing::small_tile_graph());
  EXPECT_EQ(measured.kind, GraphKind::kTile);
  EXPECT_THAT(measured.graph.node_splits, ElementsAre(0, 2));
  EXPECT_EQ(measured.config_feat[0], 128);
}

TEST_F(DatasetReaderTest, GraphsWithoutMeasurements) {
  NpzArrays arrays = testing::small_layout_graph();
  for (const char* name : {"node_config_ids", "node_config_feat", "config_runtime"}) {
    arrays.erase(name);
  }
  EXPECT_EQ(read(arrays).kind, GraphKind::kGraph);
}

TEST_F(DatasetReaderTest, NumbersOfOtherTypesAreTakenByValue) {
  NpzArrays arrays = testing::small_layout_graph();
  arrays["node_opcode"] = Array::of<int32_t>({2}, {63, 26});
  arrays["edge_index"] = Array::of<int32_t>({1, 2}, {1, 0});
  arrays["node_splits"] = Array::of<int32_t>({2}, {0, 2});
  arrays["config_runtime"] = Array::of<double>({3}, {1000, 2000, 1010});
  const MeasuredGraph measured = read(arrays);
  EXPECT_THAT(measured.graph.node_opcode, ElementsAre(63, 26));
  EXPECT_THAT(measured.config_runtime, ElementsAre(1000, 2000, 1010));
}

TEST_F(DatasetReaderTest, LayoutsOfAnyNumericTypeAreTheSame) {
  NpzArrays arrays = testing::small_layout_graph();
  const std::vector<int8_t> from_float = read_layouts(arrays);
  EXPECT_THAT(std::vector<int8_t>(from_float.begin(), from_float.begin() + 3),
              ElementsAre(1, 0, -1));
  std::vector<int64_t> wide(from_float.begin(), from_float.end());
  arrays["node_config_feat"] = Array::of<int64_t>({3, 1, 18}, wide);
  EXPECT_EQ(read_layouts(arrays), from_float);
  arrays["node_config_feat"] = Array::of<int8_t>({3, 1, 18}, from_float);
  EXPECT_EQ(read_layouts(arrays), from_float);
}

TEST_F(DatasetReaderTest, LayoutsThatAreNoInt8AreRefused) {
  for (const float value :
       {0.5f, 128.0f, -129.0f, 1e30f, std::nanf(""), std::numeric_limits<float>::infinity()}) {
    NpzArrays arrays = testing::small_layout_graph();
    std::vector<float> layouts(54, -1);
    layouts[20] = value;
    arrays["node_config_feat"] = Array::of<float>({3, 1, 18}, layouts);
    EXPECT_THAT([&] { read_layouts(arrays); },
                ThrowsMessage<FormatError>(HasSubstr("at index 20 does not fit in s8")))
        << value;
  }
}

TEST_F(DatasetReaderTest, DuplicateEdgesAreKept) {
  NpzArrays arrays = testing::small_layout_graph();
  arrays["edge_index"] = Array::of<int64_t>({3, 2}, {1, 0, 1, 0, 1, 0});
  const MeasuredGraph measured = read(arrays);
  EXPECT_EQ(measured.graph.num_edges(), 3);
  EXPECT_EQ(count_duplicate_edges(measured.graph.edge_index), 2);
}

TEST_F(DatasetReaderTest, PlaceholderRuntimesAreRead) {
  NpzArrays arrays = testing::small_layout_graph();
  arrays["config_runtime"] = Array::of<int64_t>({3}, {0, 0, 0});
  EXPECT_THAT(read(arrays).config_runtime, ElementsAre(0, 0, 0));
}

TEST_F(DatasetReaderTest, MissingArrays) {
  for (const char* name :
       {"node_opcode", "node_feat", "edge_index", "node_config_ids", "config_runtime"}) {
    expect_layout_refused([&](NpzArrays& a) { a.erase(name); },
                          std::string(name) + ": there is no such array");
  }
  expect_layout_refused([](NpzArrays& a) { a.erase("node_config_feat"); },
                        "there is neither config_feat nor node_config_feat");
  expect_refused(
      testing::small_tile_graph(), [](NpzArrays& a) { a.erase("config_runtime_normalizers"); },
      "is missing");
}

TEST_F(DatasetReaderTest, WrongShapes) {
  expect_layout_refused([](NpzArrays& a) { a["edge_index"] = Array::of<int64_t>({2}, {1, 0}); },
                        "edge_index: has shape [2], expected [any, 2]");
  expect_layout_refused(
      [](NpzArrays& a) { a["node_feat"] = Array::of<float>({2, 139}, std::vector<float>(278, 0)); },
      "node_feat: has shape [2, 139], expected [2, 140]");
  expect_layout_refused(
      [](NpzArrays& a) { a["config_runtime"] = Array::of<int64_t>({2}, {1000, 2000}); },
      "node_config_feat: has shape [3, 1, 18], expected [2, 1, 18]");
  expect_layout_refused([](NpzArrays& a) { a["node_opcode"] = Array::of<uint8_t>({0}, {}); },
                        "has no nodes");
}

TEST_F(DatasetReaderTest, WrongTypes) {
  expect_layout_refused([](NpzArrays& a) { a["edge_index"] = Array::of<float>({1, 2}, {1, 0.5f}); },
                        "edge_index: value 0.5");
  expect_layout_refused([](NpzArrays& a) { a["node_opcode"] = Array::of<int32_t>({2}, {63, 300}); },
                        "node_opcode: value 300 at index 1 does not fit in u8");
  expect_layout_refused(
      [](NpzArrays& a) {
        a["node_feat"].element_type = PrimitiveType::kC64;
        a["node_feat"].data.resize(2 * 280 * sizeof(float));
      },
      "node_feat: holds complex numbers");
}

TEST_F(DatasetReaderTest, NodesOutsideTheGraph) {
  for (const int64_t node : {-1, 2}) {
    expect_layout_refused(
        [&](NpzArrays& a) { a["edge_index"] = Array::of<int64_t>({1, 2}, {1, node}); },
        "edge 0 goes from node 1 to " + std::to_string(node) + ", the graph has 2 nodes");
    expect_layout_refused(
        [&](NpzArrays& a) { a["node_config_ids"] = Array::of<int64_t>({1}, {node}); },
        "node_config_ids: node " + std::to_string(node) + ", the graph has 2");
  }
}

TEST_F(DatasetReaderTest, SelfEdges) {
  expect_layout_refused([](NpzArrays& a) { a["edge_index"] = Array::of<int64_t>({1, 2}, {1, 1}); },
                        "edge 0 goes from node 1 to itself");
}

TEST_F(DatasetReaderTest, ConfigurableNodeTwice) {
  expect_layout_refused(
      [](NpzArrays& a) {
        a["node_config_ids"] = Array::of<int64_t>({2}, {1, 1});
        a["node_config_feat"] = Array::of<float>({3, 2, 18}, std::vector<float>(108, -1));
      },
      "node_config_ids: node 1 stands twice");
}

TEST_F(DatasetReaderTest, FeaturesThatAreNoNumbers) {
  std::vector<float> features(280, 0);
  features[143] = std::nanf("");
  expect_layout_refused(
      [&](NpzArrays& a) { a["node_feat"] = Array::of<float>({2, 140}, features); },
      "node_feat: row 1, column 3 is NaN");
  std::vector<float> tiles(48, 0);
  tiles[47] = -std::numeric_limits<float>::infinity();
  expect_refused(
      testing::small_tile_graph(),
      [&](NpzArrays& a) { a["config_feat"] = Array::of<float>({2, 24}, tiles); },
      "config_feat: row 1, column 23 is infinite");
}

TEST_F(DatasetReaderTest, Runtimes) {
  expect_layout_refused(
      [](NpzArrays& a) { a["config_runtime"] = Array::of<int64_t>({3}, {1000, 0, 1010}); },
      "config_runtime: row 1 is 0 ns");
  expect_layout_refused(
      [](NpzArrays& a) { a["config_runtime"] = Array::of<int64_t>({3}, {1000, 2000, -5}); },
      "config_runtime: row 2 is -5 ns");
  expect_refused(
      testing::small_tile_graph(),
      [](NpzArrays& a) { a["config_runtime_normalizers"] = Array::of<int64_t>({2}, {0, 1}); },
      "config_runtime_normalizers: a value is 0 ns");
}

TEST_F(DatasetReaderTest, Splits) {
  for (const std::vector<int64_t>& splits :
       std::vector<std::vector<int64_t>>{{}, {0}, {1, 2}, {0, 3}, {0, 2, 1, 2}}) {
    expect_layout_refused(
        [&](NpzArrays& a) {
          a["node_splits"] = Array::of<int64_t>({1, static_cast<int64_t>(splits.size())}, splits);
        },
        "node_splits: do not ascend from 0 to 2");
  }
}

TEST_F(DatasetReaderTest, FeatureVersions) {
  expect_layout_refused([](NpzArrays& a) { a["feature_version"] = Array::of<int32_t>({}, {4}); },
                        "feature_version: 4, expected 1 to 3");
  expect_layout_refused([](NpzArrays& a) { a["feature_version"] = Array::of<int32_t>({}, {2}); },
                        "node_feat: has shape [2, 140], expected [2, 275]");
  expect_layout_refused([](NpzArrays& a) { a["list_padding"] = Array::of<int32_t>({}, {5}); },
                        "list_padding: 5, expected 0 or -1");
}

}  // namespace
}  // namespace lagom::graph
