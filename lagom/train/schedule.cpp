#include "lagom/train/schedule.h"

#include <array>
#include <cmath>
#include <numbers>

#include "lagom/train/check_field.h"

namespace lagom::train {

std::span<const std::string_view> option_names(Decay) {
  static constexpr std::array<std::string_view, 3> kNames = {"cosine", "linear", "constant"};
  return kNames;
}

void ScheduleOptions::validate() const {
  check_field(learning_rate > 0 && std::isfinite(learning_rate), "learning_rate",
              "a number above 0", learning_rate);
  check_field(final_share >= 0 && final_share <= 1, "final_share", "a share in [0, 1]",
              final_share);
  check_field(warmup_share >= 0 && warmup_share <= 1, "warmup_share", "a share in [0, 1]",
              warmup_share);
}

double learning_rate_at(const ScheduleOptions& options, int64_t step, int64_t num_steps) {
  const auto warmup =
      static_cast<int64_t>(std::llround(options.warmup_share * static_cast<double>(num_steps)));
  if (step < warmup) {
    return options.learning_rate * static_cast<double>(step + 1) / static_cast<double>(warmup + 1);
  }
  const int64_t span = num_steps - 1 - warmup;
  const double progress =
      span > 0 ? static_cast<double>(step - warmup) / static_cast<double>(span) : 0.0;
  double share = 1;
  if (options.decay == Decay::kCosine) share = 0.5 * (1 + std::cos(std::numbers::pi * progress));
  if (options.decay == Decay::kLinear) share = 1 - progress;
  return options.learning_rate * (options.final_share + (1 - options.final_share) * share);
}

}  // namespace lagom::train
