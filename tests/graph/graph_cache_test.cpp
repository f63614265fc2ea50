#include "lagom/graph/graph_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <random>

#include "lagom/util/error.h"
#include "lagom/util/file.h"
#include "tests/testing/command.h"
#include "tests/testing/npz_arrays.h"

namespace lagom::graph {
namespace {

namespace fs = std::filesystem;
using formats::Array;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::NpzArrays;
using ::testing::ThrowsMessage;

class GraphCacheTest : public ::testing::Test {
 protected:
  GraphCache cache_of(const NpzArrays& arrays) const {
    testing::write_npz(npz_, arrays);
    transcode_graph(npz_, cache_);
    return GraphCache(cache_);
  }

  testing::TemporaryFolder folder_;
  std::string npz_ = folder_ / "x.npz", cache_ = folder_ / "x.graph";
};

/// The small layout graph with these configurations of both of its nodes.
NpzArrays with_layouts(int64_t configs, const std::vector<float>& layouts) {
  NpzArrays arrays = testing::small_layout_graph();
  arrays["node_config_ids"] = Array::of<int64_t>({2}, {0, 1});
  arrays["node_config_feat"] = Array::of<float>({configs, 2, kLayoutConfigFeatures}, layouts);
  arrays["config_runtime"] =
      Array::of<int64_t>({configs}, std::vector<int64_t>(static_cast<size_t>(configs), 5));
  return arrays;
}

TEST_F(GraphCacheTest, LayoutGraph) {
  const GraphCache cache = cache_of(testing::small_layout_graph());
  EXPECT_EQ(cache.kind(), GraphKind::kLayout);
  EXPECT_EQ(cache.feature_version(), 1);
  EXPECT_TRUE(cache.has_labels());
  EXPECT_THAT(cache.node_opcode(), ElementsAre(63, 26));
  EXPECT_EQ(cache.node_feat()[140], 1);
  EXPECT_THAT(cache.edge_index(), ElementsAre(1, 0));
  EXPECT_THAT(cache.node_splits(), ElementsAre(0, 2));
  EXPECT_THAT(cache.config_runtime(), ElementsAre(1000, 2000, 1010));
  EXPECT_THAT(cache.node_config_ids(), ElementsAre(1));
  EXPECT_EQ(cache.num_layouts(), 2);  // {1, 0, -1...} and all -1

  std::vector<uint32_t> codes(3);
  cache.read_layout_codes(std::vector<int64_t>{0, 1, 2}, codes);
  EXPECT_THAT(codes, ElementsAre(0, 1, 0));
  EXPECT_NO_THROW(cache.verify());
}

TEST_F(GraphCacheTest, TileGraph) {
  const GraphCache cache = cache_of(testing::small_tile_graph());
  EXPECT_EQ(cache.kind(), GraphKind::kTile);
  EXPECT_EQ(cache.config_feat().size(), 48u);
  EXPECT_EQ(cache.config_feat()[0], 128);
  EXPECT_THAT(cache.config_runtime_normalizers(), ElementsAre(2000, 1000));
  std::vector<uint32_t> none;
  EXPECT_THROW(cache.read_layout_codes({}, none), std::invalid_argument);
}

TEST_F(GraphCacheTest, SampledRowsAreThoseOfTheNpzInAnyOrder) {
  std::mt19937 random(7);
  constexpr int64_t kConfigs = 300;
  std::vector<float> layouts(kConfigs * 2 * kLayoutConfigFeatures);
  for (float& value : layouts) value = static_cast<float>(static_cast<int>(random() % 256) - 128);
  const GraphCache cache = cache_of(with_layouts(kConfigs, layouts));

  const std::vector<int64_t> rows = {299, 0, 17, 17, 128};
  std::vector<int8_t> found(rows.size() * 2 * kLayoutConfigFeatures);
  cache.read_layouts(rows, found);

  constexpr size_t kRow = 2 * kLayoutConfigFeatures;
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i], layouts[static_cast<size_t>(rows[i / kRow]) * kRow + i % kRow]) << i;
  }
}

