#include "lagom/cost_model/classifier.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "lagom/cost_model/class_trainer.h"
#include "lagom/graph/random_families.h"
#include "lagom/util/error.h"
#include "lagom/util/file.h"
#include "tests/testing/command.h"

namespace lagom::cost_model {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class ClassifierTest : public ::testing::Test {
 protected:
  ClassifierTest() {
    options_.steps = 40;
    options_.graphs_per_step = 3;
    options_.eval_every = 20;
    options_.model = {.width = 16, .dropout = 0.1};
    options_.segments = {.method = SegmentMethod::kContiguous, .max_nodes = 250};
    options_.schedule.learning_rate = 1e-2;
    for (size_t family = 0; family < 3; ++family) {
      for (uint64_t seed = 0; seed < 4; ++seed) {
        graphs_.push_back(
            graph::random_family_graph({.family = static_cast<graph::GrowthLaw>(family),
                                        .num_nodes = 600,
                                        .purity = 0.9,
                                        .seed = seed}));
        labels_.push_back(static_cast<int64_t>(family));
      }
    }
  }

  std::vector<ClassGraph> prepared(const SegmentOptions& segments) const {
    std::vector<ClassGraph> out;
    for (size_t i = 0; i < graphs_.size(); ++i) {
      out.push_back({.path = std::to_string(i),
                     .prepared = prepare_edge_list(graphs_[i], std::to_string(i), segments),
                     .label = labels_[i]});
    }
    return out;
  }
  RunResult run(const std::string& name, bool resume = false, const StopCheck& stop = {}) const {
    const auto graphs = prepared(options_.segments);
    return train_classifier(options_, graphs, graphs, {"a", "b", "c"}, 5, folder_ / name, resume,
                            stop);
  }
  std::string log(const std::string& name) const {
    std::string out;
    std::istringstream lines(read_file(folder_ / (name + "/log.jsonl")));
    for (std::string line; std::getline(lines, line);) {
      out += line.substr(0, line.find("\"seconds\"")) + "\n";
    }
    return out;
  }

  testing::TemporaryFolder folder_;
  std::vector<graph::EdgeListGraph> graphs_;
  std::vector<int64_t> labels_;
  ClassTrainOptions options_;
};

TEST_F(ClassifierTest, LearnsFamiliesFromSegments) {
  options_.steps = 120;
  EXPECT_GE(run("a").best_metric, 11.0 / 12);
  const TrainedClassifier model = TrainedClassifier::load(folder_ / "a/best.safetensors");
  EXPECT_EQ(model.classes(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_GE(evaluate_classifier(model, prepared(model.segment_options())).accuracy(), 11.0 / 12);
}

TEST_F(ClassifierTest, AStoppedAndResumedRunIsTheRunThatWasNot) {
  options_.segments.finetune_share = 0.3;
  run("whole");
  for (const int stop : {10, 29, 35}) {
    const std::string parts = "parts" + std::to_string(stop);
    int asked = 0;
    EXPECT_TRUE(run(parts, false, [&] { return ++asked == stop; }).was_stopped);
    run(parts, true);
    EXPECT_EQ(log(parts), log("whole"));
    const tensor::TensorFile a = tensor::load_tensors(folder_ / "whole/last.safetensors");
    const tensor::TensorFile b = tensor::load_tensors(folder_ / (parts + "/last.safetensors"));
    for (const auto& [name, value] : a.tensors) EXPECT_TRUE(at::equal(value, b.find(name))) << name;
  }
}

TEST_F(ClassifierTest, WholeGraphsAreOneSegmentOrNone) {
  const auto network = make_classifier_network(options_.model, 3, 1);
  SegmentOptions one = options_.segments;
  one.max_nodes = 600;
  const PreparedGraphPtr whole = prepare_edge_list(graphs_[0], "g", {});
  const PreparedGraphPtr cut = prepare_edge_list(graphs_[0], "g", one);
  ASSERT_EQ(cut->segments.size(), 1u);
  const at::Tensor a = network->forward(classifier_batch(whole), {});
  const at::Tensor b =
      SegmentedNetwork(*network, one)
          .forward(*cut, classifier_batch(cut),
                   [&](int64_t s) {
                     return classifier_batch(cut->segments[static_cast<size_t>(s)].graph);
                   },
                   {});
  EXPECT_TRUE(at::equal(a, b));
  EXPECT_EQ(a.sizes(), (std::vector<int64_t>{1, 3}));
}

TEST_F(ClassifierTest, FoldersOfAnotherClassAreRefused) {
  write_file(folder_ / "train/a/x.edgelist", "0 1\n");
  write_file(folder_ / "test/z/x.edgelist", "0 1\n");
  EXPECT_EQ(classes_below({folder_ / "train"}, 1), std::vector<std::string>{"a"});
  EXPECT_EQ(open_class_graphs({folder_ / "train"}, 1, {"a"}, {}).size(), 1u);
  EXPECT_THAT([&] { open_class_graphs({folder_ / "test"}, 1, {"a"}, {}); },
              ThrowsMessage<FormatError>(HasSubstr("'z' is no class of the model")));
}

TEST_F(ClassifierTest, ModelFilesThatAreNoneAreRefused) {
  tensor::save_tensors(folder_ / "other.safetensors", {}, {});
  EXPECT_FALSE(TrainedClassifier::is_one(folder_ / "other.safetensors"));
  EXPECT_THROW(TrainedClassifier::load(folder_ / "other.safetensors"), FormatError);
}

TEST_F(ClassifierTest, OptionsOutOfRangeAreNamed) {
  const auto message_of = [](const ClassTrainOptions& options) {
    try {
      options.validate();
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  options_.steps = 0;
  EXPECT_THAT(message_of(options_), HasSubstr("steps: expected at least 1"));
  options_.steps = 1;
  options_.model.width = 0;
  EXPECT_THAT(message_of(options_), HasSubstr("model.width"));
}

}  // namespace
}  // namespace lagom::cost_model
