#pragma once

#include <ATen/core/Tensor.h>

/// Losses that make predicted costs order configurations as their runtimes do. All are finite, with
/// finite gradients, for costs of +-1e4 and more.
namespace lagom::cost_model {

/// Weights of the losses; those of 0 are not computed. A pair (i, j) with runtime i > runtime j
/// counts when the two differ by more than the noise: gap > max(noise_floor * runtime j,
/// uncertainty i + uncertainty j).
struct LossOptions {
  double hinge = 1;     ///< mean of max(0, margin - (cost i - cost j))
  double logistic = 0;  ///< mean of log(1 + exp(-(cost i - cost j)))
  /// ListMLE (Xia et al. 2008): - log of the probability of the right order under Plackett-Luce.
  double list_mle = 0;
  /// 2nd place: the hinge on costs in units of the runtime, divided by its margin.
  double diff_mat = 0;
  double mse = 0;      ///< mean of (cost - runtime)^2, the runtime relative (Batch::runtimes)
  double log_mse = 0;  ///< mean of (cost - log runtime)^2: differences of costs are log ratios
  double mape = 0;     ///< mean of |cost - runtime| / runtime

  double margin = 1;             ///< Of the hinge.
  double diff_mat_margin = 0.1;  ///< In relative runtime.
  double noise_floor = 0;        ///< Relative difference of runtimes that means nothing.
  double temperature = 1;        ///< ListMLE takes cost / temperature.
  /// ListMLE places the fastest first, so that their order weighs most. False: the slowest, as
  /// TensorFlow Ranking does when runtimes are its labels.
  bool fastest_first = true;
  /// The hinge's mean goes over all C^2 ordered pairs, as 1st place has it, not over those that
  /// count.
  bool over_all_pairs = false;

  /// Throws c10::ValueError naming the first field that is out of range.
  void validate() const;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("hinge", self.hinge);
    visit("logistic", self.logistic);
    visit("list_mle", self.list_mle);
    visit("diff_mat", self.diff_mat);
    visit("mse", self.mse);
    visit("log_mse", self.log_mse);
    visit("mape", self.mape);
    visit("margin", self.margin);
    visit("diff_mat_margin", self.diff_mat_margin);
    visit("noise_floor", self.noise_floor);
    visit("temperature", self.temperature);
    visit("fastest_first", self.fastest_first);
    visit("over_all_pairs", self.over_all_pairs);
  }
};

/// costs: [C] float or double, lower is faster; runtimes, uncertainties: [C] double. A scalar, the
/// weighted sum; 0 where no pair counts (all runtimes equal, one configuration).
at::Tensor ranking_loss(const at::Tensor& costs, const at::Tensor& runtimes,
                        const at::Tensor& uncertainties, const LossOptions& options);

/// [C, C] of costs' dtype: 1 where row i is slower than column j beyond the noise.
at::Tensor pairs_that_count(const at::Tensor& runtimes, const at::Tensor& uncertainties,
                            double noise_floor, at::ScalarType dtype);

}  // namespace lagom::cost_model
