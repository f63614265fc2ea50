#include "lagom/cost_model/trainer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "lagom/cost_model/class_trainer.h"
#include "lagom/util/error.h"
#include "lagom/util/file.h"
#include "lagom/util/options.h"
#include "tests/cost_model/synthetic_graph.h"
#include "tests/testing/command.h"
#include "tests/testing/data.h"

namespace lagom::cost_model {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::SyntheticGraph;
using ::testing::ThrowsMessage;

class TrainerTest : public ::testing::Test {
 protected:
  TrainerTest() {
    for (unsigned seed = 1; seed <= 3; ++seed) {
      owners_.push_back(std::make_unique<SyntheticGraph>(SyntheticGraph::Options{
          .num_configs = 40, .has_forms = true, .has_flags = true, .seed = seed}));
      graphs_.push_back(labeled(*owners_.back()));
    }
    options_.model = {.width = 16,
                      .linear_layers = 1,
                      .graph_layers = 1,
                      .trunk_layers = 1,
                      .opcode_channels = 4,
                      .dropout = 0.1};
    options_.data = {.reduction = {.kind = ReductionKind::kContract}, .link_hops = 4};
    options_.steps = 12;
    options_.configs = 16;
    options_.eval_every = 4;
    options_.average_decay = 0.9;
  }

  static LabeledGraph labeled(const SyntheticGraph& graph) {
    Labels labels{.runtimes = graph.runtimes, .all_runtimes = graph.runtimes};
    labels.rows.resize(graph.runtimes.size());
    std::iota(labels.rows.begin(), labels.rows.end(), 0);
    return {.data = view_graph(graph.view()), .labels = labels};
  }
  RunResult run(const std::string& name, bool resume = false, const StopCheck& stop = {}) const {
    return train_model(options_, graphs_, {graphs_[0]}, 5, folder_ / name, resume, stop);
  }
  /// The log without what differs between runs, the seconds.
  std::string log(const std::string& name) const {
    std::string out;
    std::istringstream lines(read_file(fs::path(folder_ / name) / "log.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      out += line.substr(0, line.find("\"seconds\"")) + "\n";
    }
    return out;
  }

  testing::TemporaryFolder folder_;
  std::vector<std::unique_ptr<SyntheticGraph>> owners_;
  std::vector<LabeledGraph> graphs_;
  TrainOptions options_;
};

TEST_F(TrainerTest, AStoppedAndResumedRunIsTheRunThatWasNot) {
  run("whole");
  int asked = 0;
  EXPECT_TRUE(run("parts", false, [&] { return ++asked == 6; }).was_stopped);
  const RunResult result = run("parts", true);

  EXPECT_EQ(result.steps, 12);
  EXPECT_EQ(log("parts"), log("whole"));
  const tensor::TensorFile a = tensor::load_tensors(folder_ / "whole/last.safetensors");
  const tensor::TensorFile b = tensor::load_tensors(folder_ / "parts/last.safetensors");
  for (const auto& [name, value] : a.tensors) EXPECT_TRUE(at::equal(value, b.find(name))) << name;
}

/// With a history too small for all, so that entries are replaced, and with finetuning.
TEST_F(TrainerTest, AResumedRunWithSegmentsHasTheHistoryOfOneThatWasNotStopped) {
  options_.segments = {.method = SegmentMethod::kMetis, .max_nodes = 5, .finetune_share = 0.25};
  options_.data.reduction.kind = ReductionKind::kNone;
  int number = 0;
  for (const HistoryOptions& history :
       {HistoryOptions{.max_bytes = 60 * (48 * 4 + 48)},
        HistoryOptions{.storage = HistoryStorage::kDense, .is_mapped = true}}) {
    options_.segments.history = history;
    const std::string whole = "whole" + std::to_string(number);
    run(whole);
    for (const int stop : {6, 10, 11}) {  // before, at and in finetuning
      const std::string parts = "parts" + std::to_string(number++);
      int asked = 0;
      EXPECT_TRUE(run(parts, false, [&] { return ++asked == stop; }).was_stopped);
      run(parts, true);
      EXPECT_EQ(log(parts), log(whole));
      const tensor::TensorFile a = tensor::load_tensors(folder_ / (whole + "/last.safetensors"));
      const tensor::TensorFile b = tensor::load_tensors(folder_ / (parts + "/last.safetensors"));
      EXPECT_GT(a.find("history.keys").numel(), 0);
      for (const auto& [name, value] : a.tensors)
        EXPECT_TRUE(at::equal(value, b.find(name))) << name;
    }
  }
  EXPECT_THAT(log("whole0"), HasSubstr("stale_age_max"));
}

