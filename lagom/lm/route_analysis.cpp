#include "lagom/lm/route_analysis.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>

#include "lagom/lm/ops.h"
#include "lagom/lm/routing.h"

namespace lagom::lm {
namespace {

using at::Tensor;

constexpr size_t kTenths = 10;
constexpr size_t kBins = 32;

double share_of(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole)
                   : std::numeric_limits<double>::quiet_NaN();
}

template <typename From, typename To>
void append(std::vector<To>& to, const Tensor& from) {
  const Tensor flat = from.contiguous();
  const auto* data = flat.const_data_ptr<From>();
  for (int64_t i = 0; i < flat.numel(); ++i) to.push_back(static_cast<To>(data[i]));
}

/// Entropy and loss of each token, a part of the rows at a time: logits never stand whole.
void append_entropy_and_loss(const Model& model, const Tensor& hidden, const Tensor& targets,
                             RouteTable& table) {
  const int64_t rows = hidden.size(0), vocab = model.head().size(0);
  const int64_t chunk = std::clamp<int64_t>((int64_t{2} << 20) / vocab, 1, rows);
  for (int64_t begin = 0; begin < rows; begin += chunk) {
    const int64_t n = std::min(chunk, rows - begin);
    const Tensor logs = at::log_softmax(model.logits(hidden.narrow(0, begin, n)), -1);  // [n, V]
    append<float>(table.entropy, -(logs.exp() * logs).sum(-1));
    append<float>(table.loss, -logs.gather(1, targets.narrow(0, begin, n).unsqueeze(1)).squeeze(1));
  }
}

/// num_before: tokens in the table before the batch.
void append_experts(const ExpertLayer& from, int64_t num_experts, int64_t num_before,
                    RouteTable::Experts& to) {
  to.layer = from.layer;
  to.count = num_experts;
  append<int64_t>(to.places, from.tokens.masked_select(from.present) + num_before);
  const Tensor reached = from.present.nonzero().squeeze(1);
  append<bool>(to.taken, from.chosen.narrow(1, 0, num_experts).index_select(0, reached));
}

PassOptions pass_options(const EvaluationOptions& options, const LmBatch& batch) {
  PassOptions pass;
  pass.routing = options.routing;
  pass.capacity = options.capacity;
  pass.hard_cap = options.hard_cap;
  pass.segments = batch.segments;
  return pass;
}

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// Classes of all tokens, each seeing the last byte of the one before in its window.
std::vector<TokenClass> classes_of(const RouteTable& table, const text::Tokenizer& tokenizer) {
  std::vector<TokenClass> classes;
  char previous = ' ';
  for (int64_t i = 0; i < table.size(); ++i) {
    if (i % table.length == 0) previous = ' ';
    const std::string_view bytes = tokenizer.token_bytes(table.tokens[static_cast<size_t>(i)]);
    classes.push_back(token_class(bytes, previous));
    if (!bytes.empty()) previous = bytes.back();
  }
  return classes;
}

WeightHistogram histogram_of(const RouteTable::Layer& layer) {
  WeightHistogram result;
  const auto [low, high] = std::minmax_element(layer.scores.begin(), layer.scores.end());
  result.low = *low;
  result.high = *high;
  result.chosen.assign(kBins, 0);
  result.others.assign(kBins, 0);
  const double width = result.high > result.low ? (result.high - result.low) / kBins : 1;
  for (size_t i = 0; i < layer.scores.size(); ++i) {
    const auto bin = static_cast<size_t>((layer.scores[i] - result.low) / width);
    ++(layer.chosen[i] ? result.chosen : result.others)[std::min(bin, kBins - 1)];
  }
  return result;
}

void add_thresholds(const RouteTable& table, const RouteTable::Layer& layer, LayerRoutes& routes) {
  std::vector<double> smallest;
  for (int64_t window = 0; window < table.num_windows(); ++window) {
    double low = std::numeric_limits<double>::infinity();
    for (int64_t t = 0; t < table.length; ++t) {
      const auto i = static_cast<size_t>(window * table.length + t);
      if (layer.chosen[i]) low = std::min<double>(low, layer.scores[i]);
    }
    if (std::isfinite(low)) smallest.push_back(low);
  }
  if (smallest.empty()) return;  // under a causal rule no token need enter
  routes.threshold_mean = mean_of(smallest);
  routes.threshold_deviation = deviation_of(smallest);
  const auto [low, high] = std::minmax_element(smallest.begin(), smallest.end());
  routes.threshold_low = *low;
  routes.threshold_high = *high;
}

std::vector<ExpertRoutes> expert_routes(const RouteTable::Experts& from,
                                        const std::vector<TokenClass>& classes) {
  std::vector<ExpertRoutes> all;
  const auto reached = std::ssize(from.places);
  for (int64_t expert = 0; expert < from.count; ++expert) {
    std::array<int64_t, kNumTokenClasses> count{}, taken{};
    int64_t sum = 0;
    for (int64_t i = 0; i < reached; ++i) {
      const auto place = static_cast<size_t>(from.places[static_cast<size_t>(i)]);
      const auto kind = static_cast<size_t>(classes[place]);
      const int64_t took = from.taken[static_cast<size_t>(i * from.count + expert)];
      ++count[kind];
      taken[kind] += took;
      sum += took;
    }
    ExpertRoutes routes{
        .layer = from.layer, .expert = expert, .rate = share_of(sum, reached), .rate_by_class = {}};
    for (size_t kind = 0; kind < kNumTokenClasses; ++kind) {
      routes.rate_by_class.push_back(share_of(taken[kind], count[kind]));
    }
    all.push_back(std::move(routes));
  }
  return all;
}

LayerRoutes layer_routes(const RouteTable& table, const RouteTable::Layer& layer,
                         const std::vector<TokenClass>& classes,
                         const std::vector<int64_t>& windows) {
  LayerRoutes routes{.layer = layer.layer, .experts = layer.experts};
  std::array<int64_t, kTenths> position_count{}, position_chosen{};
  std::array<int64_t, kNumTokenClasses> class_count{}, class_chosen{};
  int64_t entered = 0;
  for (int64_t i = 0; i < table.size(); ++i) {
    const auto at = static_cast<size_t>(i);
    const auto tenth =
        static_cast<size_t>(i % table.length) * kTenths / static_cast<size_t>(table.length);
    const auto kind = static_cast<size_t>(classes[at]);
    ++position_count[tenth];
    ++class_count[kind];
    entered += layer.chosen[at];
    position_chosen[tenth] += layer.chosen[at];
    class_chosen[kind] += layer.chosen[at];
    if (layer.predicted.empty()) continue;
    const bool predicted = layer.predicted[at] != 0, chosen = layer.chosen[at] != 0;
    routes.predictor.true_positive += predicted && chosen;
    routes.predictor.false_positive += predicted && !chosen;
    routes.predictor.false_negative += !predicted && chosen;
    routes.predictor.true_negative += !predicted && !chosen;
  }
  routes.rate = share_of(entered, table.size());
  for (size_t i = 0; i < kTenths; ++i) {
    routes.rate_by_position.push_back(share_of(position_chosen[i], position_count[i]));
  }
  for (size_t i = 0; i < kNumTokenClasses; ++i) {
    routes.rate_by_class.push_back(share_of(class_chosen[i], class_count[i]));
  }
  routes.weights = histogram_of(layer);
  add_thresholds(table, layer, routes);
  routes.weight_entropy = spearman(std::vector<double>(layer.scores.begin(), layer.scores.end()),
                                   table.entropy, windows);
  return routes;
}

/// Shares of tokens that enter 0 .. R blocks when block r takes a share rates[r] by itself.
std::vector<double> independent_counts(const std::vector<LayerRoutes>& layers) {
  std::vector<double> shares = {1};
  for (const LayerRoutes& layer : layers) {
    std::vector<double> next(shares.size() + 1, 0);
    for (size_t i = 0; i < shares.size(); ++i) {
      next[i] += shares[i] * (1 - layer.rate);
      next[i + 1] += shares[i] * layer.rate;
    }
    shares = std::move(next);
  }
  return shares;
}

std::vector<std::vector<double>> overlaps(const RouteTable& table) {
  std::vector<std::vector<double>> result;
  for (const auto& a : table.layers) {
    auto& row = result.emplace_back();
    for (const auto& b : table.layers) {
      int64_t both = 0, first = 0;
      for (size_t i = 0; i < a.chosen.size(); ++i) {
        first += a.chosen[i];
        both += a.chosen[i] & b.chosen[i];
      }
      row.push_back(share_of(both, first));
    }
  }
  return result;
}

/// Sums that become a TokenGroup's means.
struct GroupSums {
  int64_t count = 0;
  double blocks = 0, entropy = 0, loss = 0;