/// Two nodes whose configurations are all different.
NpzArrays all_different(int64_t configs) {
  std::vector<float> layouts(static_cast<size_t>(configs) * 2 * kLayoutConfigFeatures, -1);
  for (size_t i = 0; i < static_cast<size_t>(configs) * 2; ++i) {
    layouts[i * kLayoutConfigFeatures] = static_cast<float>(i % 100);
    layouts[i * kLayoutConfigFeatures + 1] = static_cast<float>(i / 100 % 100);
    layouts[i * kLayoutConfigFeatures + 2] = static_cast<float>(i / 10000);
  }
  return with_layouts(configs, layouts);
}

TEST_F(GraphCacheTest, MoreThan65536LayoutsGetLongerCodes) {
  for (const int64_t configs : {32768, 32769}) {
    const GraphCache cache = cache_of(all_different(configs));
    EXPECT_EQ(cache.num_layouts(), 2 * configs);
    EXPECT_EQ(cache.arrays().find("node_config_codes")->element_type,
              configs == 32768 ? PrimitiveType::kU16 : PrimitiveType::kU32);
    std::vector<uint32_t> codes(2);
    cache.read_layout_codes(std::vector<int64_t>{configs - 1}, codes);
    EXPECT_THAT(codes, ElementsAre(2 * configs - 2, 2 * configs - 1));
    EXPECT_NO_THROW(cache.verify());
  }
  const GraphCache cache(cache_);
  std::vector<int8_t> last(2 * kLayoutConfigFeatures);
  cache.read_layouts(std::vector<int64_t>{32768}, last);
  EXPECT_THAT(std::vector<int8_t>(last.begin(), last.begin() + 4), ElementsAre(36, 55, 6, -1));
}

TEST_F(GraphCacheTest, RowsPastTheEndAreRefused) {
  const GraphCache cache = cache_of(testing::small_layout_graph());
  std::vector<uint32_t> codes(1);
  for (const int64_t row : {-1, 3}) {
    EXPECT_THAT([&] { cache.read_layout_codes({&row, 1}, codes); },
                ThrowsMessage<std::invalid_argument>(
                    HasSubstr("there is no configuration " + std::to_string(row))));
  }
  EXPECT_THROW(cache.read_layout_codes(std::vector<int64_t>{0, 1}, codes), std::invalid_argument);
}

TEST_F(GraphCacheTest, TestFilesHaveNoLabelsToEvaluate) {
  NpzArrays arrays = testing::small_layout_graph();
  arrays["config_runtime"] = Array::of<int64_t>({3}, {0, 0, 0});
  const GraphCache cache = cache_of(arrays);
  EXPECT_FALSE(cache.has_labels());
  EXPECT_THAT([&] { cache.require_labels(); },
              ThrowsMessage<FormatError>(HasSubstr("a test file without its labels")));
}

TEST_F(GraphCacheTest, FeatureVersionsAreComparedForAPurpose) {
  const GraphCache cache = cache_of(testing::small_layout_graph());
  EXPECT_NO_THROW(cache.require_feature_version(1));
  EXPECT_THAT([&] { cache.require_feature_version(2); },
              ThrowsMessage<FormatError>(HasSubstr("feature_version: 1, expected 2")));
}

TEST_F(GraphCacheTest, DamagedFilesAreFound) {
  cache_of(testing::small_layout_graph());
  const std::string bytes = read_file(cache_);
  const size_t codes_at = [&] {
    return formats::ArrayFile(cache_).find("node_config_codes")->offset;
  }();
  std::string damaged = bytes;
  damaged[codes_at + 1] = '\x7f';
  write_file(cache_, damaged);
  const GraphCache cache(cache_);  // configurations are not read yet
  std::vector<uint32_t> codes(1);
  EXPECT_THAT([&] { cache.read_layout_codes(std::vector<int64_t>{0}, codes); },
              ThrowsMessage<FormatError>(HasSubstr("past the end of the dictionary")));
  EXPECT_THAT([&] { cache.verify(); }, ThrowsMessage<FormatError>(HasSubstr("checksum")));

  write_file(cache_, bytes.substr(0, bytes.size() / 2));
  EXPECT_THROW(GraphCache{cache_}, FormatError);
}

