#include "lagom/graph/collection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "lagom/util/error.h"
#include "lagom/util/file.h"
#include "tests/testing/command.h"
#include "tests/testing/data.h"

namespace lagom::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(CollectionTest, PlacesAreTheLastFolders) {
  const GraphPlace layout = graph_place("/data/npz_all/npz/layout/nlp/default/valid/a.npz");
  EXPECT_EQ(layout.collection, "layout:nlp:default");
  EXPECT_EQ(layout.split, "valid");
  EXPECT_EQ(graph_place("tile/xla/./test/a.npz").collection, "tile:xla");
  for (const char* elsewhere : {"a.npz", "train/a.npz", "tile/xla/a.npz",
                                "layout/xla/validation/a.npz", "layout/xla/random/train/x/a.npz"}) {
    EXPECT_EQ(graph_place(elsewhere).collection, "") << elsewhere;
  }
}

TEST(CollectionTest, StemsKeepTheirDots) {
  const GraphFile file = graph_file("npz/layout/xla/random/train/resnet50.4x4.fp16.npz");
  EXPECT_EQ(file.stem, "resnet50.4x4.fp16");
  EXPECT_EQ(file.program(), "resnet50.4x4.fp16");
  EXPECT_EQ(file.id(), "layout:xla:random:resnet50.4x4.fp16");
}

TEST(CollectionTest, ATilesProgramEndsBeforeTheLastUnderscore) {
  const GraphFile file = graph_file("npz/tile/xla/train/alexnet_train_batch_32_-3a5.npz");
  EXPECT_EQ(file.program(), "alexnet_train_batch_32");
  EXPECT_EQ(file.id(), "tile:xla:alexnet_train_batch_32_-3a5");
}

TEST(CollectionTest, ListsOneSplitOfOneCollection) {
  const testing::TemporaryFolder folder;
  for (const char* name :
       {"layout/xla/random/train/b.npz", "layout/xla/random/train/a.npz",
        "layout/xla/random/valid/c.npz", "layout/xla/default/train/d.npz", "notes.txt"}) {
    write_file(folder / name, "");
  }
  const auto all = list_graphs(folder.path(), ".npz");
  EXPECT_EQ(all.size(), 4u);
  std::vector<std::string> stems;
  for (const GraphFile& file : select_graphs(all, "layout:xla:random", "train")) {
    stems.push_back(file.stem);
  }
  EXPECT_THAT(stems, ElementsAre("a", "b"));
  EXPECT_THROW(list_graphs(folder / "missing", ".npz"), SystemError);
}

// Counts: those of the official files.
TEST(EvalIndicesTest, OfficialFiles) {
  const auto folder = testing::data_folder() / "tpugraphs/eval_indices";
  for (const auto& [name, graphs] : std::map<std::string, size_t>{
           {"xla_random", 7}, {"xla_default", 7}, {"nlp_random", 20}, {"nlp_default", 20}}) {
    const EvalIndices indices = read_eval_indices(folder / (name + ".json"));
    EXPECT_EQ(indices.size(), graphs) << name;
    for (const auto& [stem, rows] : indices) {
      const size_t distinct = std::set<int64_t>(rows.begin(), rows.end()).size();
      EXPECT_EQ(rows.size(), 1000u) << stem;
      const bool repeats = name == "xla_random" && stem == "unet_3d.4x4.bf16";
      EXPECT_EQ(distinct, repeats ? 481u : 1000u) << stem;
    }
  }
}

TEST(EvalIndicesTest, RowsPastTheEndAreRefused) {
  const EvalIndices indices = {{"a", {0, 2}}};
  EXPECT_THAT(eval_rows(indices, "a", 3, "f"), ElementsAre(0, 2));
  EXPECT_THAT([&] { eval_rows(indices, "a", 2, "f"); },
              ThrowsMessage<FormatError>(HasSubstr("f: a: row 2, the graph has 2")));
  EXPECT_THROW(eval_rows(indices, "b", 3, "f"), std::invalid_argument);
}

TEST(EvalIndicesTest, BrokenFilesAreRefused) {
  const testing::TemporaryFolder folder;
  for (const char* text : {"", "[1]", R"({"a": [1, -2]})", R"({"a": [0.5]})", R"({"a": ["x"]})",
                           R"({"a": [18446744073709551616]})"}) {
    EXPECT_THROW(read_eval_indices(folder.write("x.json", text)), FormatError) << text;
  }
}

TEST(DenyListTest, NamesGraphsByCollection) {
  EXPECT_TRUE(is_denied(graph_file("layout/xla/random/valid/unet_3d.4x4.bf16.npz")));
  EXPECT_TRUE(is_denied(graph_file("layout/xla/default/valid/mlperf_bert_batch_24_2x2.npz")));
  EXPECT_FALSE(is_denied(graph_file("layout/xla/random/valid/mlperf_bert_batch_24_2x2.npz")));
  EXPECT_FALSE(is_denied(graph_file("layout/xla/random/train/resnet50.4x4.fp16.npz")));
  EXPECT_FALSE(is_denied(graph_file("tile/xla/train/magenta_dynamic_1.npz")));
}

}  // namespace
}  // namespace lagom::graph