  TokenGroup group(std::string name) const {
    const double n = static_cast<double>(std::max<int64_t>(1, count));
    return {std::move(name), count, blocks / n, entropy / n, loss / n};
  }
};

void add_groups(const RouteTable& table, const std::vector<double>& blocks,
                const std::vector<TokenClass>& classes, const text::Tokenizer& tokenizer,
                RouteAnalysis& result) {
  std::array<GroupSums, kNumTokenClasses> by_class;
  std::map<int32_t, GroupSums> by_token;
  for (size_t i = 0; i < blocks.size(); ++i) {
    for (GroupSums* sums :
         {&by_class[static_cast<size_t>(classes[i])], &by_token[table.tokens[i]]}) {
      ++sums->count;
      sums->blocks += blocks[i];
      sums->entropy += table.entropy[i];
      sums->loss += table.loss[i];
    }
  }
  for (size_t i = 0; i < kNumTokenClasses; ++i) {
    const std::string name(token_class_name(static_cast<TokenClass>(i)));
    result.classes.push_back(by_class[i].group(name));
  }
  // Rare tokens' means are mostly noise.
  const int64_t often = std::max<int64_t>(20, table.size() / 1000);
  std::vector<TokenGroup> groups;
  for (const auto& [token, sums] : by_token) {
    if (sums.count >= often) {
      groups.push_back(sums.group(std::string(tokenizer.token_bytes(token))));
    }
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const TokenGroup& a, const TokenGroup& b) { return a.blocks > b.blocks; });
  const size_t shown = std::min<size_t>(8, groups.size() / 2);
  result.most.assign(groups.begin(), groups.begin() + static_cast<std::ptrdiff_t>(shown));
  result.least.assign(groups.rbegin(), groups.rbegin() + static_cast<std::ptrdiff_t>(shown));
}

