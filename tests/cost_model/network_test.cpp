#include "lagom/cost_model/network.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <numeric>

#include "lagom/cost_model/losses.h"
#include "lagom/util/error.h"
#include "tests/cost_model/synthetic_graph.h"

namespace lagom::cost_model {
namespace {

using testing::SyntheticGraph;

/// A small network of a kind with a batch that it takes.
struct Case {
  Case(ModelKind kind, bool cross_config, at::ScalarType dtype = at::kFloat, bool fused = true,
       int64_t num_configs = 6)
      : graph({.num_configs = num_configs,
               .has_forms = kind == ModelKind::kOurs,
               .has_flags = kind == ModelKind::kOurs || kind == ModelKind::kRewritten,
               .is_tile = kind == ModelKind::kEarlyJoin || kind == ModelKind::kLateJoin,
               .num_graphs = kind == ModelKind::kRewritten ? 4 : 0}) {
    const auto data = view_graph(graph.view());
    const DataOptions options = {
        .reduction = {.kind = ReductionKind::kContract}, .position_steps = 3, .link_hops = 4};
    normalization = fit_normalization({{.data = data}}, NodeTransform::kStandardize);
    std::vector<int64_t> rows(static_cast<size_t>(num_configs));
    std::iota(rows.begin(), rows.end(), 0);
    batch =
        make_batch(prepare_graph(*data, normalization, options), data->read(rows), normalization);
    batch.runtimes = at::tensor(graph.runtimes, at::kDouble) / 100;
    batch.uncertainties = at::zeros_like(batch.runtimes);
    ModelOptions model = {.kind = kind,
                          .width = 16,
                          .graph_widths = {16, 8},
                          .opcode_channels = 3,
                          .layout_channels = 2,
                          .form_channels = 3,
                          .message_width = 5,
                          .node_channels = 4,
                          .dropout = 0.2,
                          .cross_config = cross_config,
                          .fused = fused};
    network = make_network(
        model, {.format = data->format, .position_columns = 3, .has_agreement = true}, 5, dtype);
  }

  at::Tensor costs(const Batch& of) const {
    at::NoGradGuard guard;
    return network->forward(of, {});
  }

