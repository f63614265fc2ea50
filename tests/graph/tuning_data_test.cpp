#include "lagom/graph/tuning_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "lagom/util/error.h"
#include "lagom/util/file.h"
#include "tests/testing/data.h"

namespace lagom::graph {
namespace {

using ::testing::HasSubstr;

std::string bytes_of(const std::string& name) {
  return read_file(testing::data_folder() / "tpugraphs" / name);
}

// Counts and times: decoded from the samples by an independent implementation.
TEST(TuningDataTest, LayoutSample) {
  const std::string bytes = bytes_of("module_tuning_data_layout.pb");
  ASSERT_EQ(tuning_kind(bytes), TuningKind::kLayout);
  const auto modules = read_tuning_data(bytes, "f");
  ASSERT_EQ(modules.size(), 1u);
  EXPECT_EQ(modules[0].fingerprint, 1647297092728839203u);
  EXPECT_EQ(modules[0].config_nodes.size(), 62u);
  EXPECT_EQ(modules[0].runs.size(), 122u);
  EXPECT_EQ(std::count_if(modules[0].runs.begin(), modules[0].runs.end(),
                          [](const TuningRun& run) { return run.is_error; }),
            10);

  const TuningTable table = layout_table(modules[0], "f");

  ASSERT_EQ(table.num_configs(), 112);
  ASSERT_EQ(table.config_feat.size(), 112u * 62 * 18);
  EXPECT_EQ(std::accumulate(table.config_feat.begin(), table.config_feat.end(), 0.0), 6887);
  for (const int64_t normalizer : table.config_runtime_normalizers) {
    EXPECT_EQ(normalizer, 910903932);
  }
  std::vector<int64_t> sorted = table.config_runtime;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted.front(), 910876401);
  EXPECT_EQ(sorted.back(), 925642328);
  EXPECT_EQ(sorted[55] + sorted[56], 2 * 910911232 + 1);  // the median is 910,911,232.5
  for (const int64_t node : table.node_config_ids) {
    const auto& computations = modules[0].module.computations();
    int64_t number = node;
    size_t c = 0;
    while (number >= static_cast<int64_t>(computations[c]->size())) {
      number -= static_cast<int64_t>(computations[c++]->size());
    }
    const hlo::Opcode opcode = computations[c]->instructions()[static_cast<size_t>(number)]->opcode;
    EXPECT_TRUE(opcode == hlo::Opcode::kConvolution || opcode == hlo::Opcode::kReshape) << node;
  }
}

TEST(TuningDataTest, TileSample) {
  const std::string bytes = bytes_of("op_tuning_data.pb");
  ASSERT_EQ(tuning_kind(bytes), TuningKind::kTile);
  const auto kernels = read_tuning_data(bytes, "f");
  ASSERT_EQ(kernels.size(), 15u);
  const auto tables = tile_tables(kernels, "f");
  struct Expected {
    int64_t nodes, edges, configs, normalizer, best, feature_sum;
  };
  const std::map<std::string, Expected> expected = {
      {"fusion.232", {20, 19, 61, 57188, 57188, 16281}},
      {"fusion.191", {31, 32, 579, 151565, 137344, 196494}},
      {"fusion.261", {52, 51, 16, 94192, 94192, 6796}},
      {"fusion.245", {21, 20, 23, 13665, 13411, 2538}},
      {"copy.24", {2, 1, 10, 3967, 3872, 698}},
      {"reshape.37", {2, 1, 3, 270591, 238068, 0}}};
  int64_t runs = 0, kept = 0, found = 0;
  for (size_t k = 0; k < kernels.size(); ++k) {
    runs += static_cast<int64_t>(kernels[k].runs.size());
    kept += tables[k].num_configs();
    for (const auto& [name, e] : expected) {
      if (kernels[k].module.name.find(name) == std::string::npos) continue;
      ++found;
      const OpGraph graph = make_op_graph(kernels[k].module);
      EXPECT_EQ(graph.num_nodes(), e.nodes) << name;
      EXPECT_EQ(graph.num_edges(), e.edges) << name;
      EXPECT_EQ(tables[k].num_configs(), e.configs) << name;
      EXPECT_EQ(tables[k].config_runtime_normalizers[0], e.normalizer) << name;
      EXPECT_EQ(*std::min_element(tables[k].config_runtime.begin(), tables[k].config_runtime.end()),
                e.best)
          << name;
      EXPECT_EQ(std::accumulate(tables[k].config_feat.begin(), tables[k].config_feat.end(), 0.0),
                static_cast<double>(e.feature_sum))
          << name;
    }
  }
  EXPECT_EQ(runs, 754);
  EXPECT_EQ(kept, 752);
  EXPECT_EQ(found, 6);
}

TEST(TuningDataTest, OtherMessagesAreNeither) {
  for (const auto& path : testing::data_files("hlo_pb", ".pb")) {
    EXPECT_EQ(tuning_kind(read_file(path)), std::nullopt) << path;
  }
  EXPECT_EQ(tuning_kind(""), std::nullopt);
  EXPECT_EQ(tuning_kind("HloModule m"), std::nullopt);
  EXPECT_THROW(read_tuning_data("", "f"), FormatError);
}

TEST(TuningDataTest, DamageIsAnErrorAndNothingElse) {
  const std::string whole = bytes_of("op_tuning_data.pb");
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::string bytes = whole;
    if (round % 3 == 0) {
      bytes.resize(random() % bytes.size());
    } else {
      for (int i = 0; i < 3; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    try {
      for (const TuningModule& module : read_tuning_data(bytes, "f")) make_op_graph(module.module);
    } catch (const FormatError& e) {
      EXPECT_THAT(e.what(), HasSubstr("f"));
    } catch (const std::invalid_argument&) {  // an instruction that reads itself
    }
  }
}

TuningModule program(std::vector<TuningRun> runs) {
  TuningModule tuning;
  tuning.config_nodes = {0};
  tuning.runs = std::move(runs);
  return tuning;
}

TuningRun run(int64_t ns, bool is_default, bool is_error = false) {
  return {.is_error = is_error,
          .is_default = is_default,
          .runtime_ns = ns,
          .tile = TileConfig{},
          .layouts = std::vector<NodeLayouts>(1)};
}

TEST(LayoutTableTest, NeedsADefaultThatCounts) {
  EXPECT_EQ(layout_table(program({run(5, true), run(6, false)}), "f").num_configs(), 2);
  EXPECT_EQ(layout_table(program({run(5, false), run(6, false)}), "f").num_configs(), 0);
  EXPECT_EQ(layout_table(program({run(5, true, true), run(6, false)}), "f").num_configs(), 0);
  EXPECT_THROW(layout_table(program({run(0, true)}), "f"), FormatError);
  TuningModule without_nodes = program({});
  without_nodes.config_nodes.clear();
  EXPECT_THROW(layout_table(without_nodes, "f"), FormatError);
}

TEST(TileTablesTest, LeavesOutWhatTheDataSetLeavesOut) {
  std::vector<TuningModule> kernels;
  kernels.push_back(program({run(5, true), run(1, false), run(7, false), run(0, false, true)}));
  kernels.push_back(program({run(5, true)}));  // a single run
  kernels.push_back(program({run(5, true), run(6, false)}));
  kernels.back().runs[1].tile.reset();

  const auto tables = tile_tables(kernels, "f");

  EXPECT_THAT(tables[0].config_runtime, ::testing::ElementsAre(5, 7));
  EXPECT_EQ(tables[1].num_configs(), 0);
  EXPECT_EQ(tables[2].num_configs(), 0);
  std::vector<TuningModule> no_default;
  no_default.push_back(program({run(5, false), run(6, false)}));
  EXPECT_THROW(tile_tables(no_default, "f"), FormatError);
}

TEST(TileTablesTest, KernelsOfOneNameShareTheLastNormalizer) {
  std::vector<TuningModule> kernels;
  kernels.push_back(program({run(5, true), run(6, false)}));
  kernels.push_back(program({run(9, true), run(8, false)}));
  const auto tables = tile_tables(kernels, "f");
  EXPECT_THAT(tables[0].config_runtime_normalizers, ::testing::ElementsAre(9, 9));
}

}  // namespace
}  // namespace lagom::graph