/// How often a block took tokens of each kind in the first windows, as log-odds with one token at
/// the base rate added to each.
class LearnedShares {
 public:
  void add(int64_t kind, bool chosen) {
    auto& [count, entered] = kinds_[kind];
    ++count;
    entered += chosen;
    ++count_;
    entered_ += chosen;
  }
  double log_odds(int64_t kind) const {
    const double base = (static_cast<double>(entered_) + 0.5) / (static_cast<double>(count_) + 1);
    const auto found = kinds_.find(kind);
    double count = 1, entered = base;
    if (found != kinds_.end()) {
      count += static_cast<double>(found->second.first);
      entered += static_cast<double>(found->second.second);
    }
    // A kind that was always taken must stay finite.
    const double share = std::clamp(entered / count, 1e-6, 1 - 1e-6);
    return std::log(share / (1 - share));
  }

 private:
  std::map<int64_t, std::pair<int64_t, int64_t>> kinds_;
  int64_t count_ = 0, entered_ = 0;
};

enum class Control { kLearned, kPositionAndToken, kToken, kPosition, kRandom };
constexpr std::array<const char*, 5> kControlNames = {"learned", "position and token", "token",
                                                      "position", "random"};

}  // namespace

std::string_view token_class_name(TokenClass token_class) {
  constexpr std::array<std::string_view, kNumTokenClasses> kNames = {
      "newline", "space", "word start", "in a word", "digit", "punctuation", "other"};
  return kNames[static_cast<size_t>(token_class)];
}

TokenClass token_class(std::string_view bytes, char previous) {
  const size_t first = bytes.find_first_not_of(" \t\r\n\v\f");
  if (first == std::string_view::npos) {
    return bytes.find('\n') != std::string_view::npos ? TokenClass::kNewline : TokenClass::kSpace;
  }
  const char c = bytes[first];
  if (is_letter(c)) {
    const char before = first > 0 ? bytes[first - 1] : previous;
    return is_letter(before) ? TokenClass::kInWord : TokenClass::kWordStart;
  }
  if (c >= '0' && c <= '9') return TokenClass::kDigit;
  return c > ' ' && c < 127 ? TokenClass::kPunctuation : TokenClass::kOther;
}