  SyntheticGraph graph;
  Normalization normalization;
  Batch batch;
  std::unique_ptr<Network> network;
};

const std::vector<std::pair<ModelKind, bool>> kAllKinds = {
    {ModelKind::kEarlyJoin, false},    {ModelKind::kLateJoin, false},
    {ModelKind::kLayoutResnet, false}, {ModelKind::kMlp, false},
    {ModelKind::kFirstPlace, false},   {ModelKind::kFirstPlace, true},
    {ModelKind::kSecondPlace, false},  {ModelKind::kThirdPlace, false},
    {ModelKind::kOurs, false},         {ModelKind::kOurs, true},
    {ModelKind::kRewritten, false}};

std::string name_of(const std::pair<ModelKind, bool>& kind) {
  return std::string(option_names(kind.first)[static_cast<size_t>(kind.first)]) +
         (kind.second ? " with cross-configuration attention" : "");
}

TEST(NetworkTest, PermutingConfigurationsPermutesCosts) {
  const at::Tensor order = at::tensor({4, 0, 5, 1, 3, 2}, at::kLong);
  for (const auto& kind : kAllKinds) {
    const Case c(kind.first, kind.second);
    const at::Tensor costs = c.costs(c.batch);
    EXPECT_TRUE(
        at::allclose(c.costs(select_configs(c.batch, order)), costs.index({order}), 1e-5, 1e-6))
        << name_of(kind);
    EXPECT_GT(costs.std(0).item<double>(), 1e-6) << name_of(kind) << " sees no configuration";
  }
}

TEST(NetworkTest, ChunksGiveTheCostsOfTheWholeWhereConfigurationsAreNotCompared) {
  const at::Tensor first = at::tensor({0, 1}, at::kLong),
                   rest = at::tensor({2, 3, 4, 5}, at::kLong);
  for (const auto& kind : kAllKinds) {
    const Case c(kind.first, kind.second);
    EXPECT_EQ(c.network->compares_configs(), kind.second) << name_of(kind);
    const at::Tensor chunked =
        at::cat({c.costs(select_configs(c.batch, first)), c.costs(select_configs(c.batch, rest))});
    EXPECT_EQ(at::allclose(chunked, c.costs(c.batch), 1e-5, 1e-6), !kind.second) << name_of(kind);
  }
}

TEST(NetworkTest, TwoThreadsGiveTheCostsAndGradientsOfOne) {
  for (const auto& kind : kAllKinds) {
    std::vector<std::vector<at::Tensor>> runs;
    for (const int threads : {1, 2}) {
      at::set_num_threads(threads);
      const Case c(kind.first, kind.second);
      const at::Tensor costs =
          c.network->forward(c.batch, {.is_training = true, .dropout_seed = 3});
      ranking_loss(costs, c.batch.runtimes, c.batch.uncertainties, {}).backward();
      runs.push_back({costs});
      for (const auto& [name, value] : c.network->parameters()) {
        runs.back().push_back(value.grad().defined() ? value.grad() : at::zeros_like(value));
      }
    }
    // Linear attention's batched products are the BLAS' own, whose sums depend on its threads.
    const bool is_exact = kind.first != ModelKind::kThirdPlace;
    for (size_t i = 0; i < runs[0].size(); ++i) {
      EXPECT_TRUE(is_exact ? at::equal(runs[0][i], runs[1][i])
                           : at::allclose(runs[0][i], runs[1][i], 1e-4, 1e-5))
          << name_of(kind) << ", tensor " << i;
    }
  }
}

/// The loss of a training step, with dropout.
at::Tensor training_loss(const Case& c) {
  LossOptions loss;
  loss.hinge = 0;
  loss.list_mle = 1;
  return ranking_loss(c.network->forward(c.batch, {.is_training = true, .dropout_seed = 11}),
                      c.batch.runtimes, c.batch.uncertainties, loss);
}

/// A few values of every parameter.
TEST(NetworkTest, GradientsMeetFiniteDifferences) {
  for (const auto& kind : kAllKinds) {
    const Case c(kind.first, kind.second, at::kDouble);
    training_loss(c).backward();
    at::NoGradGuard guard;
    for (const auto& [name, parameter] : c.network->parameters()) {
      ASSERT_TRUE(parameter.grad().defined()) << name_of(kind) << " " << name;
      const at::Tensor gradient = parameter.grad().contiguous();
      auto* x = parameter.mutable_data_ptr<double>();
      const int64_t stride = std::max<int64_t>(1, parameter.numel() / 3);
      for (int64_t i = 0; i < parameter.numel(); i += stride) {
        const double before = x[i], step = 1e-6;
        x[i] = before + step;
        const double up = training_loss(c).item<double>();
        x[i] = before - step;
        const double down = training_loss(c).item<double>();
        x[i] = before;
        const double expected = (up - down) / (2 * step);
        EXPECT_NEAR(gradient.const_data_ptr<double>()[i], expected,
                    2e-6 * std::max(1.0, std::abs(expected)))
            << name_of(kind) << " " << name << " " << i;
      }
    }
  }
}

/// The plain operations in double are the judge.
TEST(NetworkTest, FusedKernelsGradientsEqualThePlainOperations) {
  for (const auto& kind : std::vector<std::pair<ModelKind, bool>>{{ModelKind::kFirstPlace, false},
                                                                  {ModelKind::kFirstPlace, true},
                                                                  {ModelKind::kOurs, false},
                                                                  {ModelKind::kOurs, true}}) {
    for (const int64_t configs : {6, 300}) {  // 300: more than a tile has rows
      const Case fused(kind.first, kind.second, at::kFloat, true, configs);
      const Case plain(kind.first, kind.second, at::kDouble, false, configs);
      const at::Tensor fused_loss = training_loss(fused), plain_loss = training_loss(plain);
      EXPECT_NEAR(fused_loss.item<double>(), plain_loss.item<double>(),
                  1e-5 * std::abs(plain_loss.item<double>()))
          << name_of(kind);
      fused_loss.backward();
      plain_loss.backward();
      double largest = 0;
      for (const auto& [name, parameter] : plain.network->parameters()) {
        largest = std::max(largest, parameter.grad().abs().max().item<double>());
      }
      for (size_t i = 0; i < plain.network->parameters().size(); ++i) {
        const auto& [name, parameter] = plain.network->parameters()[i];
        const at::Tensor expected = parameter.grad();
        const at::Tensor found = fused.network->parameters()[i].second.grad().to(at::kDouble);
        EXPECT_LT((found - expected).abs().max().item<double>(),
                  1e-4 * expected.abs().max().item<double>() + 1e-5 * largest)
            << name_of(kind) << " " << name;
      }
    }
  }
}

TEST(NetworkTest, FusedKernelsGiveThePlainOperationsCosts) {
  for (const bool cross_config : {false, true}) {
    for (const ModelKind kind : {ModelKind::kFirstPlace, ModelKind::kOurs}) {
      const Case fused(kind, cross_config, at::kFloat, true);
      const Case plain(kind, cross_config, at::kFloat, false);
      EXPECT_TRUE(at::allclose(fused.costs(fused.batch), plain.costs(plain.batch), 1e-5, 1e-6));
    }
  }
}

TEST(NetworkTest, Bfloat16DotsStayNearFloat) {
  const Case c(ModelKind::kFirstPlace, false);
  at::NoGradGuard guard;
  const at::Tensor exact = c.network->forward(c.batch, {});
  const at::Tensor rough = c.network->forward(c.batch, {.bf16_dots = true});
  EXPECT_LT((exact - rough).abs().max().item<double>(), 0.1);
  EXPECT_GT((exact - rough).abs().max().item<double>(), 0);
}

TEST(NetworkTest, ConcatenationOfEverythingGivesTheSplitFirstLayersValues) {
  const Case c(ModelKind::kMlp, false, at::kDouble);
  tensor::ParameterStore store(7, at::kDouble);
  const ModelOptions model = {.opcode_channels = 3, .layout_channels = 2};
  const InputLayer layer(store, "in", model, {},
                         {.format = c.batch.graph->format, .has_agreement = true}, 5);
  at::NoGradGuard guard;
  const at::Tensor found = layer(c.batch, {});  // [N, C, 5]

  const auto parameter = [&](const std::string& name) {
    for (const auto& [key, value] : store.all()) {
      if (key == "in." + name) return value;
    }
    return at::Tensor();
  };
  const PreparedGraph& g = *c.batch.graph;
  const at::Tensor embedding = parameter("layout_embedding");
  for (int64_t n = 0; n < g.num_nodes; ++n) {
    int64_t place = -1;
    for (int64_t i = 0; i < g.num_config_nodes; ++i) {
      if (g.config_nodes[i].item<int64_t>() == n) place = i;
    }
    for (int64_t k = 0; k < c.batch.num_configs; ++k) {
      std::vector<at::Tensor> node = {g.node_feat[n].to(at::kDouble),
                                      parameter("opcode_embedding")[g.node_opcode[n]]};
      for (int64_t d = 0; d < 6; ++d) node.push_back(embedding[g.node_layout[n][d] + 2]);
      std::vector<at::Tensor> config;
      for (int64_t d = 0; d < 18; ++d) {
        config.push_back(embedding[place < 0 ? 0 : c.batch.layouts[place][k][d].item<int>() + 2]);
      }
      config.push_back(place < 0 ? at::zeros({6}, at::kDouble)
                                 : c.batch.agreement[place][k].to(at::kDouble));
      const at::Tensor expected = parameter("node.weight").mv(at::cat(node)) +
                                  parameter("node.bias") +
                                  parameter("config.weight").mv(at::cat(config));
      ASSERT_TRUE(at::allclose(found[n][k], expected)) << n << " " << k;
    }
  }
}

/// Rows of graphs 0, 1, 2 and 0 of three, and a network for them.
struct RewrittenCase {
  explicit RewrittenCase(bool adds_nodes) : graph({.num_configs = 6, .num_graphs = 3}) {
    const auto data = view_graph(graph.view());
    const Normalization normalization =
        fit_normalization({{.data = data}}, NodeTransform::kStandardize);
    network = make_network({.kind = ModelKind::kRewritten, .width = 16, .adds_nodes = adds_nodes},
                           {.format = data->format}, /*seed=*/5);
    batch = make_batch(prepare_graph(*data, normalization, {}),
                       data->read(std::vector<int64_t>{0, 1, 2, 3}), normalization);
  }

