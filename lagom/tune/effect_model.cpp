#include "lagom/tune/effect_model.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>

namespace lagom::tune {

size_t EffectModel::index_of(const std::string& decision) {
  const auto [it, is_new] = index_.emplace(decision, mean_.size());
  if (is_new) {
    const Belief prior = prior_(decision);
    mean_.push_back(prior.mean);
    for (auto& row : covariance_) row.push_back(0);
    covariance_.emplace_back(mean_.size(), 0.0);
    covariance_.back().back() = prior.deviation * prior.deviation;
  }
  return it->second;
}

Belief EffectModel::predict(const std::vector<std::string>& decisions) {
  std::vector<size_t> taken;
  for (const std::string& decision : decisions) taken.push_back(index_of(decision));
  double mean = 1, variance = 0;
  for (const size_t i : taken) {
    mean += mean_[i];
    for (const size_t j : taken) variance += covariance_[i][j];
  }
  return {.mean = mean, .deviation = std::sqrt(std::max(variance, 0.0))};
}

Belief EffectModel::change(const std::vector<std::string>& from,
                           const std::vector<std::string>& to) {
  std::map<size_t, double> signs;
  for (const std::string& decision : to) signs[index_of(decision)] += 1;
  for (const std::string& decision : from) signs[index_of(decision)] -= 1;
  std::erase_if(signs, [](const auto& entry) { return entry.second == 0; });
  double mean = 0, variance = 0;
  for (const auto& [i, sign] : signs) {
    mean += sign * mean_[i];
    for (const auto& [j, other] : signs) variance += sign * other * covariance_[i][j];
  }
  return {.mean = mean, .deviation = std::sqrt(std::max(variance, 0.0))};
}

Belief EffectModel::effect(const std::string& decision) {
  const size_t i = index_of(decision);
  return {.mean = mean_[i], .deviation = std::sqrt(std::max(covariance_[i][i], 0.0))};
}

void EffectModel::observe(const std::vector<std::string>& decisions, double ratio,
                          double deviation) {
  std::vector<size_t> taken;
  for (const std::string& decision : decisions) taken.push_back(index_of(decision));
  const size_t n = mean_.size();
  std::vector<double> gain(n, 0.0);  // covariance x, then divided by the innovation's variance
  double predicted = 1, variance = deviation * deviation;
  for (const size_t i : taken) {
    predicted += mean_[i];
    for (size_t j = 0; j < n; ++j) gain[j] += covariance_[i][j];
  }
  for (const size_t i : taken) variance += gain[i];
  if (!(variance > 0)) return;
  for (size_t j = 0; j < n; ++j) mean_[j] += gain[j] / variance * (ratio - predicted);
  for (size_t i = 0; i < n; ++i) {
    if (gain[i] == 0) continue;
    for (size_t j = 0; j < n; ++j) covariance_[i][j] -= gain[i] * gain[j] / variance;
  }
}

std::string form_decision_name(size_t kernel, std::string_view rule) {
  return "form " + std::to_string(kernel) + " " + std::string(rule);
}

std::vector<std::string> decision_names(const SearchSpace& space,
                                        const rewrite::Configuration& configuration) {
  std::vector<std::string> names;
  for (size_t k = 0; k < space.kernels().size(); ++k) {
    const rewrite::Rule* rule = space.form_of(configuration, space.kernels()[k]);
    if (rule != nullptr) names.push_back(form_decision_name(k, rule->name()));
  }
  for (const rewrite::Decision& decision : configuration.decisions) {
    if (decision.kind != rewrite::DecisionKind::kForm) names.push_back(decision.to_string());
  }
  for (const auto& [name, value] : configuration.flags) {
    rewrite::Configuration flag;
    flag.flags[name] = value;
    names.push_back(flag.to_string());
  }
  return names;
}

double expected_improvement(const Belief& value, double best) {
  const double gap = best - value.mean;
  if (!(value.deviation > 0)) return std::max(gap, 0.0);
  const double z = gap / value.deviation;
  const double density = std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
  const double below = std::erfc(-z / std::numbers::sqrt2) / 2;
  return gap * below + value.deviation * density;
}

}  // namespace lagom::tune
