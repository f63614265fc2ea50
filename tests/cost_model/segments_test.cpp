#include "lagom/cost_model/segments.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "lagom/cost_model/losses.h"
#include "lagom/cost_model/segment_training.h"
#include "tests/cost_model/synthetic_graph.h"

namespace lagom::cost_model {
namespace {

using ::testing::HasSubstr;
using testing::SyntheticGraph;
using ::testing::ThrowsMessage;

/// A graph of blocks of nodes, without edges between blocks unless `is_joined`, with a network in
/// double.
struct Case {
  explicit Case(ModelKind kind, SegmentOptions segments, bool is_joined = false,
                int64_t num_nodes = 12, int64_t block = 4)
      : graph({.num_nodes = num_nodes,
               .num_config_nodes = std::min<int64_t>(4, num_nodes),
               .has_forms = kind == ModelKind::kOurs,
               .has_flags = kind == ModelKind::kOurs,
               .is_tile = kind == ModelKind::kEarlyJoin || kind == ModelKind::kLateJoin}),
        options(segments) {
    std::vector<int64_t> edges;
    for (size_t e = 0; e < graph.edges.size(); e += 2) {
      if (!is_joined && graph.edges[e] / block != graph.edges[e + 1] / block) continue;
      edges.insert(edges.end(), {graph.edges[e], graph.edges[e + 1]});
    }
    graph.edges = edges;
    data = view_graph(graph.view());
    const DataOptions data_options = {
        .reduction = {.kind = ReductionKind::kNone}, .position_steps = 3, .link_hops = 4};
    normalization = fit_normalization({{.data = data}}, NodeTransform::kStandardize);
    whole = prepare_graph(*data, normalization, data_options);
    cut = cut_graph(whole, options);
    configs.resize(static_cast<size_t>(graph.num_configs));
    std::iota(configs.begin(), configs.end(), 0);
    network = make_network({.kind = kind,
                            .width = 16,
                            .graph_widths = {16, 8},
                            .opcode_channels = 3,
                            .layout_channels = 2,
                            .form_channels = 3,
                            .message_width = 5,
                            .node_channels = 4,
                            .dropout = 0.2,
                            .instance_norm = false},
                           {.format = data->format, .position_columns = 3, .has_agreement = true},
                           5, at::kDouble);
  }

  SegmentedSample sample(const SegmentPlan& plan) const {
    return {.configs = configs,
            .prepared = cut.get(),
            .plan = &plan,
            .whole = make_whole_batch(cut, data->read(configs), normalization),
            .batch_of = [this](int64_t segment) {
              return segment_batch(*cut, *data, configs, segment, normalization);
            }};
  }
  HistoryTable history(const HistoryOptions& of = {}) const {
    return HistoryTable({{.num_configs = graph.num_configs, .num_segments = num_segments()}},
                        SegmentedNetwork(*network, options).num_columns(), at::kDouble, of);
  }
  int64_t num_segments() const { return static_cast<int64_t>(cut->segments.size()); }
  /// [C] of a step, with dropout.
  at::Tensor step(const SegmentPlan& plan, HistoryTable* history = nullptr, int64_t number = 0,
                  bool is_training = true) const {
    StaleReport report;
    return segmented_costs(*network, options, sample(plan),
                           {.is_training = is_training, .dropout_seed = 11}, history, number,
                           report);
  }
  at::Tensor whole_costs(bool is_training) const {
    return network->forward(make_batch(whole, data->read(configs), normalization),
                            {.is_training = is_training, .dropout_seed = 11});
  }
  at::Tensor loss(const at::Tensor& costs) const {
    const at::Tensor runtimes = at::tensor(graph.runtimes, at::kDouble) / 100;
    return ranking_loss(costs, runtimes, at::zeros_like(runtimes), {.hinge = 0, .list_mle = 1});
  }
  /// Gradients of all parameters, after which there are none.
  std::vector<at::Tensor> gradients_of(const at::Tensor& costs) const {
    const at::Tensor value = loss(costs);
    value.backward();
    std::vector<at::Tensor> gradients = {value.detach()};
    for (const auto& [name, parameter] : network->parameters()) {
      gradients.push_back(parameter.grad().defined() ? parameter.grad().clone()
                                                     : at::zeros_like(parameter));
      parameter.mutable_grad() = at::Tensor();
    }
    return gradients;
  }
  at::Tensor encode(int64_t segment) const {
    const at::NoGradGuard guard;
    return SegmentedNetwork(*network, options)
        .encode(segment_batch(*cut, *data, configs, segment, normalization), {});
  }

