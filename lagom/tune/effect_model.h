#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lagom/tune/neighbours.h"
#include "lagom/tune/space.h"

namespace lagom::tune {

/// What each decision does to the run time of one program, learned from measurements of whole
/// configurations: time / default's time = 1 + the sum of the effects of the decisions taken.
///
/// Effects have a Gaussian prior each (what kernels alone, a cost model or nothing at all say of
/// them); a measurement moves them by Bayes' rule (linear regression, one Kalman step a
/// measurement), so that noise moves them little, and decisions that were never taken keep their
/// doubt. Predicting takes microseconds.
class EffectModel {
 public:
  /// `prior` is asked once for each decision, by its name.
  explicit EffectModel(std::function<Belief(const std::string& decision)> prior)
      : prior_(std::move(prior)) {}

  /// `ratio`: time / default's time of a configuration with these decisions.
  void observe(const std::vector<std::string>& decisions, double ratio, double deviation);
  /// Of the ratio.
  Belief predict(const std::vector<std::string>& decisions);
  /// Of the difference between the ratios of two configurations, `to` - `from`: what they share
  /// does not add to the doubt.
  Belief change(const std::vector<std::string>& from, const std::vector<std::string>& to);
  Belief effect(const std::string& decision);

 private:
  size_t index_of(const std::string& decision);

  std::function<Belief(const std::string&)> prior_;
  std::unordered_map<std::string, size_t> index_;
  std::vector<double> mean_;
  std::vector<std::vector<double>> covariance_;
};

/// A configuration's decisions as the model knows them: a kernel's form is one decision however
/// many instructions it stands for.
std::vector<std::string> decision_names(const SearchSpace& space,
                                        const rewrite::Configuration& configuration);
/// "form 3 depthwise_taps"
std::string form_decision_name(size_t kernel, std::string_view rule);

/// How much better than `best` a value is expected to turn out: the mean of max(0, best - value).
double expected_improvement(const Belief& value, double best);

}  // namespace lagom::tune