/// Of a network that does not change, every entry is its own graph's embedding.
TEST_F(TrainerTest, AStepOfSeveralGraphsStoresEachOnesOwnRows) {
  options_.segments = {.method = SegmentMethod::kContiguous, .max_nodes = 5, .keep_probability = 1};
  options_.graphs_per_step = 3;
  options_.average_decay = 0;
  options_.model.dropout = 0;
  options_.schedule.learning_rate = 1e-30;
  run("a");
  const TrainedModel model = TrainedModel::load(folder_ / "a/best.safetensors");
  const tensor::TensorFile file = tensor::load_tensors(folder_ / "a/last.safetensors");
  const at::Tensor keys = file.find("history.keys"), values = file.find("history.values");
  ASSERT_GT(keys.numel(), 100);
  int64_t first = 0;
  for (const LabeledGraph& graph : graphs_) {
    const PreparedGraphPtr cut = model.prepare(*graph.data);
    const auto segments = static_cast<int64_t>(cut->segments.size());
    std::vector<int64_t> all(40);
    std::iota(all.begin(), all.end(), 0);
    std::vector<at::Tensor> fresh;
    for (int64_t s = 0; s < segments; ++s) {
      const at::NoGradGuard no_gradients;
      fresh.push_back(model.network().embed(
          segment_batch(*cut, *graph.data, all, s, model.normalization()), {}));
    }
    for (int64_t i = 0; i < keys.numel(); ++i) {
      const int64_t key = keys[i].item<int64_t>() - first;
      if (key < 0 || key >= 40 * segments) continue;
      const at::Tensor expected = fresh[static_cast<size_t>(key % segments)][key / segments];
      ASSERT_TRUE(at::allclose(values[i], expected, 1e-4, 1e-5)) << key;
    }
    first += 40 * segments;
  }
}

TEST_F(TrainerTest, SegmentsRankAnOverfitGraphRight) {
  graphs_.resize(1);
  options_.segments = {.method = SegmentMethod::kMetis, .max_nodes = 4};
  options_.steps = 200;
  options_.eval_every = 100;
  options_.configs = 40;
  options_.average_decay = 0;
  options_.model.dropout = 0;
  options_.schedule.learning_rate = 1e-2;
  EXPECT_GT(run("overfit").best_metric, 0.95);
  TrainedModel model = TrainedModel::load(folder_ / "overfit/best.safetensors");
  EXPECT_EQ(model.segment_options().max_nodes, 4);
  const std::vector<double> costs = model.costs(*graphs_[0].data, {});
  const std::vector<double> chunked = model.costs(*graphs_[0].data, {.max_bytes = 1});
  for (size_t i = 0; i < costs.size(); ++i) EXPECT_NEAR(costs[i], chunked[i], 1e-4);
  model.ask_whole_graphs();
  EXPECT_NE(model.costs(*graphs_[0].data, {}), costs);
}

TEST_F(TrainerTest, AHistoryNeedsANetworkThatDoesNotCompare) {
  options_.segments = {.method = SegmentMethod::kContiguous, .max_nodes = 5};
  options_.model.cross_config = true;
  EXPECT_THAT([&] { run("a"); }, ThrowsMessage<std::invalid_argument>(HasSubstr("cross_config")));
  options_.segments.others = OtherSegments::kFresh;
  EXPECT_EQ(run("b").steps, 12);
}