  SyntheticGraph graph;
  std::unique_ptr<Network> network;
  Batch batch;
};

TEST(RewrittenTest, AsItIsCostsNothingWhateverTheParameters) {
  for (const bool adds_nodes : {false, true}) {
    const RewrittenCase c(adds_nodes);

    const at::Tensor costs = c.network->forward(c.batch, {});

    EXPECT_EQ(costs[0].item<float>(), 0);
    EXPECT_EQ(costs[3].item<float>(), 0);
    EXPECT_NE(costs[1].item<float>(), 0);
    EXPECT_NE(costs[1].item<float>(), costs[2].item<float>());
  }
}

/// Nodes that all take the same time: a program takes as long as it has nodes.
TEST(RewrittenTest, TimesOfNodesAddUp) {
  const RewrittenCase c(/*adds_nodes=*/true);
  {
    const at::NoGradGuard no_gradients;
    for (const auto& [name, value] : c.network->parameters()) {
      if (name.starts_with("head.")) at::Tensor(value).zero_();
    }
  }

  const at::Tensor costs = c.network->forward(c.batch, {});

  const std::vector<int64_t>& splits = c.graph.splits;
  for (const int64_t g : {0, 1, 2}) {
    const auto at = static_cast<size_t>(g);
    const double expected = std::log(static_cast<double>(splits[at + 1] - splits[at]) /
                                     static_cast<double>(splits[1] - splits[0]));
    EXPECT_NEAR(costs[g].item<double>(), expected, 1e-6);
  }
}

/// Graphs that no row of a batch is are left out of it, which changes nothing.
TEST(RewrittenTest, ABatchOfSomeGraphsGivesTheCostsOfTheWhole) {
  const Case c(ModelKind::kRewritten, false);
  const auto data = view_graph(c.graph.view());
  const auto prepared = prepare_graph(*data, c.normalization, {.position_steps = 3});
  const std::vector<int64_t> rows = {5, 2, 1};

  const Batch batch = make_batch(prepared, data->read(rows), c.normalization);

  EXPECT_EQ(c.batch.graph->num_graphs(), 4);
  EXPECT_EQ(batch.graph->num_graphs(), 3);  // rows 5 and 1 are graph 1
  EXPECT_EQ(batch.num_nodes(), 9);
  const at::Tensor order = at::tensor(rows, at::kLong);
  EXPECT_TRUE(at::allclose(c.costs(batch), c.costs(c.batch).index({order}), 1e-5, 1e-6));
}

TEST(RewrittenTest, OtherNetworksAndGraphsAreRefused) {
  const SyntheticGraph graph({.num_graphs = 3}), shared({});
  const auto data = view_graph(graph.view());
  EXPECT_THROW(make_network({.width = 16}, {.format = data->format}, 1), c10::ValueError);
  EXPECT_THROW(make_network({.kind = ModelKind::kRewritten, .width = 16},
                            {.format = view_graph(shared.view())->format}, 1),
               c10::ValueError);
}

TEST(RewrittenTest, GraphsThatAreNotApartAreRefused) {
  const auto refused = [](auto&& spoil) {
    SyntheticGraph graph({.num_graphs = 3});
    spoil(graph);
    EXPECT_THROW(view_graph(graph.view()), FormatError);
  };
  refused([](SyntheticGraph& g) { g.splits.back() -= 1; });
  refused([](SyntheticGraph& g) { g.splits[1] = g.splits[2]; });
  refused([](SyntheticGraph& g) { g.splits = {0}; });
  refused([](SyntheticGraph& g) { g.config_graph[2] = 3; });
  refused([](SyntheticGraph& g) { g.config_graph[2] = -1; });
  refused([](SyntheticGraph& g) { g.config_graph.pop_back(); });
  // An edge from the second graph to the first.
  refused([](SyntheticGraph& g) { g.edges.insert(g.edges.end() - 2, {g.splits[1], 0}); });
}

TEST(NetworkTest, TilesForALayoutNetworkAreRefused) {
  EXPECT_THROW(make_network({.kind = ModelKind::kLayoutResnet},
                            {.format = {.config_columns = 24, .has_layouts = false}}, 1),
               c10::ValueError);
  EXPECT_THROW(make_network({.kind = ModelKind::kEarlyJoin}, {.format = {.has_layouts = true}}, 1),
               c10::ValueError);
  EXPECT_THROW(make_network({.width = 0}, {}, 1), std::invalid_argument);
}

TEST(BatchTest, AgreementOfLinkedLayouts) {
  SyntheticGraph g({.num_nodes = 3, .num_config_nodes = 2, .num_configs = 3});
  g.config_ids = {0, 2};  // 2 -> 1 -> 0
  g.edges = {1, 0, 2, 1};
  std::fill(g.layouts.begin(), g.layouts.end(), int8_t{-1});
  const auto set = [&](size_t config, size_t node, size_t tensor, std::vector<int8_t> layout) {
    std::copy(
        layout.begin(), layout.end(),
        g.layouts.begin() + static_cast<std::ptrdiff_t>((config * 2 + node) * 18 + tensor * 6));
  };
  set(0, 0, 0, {1, 0});  // makes {1,0}; the other reads {1,0}
  set(0, 1, 1, {1, 0});
  set(1, 0, 0, {1, 0});  // it reads {0,1}
  set(1, 1, 1, {0, 1});
  set(2, 0, 0, {1, 0});  // nothing is said
  const auto data = view_graph(g.view());
  const Normalization n = fit_normalization({{.data = data}}, NodeTransform::kSignedLog);
  const Batch batch = make_batch(prepare_graph(*data, n, {.link_hops = 2}),
                                 data->read(std::vector<int64_t>{0, 1, 2}), n);
  const at::Tensor user = batch.agreement[1].narrow(1, 0, 3),
                   operand = batch.agreement[0].narrow(1, 3, 3);
  EXPECT_TRUE(at::equal(user, at::eye(3)));
  EXPECT_TRUE(at::equal(operand, at::eye(3)));
  EXPECT_EQ(batch.agreement[0].narrow(1, 0, 3).abs().sum().item<float>(), 0);
}

TEST(BatchTest, OtherFormatsAreRefused) {
  const SyntheticGraph layouts({}), tiles({.is_tile = true});
  const Normalization n =
      fit_normalization({{.data = view_graph(layouts.view())}}, NodeTransform::kMinMax);
  EXPECT_THROW(prepare_graph(*view_graph(tiles.view()), n, {}), FormatError);
  auto padded = layouts.view();
  padded.list_padding = -1;
  EXPECT_THROW(prepare_graph(*view_graph(padded), n, {}), FormatError);
}

}  // namespace
}  // namespace lagom::cost_model