  SyntheticGraph graph;
  SegmentOptions options;
  std::shared_ptr<const GraphData> data;
  Normalization normalization;
  PreparedGraphPtr whole, cut;
  std::vector<int64_t> configs;
  std::unique_ptr<Network> network;
};

constexpr ModelKind kKinds[] = {
    ModelKind::kEarlyJoin,  ModelKind::kLateJoin,    ModelKind::kLayoutResnet, ModelKind::kMlp,
    ModelKind::kFirstPlace, ModelKind::kSecondPlace, ModelKind::kThirdPlace,   ModelKind::kOurs};

std::string_view name_of(ModelKind kind) {
  return option_names(kind)[static_cast<size_t>(kind)];
}

SegmentOptions contiguous(int64_t max_nodes) {
  return {.method = SegmentMethod::kContiguous,
          .max_nodes = max_nodes,
          .others = OtherSegments::kFresh,
          .keep_probability = 1};
}

TEST(SegmentsTest, OneSegmentIsTheWholeGraphBitForBit) {
  for (const ModelKind kind : kKinds) {
    for (const SegmentMethod method : {SegmentMethod::kMetis, SegmentMethod::kContiguous}) {
      SegmentOptions options = contiguous(12);
      options.method = method;
      options.others = OtherSegments::kHistory;
      options.keep_probability = 0.5;
      const Case c(kind, options, /*is_joined=*/true);
      ASSERT_EQ(c.num_segments(), 1);
      HistoryTable history = c.history();
      const SegmentPlan plan = plan_segments(1, options, 1, 0);
      const at::Tensor costs = c.step(plan, &history), expected = c.whole_costs(true);
      EXPECT_TRUE(at::equal(costs, expected)) << name_of(kind);
      const auto gradients = c.gradients_of(costs), expected_gradients = c.gradients_of(expected);
      for (size_t i = 0; i < gradients.size(); ++i) {
        EXPECT_TRUE(at::equal(gradients[i], expected_gradients[i])) << name_of(kind) << " " << i;
      }
    }
  }
}

/// Linear attention sees the nodes of a segment alone, so the 3rd place's is left out.
TEST(SegmentsTest, AllSegmentsOfAGraphWithoutEdgesBetweenThemGiveTheWhole) {
  for (const ModelKind kind : kKinds) {
    if (kind == ModelKind::kThirdPlace) continue;
    SegmentOptions options = contiguous(4);
    options.sampled = 3;
    const Case c(kind, options);
    ASSERT_EQ(c.num_segments(), 3);
    ASSERT_EQ(c.cut->cut_edges, 0);
    const SegmentPlan plan = plan_segments(3, options, 1, 0);
    EXPECT_THAT(plan.weights, ::testing::Each(1.0));
    // Dropout would fall on other places.
    const auto gradients = c.gradients_of(c.step(plan, nullptr, 0, /*is_training=*/false));
    const auto expected = c.gradients_of(c.whole_costs(/*is_training=*/false));
    for (size_t i = 0; i < gradients.size(); ++i) {
      EXPECT_TRUE(at::allclose(gradients[i], expected[i], 1e-9, 1e-11))
          << name_of(kind) << " " << i;
    }
  }
}

TEST(SegmentsTest, EdgesBetweenSegmentsAreCountedAndInNone) {
  const Case c(ModelKind::kOurs, contiguous(4), /*is_joined=*/true);
  int64_t within = 0, nodes = 0, configs = 0;
  for (const GraphSegment& segment : c.cut->segments) {
    within += segment.graph->to_users->num_edges();
    nodes += segment.graph->num_nodes;
    configs += segment.graph->num_config_nodes;
  }
  EXPECT_GT(c.cut->cut_edges, 0);
  EXPECT_EQ(within + c.cut->cut_edges, c.whole->to_users->num_edges());
  EXPECT_EQ(nodes, 12);
  EXPECT_EQ(configs, 4);
}

/// Features and edges go with their nodes, whatever the order that METIS gives.
TEST(SegmentsTest, SegmentsAreTheNodesOfTheGraph) {
  SegmentOptions options = contiguous(5);
  options.method = SegmentMethod::kMetis;
  const Case c(ModelKind::kSecondPlace, options, /*is_joined=*/true, 60);
  at::Tensor sum = at::zeros_like(c.whole->node_feat.sum(0));
  for (const GraphSegment& segment : c.cut->segments) {
    EXPECT_LE(segment.graph->num_nodes, 5);
    sum += segment.graph->node_feat.sum(0);
    for (int64_t i = 0; i < segment.graph->num_config_nodes; ++i) {
      const int64_t inside = segment.graph->config_nodes[i].item<int64_t>();
      const int64_t place = segment.config_places[static_cast<size_t>(i)];
      const int64_t outside = c.whole->config_nodes[place].item<int64_t>();
      EXPECT_TRUE(at::equal(segment.graph->node_feat[inside], c.whole->node_feat[outside]));
    }
  }
  EXPECT_TRUE(at::allclose(sum, c.whole->node_feat.sum(0), 1e-4, 1e-4));
}

TEST(SegmentsTest, TheWeightsOfASegmentAverageToOne) {
  constexpr int64_t kSegments = 7, kDraws = 20000;
  for (const int64_t sampled : {1, 2, 7, 9}) {
    for (const double p : {0.0, 0.3, 1.0}) {
      SegmentOptions options = contiguous(4);
      options.sampled = sampled;
      options.keep_probability = p;
      std::vector<double> sums(kSegments, 0);
      double total = 0;
      for (int64_t i = 0; i < kDraws; ++i) {
        const SegmentPlan plan = plan_segments(kSegments, options, 3, i);
        EXPECT_EQ(std::ssize(plan.sampled), std::min(sampled, kSegments));
        for (size_t s = 0; s < sums.size(); ++s) sums[s] += plan.weights[s];
        total += std::accumulate(plan.weights.begin(), plan.weights.end(), 0.0);
      }
      // The variance of one weight is below J / S; four deviations.
      const double bound = 4 * std::sqrt(double{kSegments} / static_cast<double>(sampled) / kDraws);
      EXPECT_NEAR(total / kDraws, kSegments, kSegments * bound) << sampled << " " << p;
      for (const double sum : sums) EXPECT_NEAR(sum / kDraws, 1, bound) << sampled << " " << p;
    }
  }
}

TEST(SegmentsTest, KeepProbabilityOneIsThePlainHistory) {
  SegmentOptions options = contiguous(4);
  options.others = OtherSegments::kHistory;
  EXPECT_THAT(plan_segments(9, options, 1, 5).weights, ::testing::Each(1.0));
}

TEST(SegmentsTest, KeepProbabilityZeroIsGstOneScaled) {
  for (const SegmentHead head : {SegmentHead::kGraph, SegmentHead::kSegment}) {
    SegmentOptions dropped = contiguous(4);
    dropped.keep_probability = 0;
    dropped.aggregation = Aggregation::kSum;
    dropped.head = head;
    SegmentOptions one = dropped;
    one.others = OtherSegments::kNone;
    // The 2nd place's cost is the sum itself: J / S = 3 shows.
    const Case with_dropout(ModelKind::kSecondPlace, dropped), alone(ModelKind::kSecondPlace, one);
    const at::Tensor a = with_dropout.step(plan_segments(3, dropped, 1, 4));
    const at::Tensor b = alone.step(plan_segments(3, one, 1, 4));
    EXPECT_TRUE(at::allclose(a, 3 * b, 1e-12, 1e-12));
  }
}

TEST(SegmentsTest, GstOneOfMeansIsTheMeanOfTheSampled) {
  SegmentOptions options = contiguous(4);
  options.others = OtherSegments::kNone;
  options.sampled = 2;
  for (const Aggregation aggregation : {Aggregation::kMean, Aggregation::kPooling}) {
    options.aggregation = aggregation;
    const Case c(ModelKind::kFirstPlace, options);
    const SegmentPlan plan = plan_segments(3, options, 1, 0);
    const SegmentedNetwork network(*c.network, c.options);
    SegmentedNetwork::Sum sum(network, *c.cut, plan.weights);
    for (const int64_t segment : plan.sampled) sum.add(segment, c.encode(segment));
    const at::Tensor expected = (c.encode(plan.sampled[0]) + c.encode(plan.sampled[1])) / 2;
    EXPECT_TRUE(at::allclose(sum.value(), expected, 1e-12, 1e-12));
  }
}

TEST(SegmentsTest, FreshOthersGiveTheCostsOfAllSegments) {
  const Case c(ModelKind::kOurs, contiguous(3), /*is_joined=*/true);
  const SegmentPlan plan = plan_segments(4, c.options, 1, 0);
  const at::Tensor costs = c.step(plan, nullptr, 0, /*is_training=*/false);
  const SegmentedSample sample = c.sample(plan);
  const at::Tensor all =
      SegmentedNetwork(*c.network, c.options).forward(*c.cut, sample.whole, sample.batch_of, {});
  EXPECT_TRUE(at::equal(costs, all));
}

TEST(SegmentsTest, OfAFrozenNetworkTheHistoryBecomesTheFreshEmbeddings) {
  for (const SegmentHead head : {SegmentHead::kGraph, SegmentHead::kSegment}) {
    SegmentOptions options = contiguous(3);
    options.others = OtherSegments::kHistory;
    options.warm_start = WarmStart::kZeros;
    options.aggregation = Aggregation::kSum;
    options.head = head;
    const Case c(ModelKind::kFirstPlace, options, /*is_joined=*/true);
    HistoryTable history = c.history();
    const at::Tensor first = c.step(plan_segments(4, options, 1, 0), &history, 0, false);
    for (int64_t i = 1; i < 40; ++i) c.step(plan_segments(4, options, 1, i), &history, i, false);
    for (int64_t s = 0; s < 4; ++s) {
      EXPECT_TRUE(at::equal(history.read(0, c.configs, s), c.encode(s))) << s;
    }
    const at::Tensor last = c.step(plan_segments(4, options, 1, 40), &history, 40, false);
    SegmentOptions fresh = options;
    fresh.others = OtherSegments::kFresh;
    const Case d(ModelKind::kFirstPlace, fresh, /*is_joined=*/true);
    const at::Tensor expected = d.step(plan_segments(4, fresh, 1, 40), nullptr, 0, false);
    EXPECT_TRUE(at::equal(last, expected));
    EXPECT_FALSE(at::allclose(first, expected));  // zeros at the start
  }
}

TEST(SegmentsTest, AWarmStartHasNoZeros) {
  SegmentOptions options = contiguous(3);
  options.others = OtherSegments::kHistory;
  const Case c(ModelKind::kFirstPlace, options, /*is_joined=*/true);
  const SegmentPlan plan = plan_segments(4, options, 1, 0);
  HistoryTable lazy = c.history(), filled = c.history();
  fill_history(*c.network, options, c.sample(plan), {}, filled, 0);
  EXPECT_EQ(filled.num_entries(), 4 * c.graph.num_configs);
  const at::Tensor a = c.step(plan, &lazy, 0, false), b = c.step(plan, &filled, 0, false);
  EXPECT_TRUE(at::equal(a, b));
  EXPECT_EQ(lazy.num_entries(), 4 * c.graph.num_configs);
}

TEST(SegmentsTest, AgesAreStepsSinceAnEmbeddingWasMade) {
  SegmentOptions options = contiguous(6);
  options.others = OtherSegments::kHistory;
  const Case c(ModelKind::kSecondPlace, options);
  HistoryTable history = c.history();
  fill_history(*c.network, options, c.sample({}), {}, history, 2);
  const SegmentPlan plan = {.sampled = {1}, .weights = {1, 1}};
  StaleReport report;
  segmented_costs(*c.network, options, c.sample(plan), {}, &history, 9, report);
  EXPECT_EQ(report.used, 6);
  EXPECT_EQ(report.missing, 0);
  EXPECT_EQ(report.age_sum, 6 * 7);
  EXPECT_EQ(report.age_max, 7);
  EXPECT_EQ(history.step_of(0, 3, 1), 9);
  EXPECT_EQ(history.step_of(0, 3, 0), 2);
}

TEST(SegmentsTest, FinetuningTrainsTheHeadOnTheFrozenEncodersEmbeddings) {
  SegmentOptions options = contiguous(4);
  options.others = OtherSegments::kHistory;
  options.finetune_share = 0.5;
  const Case c(ModelKind::kOurs, options, /*is_joined=*/true);
  SegmentTraining training(*c.network, options, 10, {c.cut}, {c.graph.num_configs}, at::kDouble,
                           {});
  EXPECT_FALSE(training.is_finetuning(4));
  EXPECT_TRUE(training.begins_finetuning(5));
  training.begin_finetuning();
  const SegmentPlan plan = plan_segments(3, options, 1, 0);
  const SegmentedSample sample = c.sample(plan);
  const at::Tensor all =
      SegmentedNetwork(*c.network, options).forward(*c.cut, sample.whole, sample.batch_of, {});
  for (int64_t step = 5; step < 7; ++step) {
    const at::Tensor costs = training.costs(sample, {.is_training = true}, step);
    EXPECT_TRUE(at::equal(costs, all));
    c.loss(costs).backward();
  }
  for (const auto& [name, parameter] : c.network->parameters()) {
    const bool has_gradient =
        parameter.grad().defined() && parameter.grad().abs().max().item<double>() > 0;
    EXPECT_EQ(has_gradient, name.starts_with("head") || name.starts_with("token")) << name;
  }
  const auto groups = parameter_groups(*c.network, options, 0);
  EXPECT_EQ(groups[0].parameters.size() + groups[1].parameters.size(),
            c.network->parameters().size());
}

TEST(SegmentsTest, SingleNodesAndDisconnectedGraphsAreCut) {
  for (const SegmentMethod method :
       {SegmentMethod::kMetis, SegmentMethod::kContiguous, SegmentMethod::kComputation}) {
    SegmentOptions options = contiguous(1);
    options.method = method;
    for (const int64_t nodes : {1, 7}) {
      Case c(ModelKind::kFirstPlace, options, /*is_joined=*/false, nodes, /*block=*/1);
      EXPECT_EQ(c.num_segments(), nodes);
      const SegmentPlan plan = plan_segments(nodes, options, 1, 0);
      EXPECT_TRUE(c.step(plan).isfinite().all().item<bool>());
    }
  }
}

TEST(SegmentsTest, WhatDoesNotGoTogetherIsRefused) {
  const auto message_of = [](const SegmentOptions& options) {
    try {
      options.validate();
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_THAT(message_of(contiguous(0)), HasSubstr("segments.max_nodes: expected at least 1"));
  SegmentOptions options = contiguous(4);
  options.keep_probability = 1.5;
  EXPECT_THAT(message_of(options), HasSubstr("segments.keep_probability"));
  options = contiguous(4);
  options.head = SegmentHead::kSegment;
  EXPECT_THAT(message_of(options), HasSubstr("segments.aggregation"));
  options.aggregation = Aggregation::kSum;
  EXPECT_EQ(message_of(options), "none");
  options.finetune_share = 0.2;
  EXPECT_THAT(message_of(options), HasSubstr("segments.finetune_share"));
  options.method = SegmentMethod::kNone;
  EXPECT_EQ(message_of(options), "none");  // nothing of it is used
}

TEST(SegmentsTest, ANetworkWithoutAHeadIsNotFinetuned) {
  SegmentOptions options = contiguous(4);
  options.finetune_share = 0.2;
  const Case c(ModelKind::kSecondPlace, options);
  EXPECT_THAT([&] { parameter_groups(*c.network, options, 0); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("no parameters behind its pooling")));
}

}  // namespace
}  // namespace lagom::cost_model