RouteTable record_routes(const Model& model, const TokenRange& range,
                         const text::Tokenizer& tokenizer, const EvaluationOptions& options) {
  const LmOptions& o = model.options();
  const auto routed = static_cast<size_t>(o.num_routed());
  std::vector<int64_t> expert_layers;
  for (int64_t layer = 0; layer < o.num_layers; ++layer) {
    // In a routed block all tokens that entered meet the experts.
    if (o.has_experts(layer) && !o.is_routed(layer)) expert_layers.push_back(layer);
  }
  if (routed + expert_layers.size() == 0) {
    throw std::invalid_argument(
        "the model has neither routed blocks nor experts: there are no routes to look at");
  }
  const at::NoGradGuard no_grad;
  RouteTable table;
  for_each_window_batch(model, range, tokenizer, options, [&](const LmBatch& batch) {
    const ForwardResult pass = model.forward(batch.tokens, pass_options(options, batch));
    table.length = batch.tokens.size(1);
    const int64_t num_before = table.size();
    append<int64_t>(table.tokens, batch.tokens);
    append_entropy_and_loss(model, pass.hidden.flatten(0, 1), batch.targets.flatten(), table);
    table.layers.resize(routed + expert_layers.size());
    for (size_t i = 0; i < pass.routed.size(); ++i) {
      const RoutedLayer& from = pass.routed[i];
      RouteTable::Layer& to = table.layers[i];
      to.layer = from.layer;
      append<float>(to.scores, from.scores);
      append<bool>(to.chosen, from.chosen);
      if (from.predictor_logits.defined()) append<bool>(to.predicted, from.predictor_logits > 0);
    }
    table.experts.resize(pass.experts.size());
    for (size_t i = 0; i < pass.experts.size(); ++i) {
      append_experts(pass.experts[i], o.experts.count, num_before, table.experts[i]);
    }
    for (const ExpertLayer& from : pass.experts) {
      if (o.is_routed(from.layer)) continue;
      const auto place = std::find(expert_layers.begin(), expert_layers.end(), from.layer);
      RouteTable::Layer& to =
          table.layers[routed + static_cast<size_t>(place - expert_layers.begin())];
      to.layer = from.layer;
      to.experts = true;
      const auto real = [&](const Tensor& x) { return x.narrow(1, 0, o.experts.count); };
      append<float>(to.scores, real(from.probabilities).sum(1));
      append<bool>(to.chosen, real(from.chosen).any(1));
      if (from.predictor_logits.defined()) {
        append<bool>(to.predicted, (from.predictor_logits > 0).any(1));
      }
    }
  });
  return table;
}

RouteAnalysis analyze_routes(const RouteTable& table, const text::Tokenizer& tokenizer) {
  if (table.size() == 0 || table.layers.empty()) {
    throw std::invalid_argument("there are no routes to analyze");
  }
  RouteAnalysis result{.tokens = table.size(), .windows = table.num_windows()};
  const std::vector<TokenClass> classes = classes_of(table, tokenizer);
  const std::vector<int64_t> windows(static_cast<size_t>(table.num_windows()), table.length);
  std::vector<double> blocks(static_cast<size_t>(table.size()), 0);
  for (const RouteTable::Layer& layer : table.layers) {
    result.layers.push_back(layer_routes(table, layer, classes, windows));
    for (size_t i = 0; i < blocks.size(); ++i) blocks[i] += layer.chosen[i];
  }
  for (const RouteTable::Experts& experts : table.experts) {
    for (ExpertRoutes& routes : expert_routes(experts, classes)) {
      result.experts.push_back(std::move(routes));
    }
  }
  result.blocks_per_token.assign(table.layers.size() + 1, 0);
  for (const double count : blocks) ++result.blocks_per_token[static_cast<size_t>(count)];
  result.independent_blocks = independent_counts(result.layers);
  result.overlap = overlaps(table);
  result.blocks_entropy = spearman(blocks, table.entropy, windows);
  result.blocks_loss = spearman(blocks, table.loss, windows);
  add_groups(table, blocks, classes, tokenizer, result);
  return result;
}

