#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace lagom::train {

enum class Decay { kCosine, kLinear, kConstant };
std::span<const std::string_view> option_names(Decay);

/// The learning rate over a run: a linear warm-up, then a decay that ends at the last step.
struct ScheduleOptions {
  double learning_rate = 1e-3;  ///< The peak.
  double final_share = 0.1;     ///< Of the peak, reached by the last step.
  double warmup_share = 0.05;   ///< Of all steps, in [0, 1].
  Decay decay = Decay::kCosine;

  /// Throws std::invalid_argument naming the first field that is out of range.
  void validate() const;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("learning_rate", self.learning_rate);
    visit("final_share", self.final_share);
    visit("warmup_share", self.warmup_share);
    visit("decay", self.decay);
  }
};

/// The rate of step `step` in [0, num_steps): step 0 of w warm-up steps has 1/(w + 1) of the peak,
/// step w the peak, the last step `final_share` of it.
double learning_rate_at(const ScheduleOptions& options, int64_t step, int64_t num_steps);

}  // namespace lagom::train
