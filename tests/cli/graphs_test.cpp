#include <signal.h>
#include <unistd.h>

#include <filesystem>

#include "lagom/graph/graph_cache.h"
#include "lagom/util/file.h"
#include "tests/cli/cli_fixture.h"
#include "tests/testing/npz_arrays.h"

namespace lagom::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using testing::CommandResult;
using ::testing::HasSubstr;

class GraphsTest : public CliTest {
 protected:
  std::string write(const std::string& name, const testing::NpzArrays& arrays) const {
    testing::write_npz(folder_ / name, arrays);
    return folder_ / name;
  }
  /// `count` graphs that take a moment each.
  void write_large_folder(int count) const {
    testing::NpzArrays arrays = testing::small_layout_graph();
    constexpr int64_t kConfigs = 20000;
    std::vector<float> layouts(kConfigs * graph::kLayoutConfigFeatures, -1);
    for (int64_t c = 0; c < kConfigs; ++c) {
      layouts[static_cast<size_t>(c * graph::kLayoutConfigFeatures)] = static_cast<float>(c % 6);
    }
    arrays["node_config_feat"] =
        formats::Array::of<float>({kConfigs, 1, graph::kLayoutConfigFeatures}, layouts);
    arrays["config_runtime"] =
        formats::Array::of<int64_t>({kConfigs}, std::vector<int64_t>(kConfigs, 9));
    for (int i = 0; i < count; ++i) {
      write("npz/layout/xla/random/train/g" + std::to_string(i) + ".npz", arrays);
    }
  }
};

TEST_F(GraphsTest, AnNpzIsMadeCompactAndInspected) {
  const std::string npz = write("x.npz", testing::small_layout_graph());

  ASSERT_EQ(lagom({"convert", npz, folder_ / "x.graph"}).status, 0);
  const CommandResult result = lagom({"inspect", "--json", "--audit", folder_ / "x.graph"});

  ASSERT_EQ(result.status, 0) << result.err;
  const json j = json::parse(result.out);
  EXPECT_EQ(j.at("kind"), "graph");
  EXPECT_EQ(j.at("measured"), "layout");
  EXPECT_EQ(j.at("nodes"), 2);
  EXPECT_EQ(j.at("configs"), 3);
  EXPECT_EQ(j.at("layouts"), 2);
  EXPECT_EQ(j.at("audit").at("distinct"), 2);
  EXPECT_THAT(lagom({"inspect", folder_ / "x.graph"}).out,
              HasSubstr("3 layout configurations of 1 nodes with 2 different layouts"));
}

TEST_F(GraphsTest, EdgeListsAndTokenShardsAreInspected) {
  const std::string edges = folder_.write("x.edgelist", "# three nodes\n0 1\n1 2\n");
  const std::string shard = folder_.write("x.bin", std::string("\1\0\2\0\3\0", 6));
  const std::string odd = folder_.write("odd.bin", "abc");

  EXPECT_THAT(lagom({"inspect", edges}).out, HasSubstr("edge list, 3 nodes, 2 edges"));
  EXPECT_THAT(lagom({"inspect", shard}).out, HasSubstr("token shard, 3 tokens"));
  EXPECT_EQ(json::parse(lagom({"inspect", "--json", shard}).out).at("tokens"), 3);
  EXPECT_EQ(lagom({"inspect", odd}).status, 1);
}

TEST_F(GraphsTest, FoldersAreCountedBeforeAndAfter) {
  write("npz/layout/xla/random/train/a.npz", testing::small_layout_graph());
  write("npz/tile/xla/test/b_1.npz", testing::small_tile_graph());

  const CommandResult before = lagom({"inspect", "--json", folder_ / "npz"});
  ASSERT_EQ(lagom({"convert", folder_ / "npz", folder_ / "out"}).status, 0);
  const CommandResult after = lagom({"inspect", "--json", "--audit", "--stats", folder_ / "out"});

  const json splits = json::parse(before.out).at("splits");
  EXPECT_EQ(splits, json::parse(after.out).at("splits"));
  ASSERT_EQ(splits.size(), 2u);
  EXPECT_EQ(splits[0].at("collection"), "layout:xla:random");
  EXPECT_EQ(splits[0].at("configs"), 3);
  EXPECT_EQ(splits[1].at("split"), "test");
  EXPECT_EQ(json::parse(after.out).at("audit").at(0).at("id"), "layout:xla:random:a");
  // The training split's only.
  ASSERT_EQ(json::parse(after.out).at("statistics").size(), 1u);
  EXPECT_EQ(json::parse(after.out).at("statistics")[0].at("node_feat")[0].at("mean"), 0.5);
}