TEST_F(GraphCacheTest, EveryTruncationAndFlippedByteIsFound) {
  cache_of(testing::small_layout_graph());
  const std::string bytes = read_file(cache_);
  const formats::ArrayFile file(cache_);
  std::vector<bool> is_covered(bytes.size(), false);
  std::fill_n(is_covered.begin(), 40, true);  // the header
  uint64_t end = 64;
  for (const auto& entry : file.entries()) {
    std::fill_n(is_covered.begin() + static_cast<std::ptrdiff_t>(entry.offset), entry.data_bytes(),
                true);
    end = std::max(end, entry.offset + entry.data_bytes());
  }
  std::fill(is_covered.begin() + static_cast<std::ptrdiff_t>((end + 63) / 64 * 64),
            is_covered.end(), true);  // the directory
  for (size_t at = 0; at < bytes.size(); ++at) {
    if (!is_covered[at]) continue;
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x40);
    write_file(cache_, flipped);
    EXPECT_THROW(GraphCache(cache_).verify(), FormatError) << at;
  }
  for (size_t size = 0; size < bytes.size(); size += 61) {
    write_file(cache_, bytes.substr(0, size));
    EXPECT_THROW(GraphCache{cache_}, FormatError) << size;
  }
}

/// A graph whose checksums are right and whose contents are not.
TEST_F(GraphCacheTest, ContentsThatDoNotFitAreRefused) {
  const auto write = [&](std::vector<int64_t> edges, int64_t config_node, int64_t runtimes) {
    formats::ArrayFileWriter out(cache_);
    for (const char* name : {"graph_cache", "feature_version"}) out.add<int32_t>(name, {}, {1});
    out.add<int32_t>("list_padding", {}, {0});
    out.add<uint64_t>("source", {}, {0});
    out.add<uint8_t>("node_opcode", {2}, {1, 1});
    out.add("node_feat", {2, 140}, std::vector<float>(280, 0));
    out.add<int64_t>("edge_index", {1, 2}, edges);
    out.add<int64_t>("node_splits", {2}, {0, 2});
    out.add("config_runtime", {runtimes}, std::vector<int64_t>(static_cast<size_t>(runtimes), 7));
    out.add<int64_t>("node_config_ids", {1}, {config_node});
    out.add<uint16_t>("node_config_codes", {1, 1}, {0});
    out.add("node_config_layouts", {1, 18}, std::vector<int8_t>(18, -1));
    out.finish();
    return GraphCache(cache_).num_nodes();
  };
  EXPECT_EQ(write({1, 0}, 1, 1), 2);
  EXPECT_THAT([&] { write({1, 2}, 1, 1); },
              ThrowsMessage<FormatError>(HasSubstr("edge 0 goes from node 1 to 2")));
  EXPECT_THAT([&] { write({1, 0}, 2, 1); },
              ThrowsMessage<FormatError>(HasSubstr("node_config_ids: does not fit")));
  EXPECT_THAT([&] { write({1, 0}, 1, 2); },
              ThrowsMessage<FormatError>(HasSubstr("node_config_codes: does not fit")));
}

TEST_F(GraphCacheTest, ArraysThatTpuGraphsLacksAreTakenAlong) {
  NpzArrays arrays = testing::small_layout_graph();
  arrays["config_flags"] = Array::of<int16_t>({3, 2}, {1, 2, 3, 4, 5, 6});
  arrays["noise_floor"] = Array::of<double>({}, {0.25});
  const GraphCache cache = cache_of(arrays);
  EXPECT_THAT(cache.arrays().values<int16_t>("config_flags", 2), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(cache.arrays().values<double>("noise_floor", 0), ElementsAre(0.25));

  arrays["source"] = Array::of<int8_t>({}, {0});
  EXPECT_THAT([&] { cache_of(arrays); }, ThrowsMessage<FormatError>(HasSubstr("source")));
}

TEST_F(GraphCacheTest, OtherArrayFilesAreNoGraphs) {
  formats::ArrayFileWriter writer(cache_);
  writer.add<int32_t>("x", {1}, {1});
  writer.finish();
  EXPECT_THAT([&] { GraphCache{cache_}; }, ThrowsMessage<FormatError>(HasSubstr("no graph")));
}

TEST_F(GraphCacheTest, ARefusedNpzLeavesNoFile) {
  NpzArrays arrays = with_layouts(1, std::vector<float>(2 * kLayoutConfigFeatures, 0.5f));
  EXPECT_THROW(cache_of(arrays), FormatError);
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder_.path())) {
    names.push_back(entry.path().filename());
  }
  EXPECT_THAT(names, ElementsAre("x.npz"));
}