std::vector<RouteControl> route_controls(const Model& model, const TokenRange& range,
                                         const text::Tokenizer& tokenizer,
                                         const EvaluationOptions& options,
                                         const RouteTable& table) {
  if (options.routing != Routing::kTopK) {
    throw std::invalid_argument("controls take as many tokens as top-k does: they need its routes");
  }
  if (model.options().num_routed() == 0) {
    throw std::invalid_argument("controls take a router's place: the model has no routed blocks");
  }
  const int64_t half = table.num_windows() / 2, length = table.length;
  if (half < 1) throw std::invalid_argument("controls need at least two windows of text");
  const auto num_layers = static_cast<size_t>(model.options().num_routed());
  std::vector<LearnedShares> by_position(num_layers), by_token(num_layers);
  for (size_t layer = 0; layer < num_layers; ++layer) {
    for (int64_t i = 0; i < half * length; ++i) {
      const auto at = static_cast<size_t>(i);
      const bool chosen = table.layers[layer].chosen[at] != 0;
      by_position[layer].add(i % length, chosen);
      by_token[layer].add(table.tokens[at], chosen);
    }
  }
  // Ties, as between equal bytes, are broken at random rather than by the lower position.
  const auto score = [&](Control control, size_t layer, int64_t window, int64_t t, int64_t token) {
    const double tie = random_score(/*draw=*/1, static_cast<int64_t>(layer), window, t);
    double value = 0;
    if (control == Control::kPosition || control == Control::kPositionAndToken) {
      value += by_position[layer].log_odds(t);
    }
    if (control == Control::kToken || control == Control::kPositionAndToken) {
      value += by_token[layer].log_odds(token);
    }
    return static_cast<float>(control == Control::kRandom ? tie : value + 1e-5 * tie);
  };

  const at::NoGradGuard no_grad;
  std::vector<RouteControl> controls;
  for (size_t kind = 0; kind < kControlNames.size(); ++kind) {
    const auto control = static_cast<Control>(kind);
    RouteControl result{.name = kControlNames[kind]};
    int64_t window = 0, tokens = 0, both = 0, taken = 0;
    for_each_window_batch(model, range, tokenizer, options, [&](const LmBatch& batch) {
      const int64_t rows = batch.tokens.size(0), first = window;
      window += rows;
      if (window <= half) return;
      PassOptions pass = pass_options(options, batch);
      if (control != Control::kLearned) {
        const auto* ids = batch.tokens.const_data_ptr<int64_t>();
        for (size_t layer = 0; layer < num_layers; ++layer) {
          Tensor scores = at::empty({rows, length}, at::kFloat);
          auto* data = scores.mutable_data_ptr<float>();
          for (int64_t i = 0; i < rows * length; ++i) {
            data[i] = score(control, layer, first + i / length, i % length, ids[i]);
          }
          pass.selection_scores.push_back(scores);
        }
      }
      const ForwardResult forward = model.forward(batch.tokens, pass);
      // The batch that holds the middle is judged from there on.
      const int64_t skip = std::max<int64_t>(0, half - first), judged = rows - skip;
      const auto rest = [&](const Tensor& x) { return x.narrow(0, skip, judged); };
      result.loss += next_token_loss(rest(forward.hidden).flatten(0, 1), model.head(),
                                     rest(batch.targets).flatten())
                         .item<double>() *
                     static_cast<double>(judged * length);
      tokens += judged * length;
      for (size_t layer = 0; layer < num_layers; ++layer) {
        const Tensor chosen = rest(forward.routed[layer].chosen).contiguous();
        const auto* data = chosen.const_data_ptr<bool>();
        for (int64_t i = 0; i < judged * length; ++i) {
          if (!data[i]) continue;
          ++taken;
          both += table.layers[layer].chosen[static_cast<size_t>((first + skip) * length + i)];
        }
      }
    });
    result.loss /= static_cast<double>(tokens);
    result.overlap = share_of(both, taken);
    controls.push_back(std::move(result));
  }
  return controls;
}

}  // namespace lagom::lm