TEST_F(GraphsTest, RefusedFilesAreNamedAndTheOthersWritten) {
  write("npz/a.npz", testing::small_layout_graph());
  testing::NpzArrays broken = testing::small_layout_graph();
  broken["edge_index"] = formats::Array::of<int64_t>({1, 2}, {1, 9});
  write("npz/b.npz", broken);

  const CommandResult result = lagom({"convert", folder_ / "npz", folder_ / "out"});

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("b.npz: edge_index: edge 0 goes from node 1 to 9")));
  EXPECT_THAT(result.out, HasSubstr("1 graphs written, 0 up to date, 1 refused"));
  EXPECT_TRUE(fs::exists(folder_ / "out/a.graph"));
}

TEST_F(GraphsTest, AuditOfAnNpzSaysWhatToDo) {
  const std::string npz = write("x.npz", testing::small_layout_graph());
  EXPECT_THAT(lagom({"inspect", "--audit", npz}), FailsWith("lagom convert IN.npz OUT.graph"));
}

TEST_F(GraphsTest, AProgramIsWrittenWithEveryFeatureSet) {
  const std::string program = depthwise_program();
  for (const std::string version : {"1", "2", "3"}) {
    ASSERT_EQ(
        lagom({"convert", program, folder_ / "x.npz", "--features", version, "--pad-minus-one"})
            .status,
        0);
    ASSERT_EQ(lagom({"convert", folder_ / "x.npz", folder_ / "x.graph"}).status, 0);
    const graph::GraphCache cache(folder_ / "x.graph");
    EXPECT_EQ(std::to_string(cache.feature_version()), version);
    EXPECT_EQ(cache.list_padding(), -1);
    EXPECT_EQ(cache.kind(), graph::GraphKind::kGraph);
  }
  EXPECT_EQ(lagom({"convert", program, folder_ / "x.npz", "--features", "4"}).status, 2);
}

TEST_F(GraphsTest, WhatAKilledConversionLeavesIsWholeAndItGoesOn) {
  constexpr int kGraphs = 12;
  write_large_folder(kGraphs);
  const fs::path out = folder_ / "out";
  const auto finished = [&] {
    std::vector<fs::path> files;
    std::error_code ec;
    for (const auto& entry : fs::recursive_directory_iterator(out, ec)) {
      if (entry.path().extension() == ".graph") files.push_back(entry.path());
    }
    return files;
  };
  for (int kills = 0; kills < 3; ++kills) {
    const size_t before = finished().size();
    testing::Command command("lagom", {"convert", folder_ / "npz", out.string()}, environment());
    while (finished().size() < std::min<size_t>(before + 2, kGraphs - 1)) ::usleep(500);
    command.signal(SIGKILL);
    command.wait();
    for (const fs::path& file : finished()) EXPECT_NO_THROW(graph::GraphCache(file).verify());
    EXPECT_FALSE(fs::exists(out / "index.jsonl"));
  }
  const size_t reached = finished().size();

  const CommandResult result = lagom({"convert", folder_ / "npz", out.string()});

  EXPECT_THAT(result.out, HasSubstr(std::to_string(kGraphs - reached) + " graphs written, " +
                                    std::to_string(reached) + " up to date, 0 refused"));
  EXPECT_EQ(finished().size(), static_cast<size_t>(kGraphs));
  const std::string index = read_file(out / "index.jsonl");
  EXPECT_EQ(std::count(index.begin(), index.end(), '\n'), kGraphs);
}

}  // namespace
}  // namespace lagom::cli