TEST_F(TrainerTest, AHistoryPastItsBoundIsRefused) {
  options_.segments = {.method = SegmentMethod::kContiguous, .max_nodes = 5};
  options_.segments.history = {.storage = HistoryStorage::kDense, .max_bytes = 1000};
  EXPECT_THAT([&] { run("a"); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("the bound is 1000 bytes")));
}

TEST_F(TrainerTest, AnOverfitGraphIsRankedRight) {
  graphs_.resize(1);
  options_.steps = 150;
  options_.eval_every = 50;
  options_.configs = 40;
  options_.average_decay = 0;
  options_.model.dropout = 0;
  options_.schedule.learning_rate = 1e-2;
  EXPECT_DOUBLE_EQ(run("overfit").best_metric, 1);
}

TEST_F(TrainerTest, AModelFileGivesTheCostsOfTheModel) {
  run("a");
  const TrainedModel loaded = TrainedModel::load(folder_ / "a/best.safetensors");
  const TrainedModel again = TrainedModel::load(folder_ / "a/best.safetensors");
  EXPECT_EQ(loaded.costs(*graphs_[1].data, {}), again.costs(*graphs_[1].data, {}));
  const std::vector<double> whole = loaded.costs(*graphs_[1].data, {});
  const std::vector<double> chunked = loaded.costs(*graphs_[1].data, {.max_bytes = 1});
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(whole[i], chunked[i], 1e-5);
}

TEST_F(TrainerTest, ARankerRanksGraphsInMemory) {
  run("a");
  std::vector<TrainedModel> models;
  for (int i = 0; i < 2; ++i) models.push_back(TrainedModel::load(folder_ / "a/best.safetensors"));
  const std::vector<double> one = models[0].costs(*graphs_[0].data, {});
  ModelRanker ranker(std::move(models), {});
  const std::vector<double> costs = ranker.costs(owners_[0]->view());
  EXPECT_EQ(rank::order_by_score(costs), rank::order_by_score(one));
  EXPECT_NEAR(std::accumulate(costs.begin(), costs.end(), 0.0), 0, 1e-6);
}

TEST_F(TrainerTest, ModelFilesThatAreNoneAreRefused) {
  run("a");
  const std::string path = folder_ / "a/best.safetensors";
  const std::string bytes = read_file(path);
  write_file(folder_ / "cut.safetensors", bytes.substr(0, bytes.size() / 2));
  EXPECT_THROW(TrainedModel::load(folder_ / "cut.safetensors"), FormatError);
  tensor::save_tensors(folder_ / "other.safetensors", {}, {});
  EXPECT_THAT([&] { TrainedModel::load(folder_ / "other.safetensors"); },
              ThrowsMessage<FormatError>(HasSubstr("is no cost model")));
}

TEST_F(TrainerTest, OtherOptionsDoNotResume) {
  run("a");
  options_.model.dropout = 0.3;
  EXPECT_THAT([&] { run("a", true); },
              ThrowsMessage<FormatError>(HasSubstr("begun with other options")));
}

TEST_F(TrainerTest, ANanStopsWithStepAndGraph) {
  options_.steps = 3;
  options_.eval_every = 3;
  options_.optimizer.clip_norm = 0;
  options_.schedule = {.learning_rate = 1e30, .warmup_share = 0};
  EXPECT_THAT([&] { run("nan"); }, ThrowsMessage<std::runtime_error>(::testing::AllOf(
                                       HasSubstr("graph synthetic"), HasSubstr("not finite"))));
}

TEST_F(TrainerTest, EqualRuntimesTrainWithoutHarm) {
  owners_[0]->runtimes.assign(owners_[0]->runtimes.size(), 5.0);
  graphs_ = {labeled(*owners_[0])};
  EXPECT_EQ(run("equal").last_loss, 0);
}

TEST_F(TrainerTest, PatienceEndsARun) {
  options_.steps = 1000;
  options_.eval_every = 1;
  options_.patience = 2;
  options_.schedule.learning_rate = 1e-9;
  EXPECT_LT(run("patient").steps, 1000);
}