class TranscodeFolderTest : public ::testing::Test {
 protected:
  void write(const std::string& name, const NpzArrays& arrays) const {
    testing::write_npz(folder_ / ("npz/" + name), arrays);
  }
  TranscodeReport transcode() const { return transcode_folder(folder_ / "npz", out_); }
  std::string index() const { return read_file(out_ / "index.jsonl"); }

  testing::TemporaryFolder folder_;
  fs::path out_ = folder_.path() / "out";
};

TEST_F(TranscodeFolderTest, KeepsPlacesAndContinuesWhereItStopped) {
  write("layout/xla/random/train/a.4x4.npz", testing::small_layout_graph());
  write("tile/xla/valid/b_1.npz", testing::small_tile_graph());

  const TranscodeReport first = transcode();
  EXPECT_EQ(first.written, 2);
  EXPECT_EQ(first.up_to_date, 0);
  EXPECT_THAT(first.failures, ::testing::IsEmpty());
  EXPECT_EQ(GraphCache(out_ / "layout/xla/random/train/a.4x4.graph").num_configs(), 3);
  EXPECT_THAT(index(), HasSubstr(R"("file":"layout/xla/random/train/a.4x4.graph","kind":"layout",)"
                                 R"("collection":"layout:xla:random","split":"train")"));

  // As if it had been killed while it wrote the second one.
  fs::remove(out_ / "tile/xla/valid/b_1.graph");
  std::ofstream(out_ / "tile/xla/valid/b_1.graph.part1") << "half";
  const TranscodeReport second = transcode();
  EXPECT_EQ(second.written, 1);
  EXPECT_EQ(second.up_to_date, 1);
  EXPECT_EQ(GraphCache(out_ / "tile/xla/valid/b_1.graph").num_configs(), 2);
}

TEST_F(TranscodeFolderTest, ChangedAndDamagedFilesAreMadeAnew) {
  write("a.npz", testing::small_layout_graph());
  write("b.npz", testing::small_layout_graph());
  transcode();
  NpzArrays changed = testing::small_layout_graph();
  changed["config_runtime"] = Array::of<int64_t>({3}, {1, 2, 3});
  write("a.npz", changed);
  write_file(out_ / "b.graph", read_file(out_ / "b.graph").substr(0, 100));

  EXPECT_EQ(transcode().written, 2);

  EXPECT_THAT(GraphCache(out_ / "a.graph").config_runtime(), ElementsAre(1, 2, 3));
  EXPECT_THAT(GraphCache(out_ / "b.graph").config_runtime(), ElementsAre(1000, 2000, 1010));
}

TEST_F(TranscodeFolderTest, ARefusedFileStopsNoOtherAndLeavesNoOldForm) {
  write("a.npz", testing::small_layout_graph());
  write("b.npz", testing::small_layout_graph());
  transcode();
  NpzArrays broken = testing::small_layout_graph();
  broken.erase("node_feat");
  write("a.npz", broken);

  const TranscodeReport report = transcode();

  EXPECT_THAT(report.failures, ElementsAre(HasSubstr("node_feat")));
  EXPECT_EQ(report.up_to_date, 1);
  EXPECT_FALSE(fs::exists(out_ / "a.graph"));
  EXPECT_THAT(index(), ::testing::Not(HasSubstr("a.graph")));
}

TEST_F(TranscodeFolderTest, AFolderWithoutNpzIsAnError) {
  fs::create_directory(folder_ / "npz");
  EXPECT_THROW(transcode(), SystemError);
}

}  // namespace
}  // namespace lagom::graph