TEST_F(TrainerTest, AComparingNetworkIsAskedInEqualChunks) {
  options_.model.cross_config = true;
  run("a");
  const TrainedModel model = TrainedModel::load(folder_ / "a/best.safetensors");
  const GraphData& graph = *graphs_[0].data;
  const PreparedGraphPtr prepared = prepare_graph(graph, model.normalization(), options_.data);
  std::vector<int64_t> all(40);
  std::iota(all.begin(), all.end(), 0);
  const auto of = [&](size_t first, size_t count) {
    return model.costs(graph, *prepared, std::span(all).subspan(first, count), {});
  };
  std::vector<double> halves = of(0, 20);
  const std::vector<double> second = of(20, 20);
  halves.insert(halves.end(), second.begin(), second.end());
  EXPECT_EQ(model.costs(graph, {.compared_configs = 25}), halves);
}

TEST(SampleTest, EveryGraphComesOnceARound) {
  std::vector<TrainingGraph> graphs(5);
  for (TrainingGraph& graph : graphs) {
    graph.source.labels.emplace();
    graph.source.labels->rows.resize(30);
  }
  std::vector<std::vector<size_t>> rounds;
  for (int64_t round = 0; round < 2; ++round) {
    std::vector<size_t> seen;
    for (int64_t i = 0; i < 5; ++i) {
      const Sample sample = sample_at(graphs, {.configs = 10, .seed = 3}, round * 5 + i);
      seen.push_back(sample.graph);
      EXPECT_EQ(sample.picks.size(), 10u);
      EXPECT_TRUE(std::is_sorted(sample.picks.begin(), sample.picks.end(), std::less_equal<>()));
      EXPECT_LT(sample.picks.back(), 30);
    }
    rounds.push_back(seen);
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(seen, (std::vector<size_t>{0, 1, 2, 3, 4}));
  }
  EXPECT_NE(rounds[0], rounds[1]);
}

TEST(SampleTest, MoreConfigurationsComeOftenerByRequest) {
  std::vector<TrainingGraph> graphs(2);
  for (size_t i = 0; i < 2; ++i) {
    graphs[i].source.labels.emplace();
    graphs[i].source.labels->rows.resize(i == 0 ? 10 : 90);
  }
  int second = 0;
  for (int64_t i = 0; i < 4000; ++i) {
    second += sample_at(graphs, {.configs = 2, .by_num_configs = true}, i).graph == 1;
  }
  EXPECT_NEAR(second, 3000, 4 * 28);  // sqrt(90) : sqrt(10) = 3 : 1; deviation sqrt(4000 * 3 / 16)
}

TEST(TrainOptionsTest, EveryConfigurationFileIsRead) {
  int count = 0;
  const fs::path folder = testing::data_folder().parent_path() / "configs/cost_model";
  for (const auto& file : fs::directory_iterator(folder)) {
    TrainOptions options;
    read_options(file.path(), {}, options);
    EXPECT_NO_THROW(options.validate()) << file.path();
    ++count;
  }
  EXPECT_GE(count, 9);
  for (const auto& file : fs::directory_iterator(folder.parent_path() / "gst")) {
    if (peek_option(file.path(), {}, "task") == "classification") {
      ClassTrainOptions options;
      read_options(file.path(), {}, options);
      EXPECT_NO_THROW(options.validate()) << file.path();
    } else {
      TrainOptions options;
      read_options(file.path(), {}, options);
      EXPECT_NO_THROW(options.validate()) << file.path();
    }
  }
  TrainOptions options;
  EXPECT_THROW(options_from_toml("stepps = 3", "x", options), FormatError);
  options.steps = 0;
  try {
    options.validate();
    FAIL() << "no steps were taken for fine";
  } catch (const std::invalid_argument& e) {
    EXPECT_STREQ(e.what(), "steps: expected at least 1, found 0");
  }
}

}  // namespace
}  // namespace lagom::cost_model
