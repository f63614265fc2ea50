#pragma once

#include <array>
#include <span>
#include <string_view>

namespace lagom::cost_model {

/// What `lagom train` trains; by the key `task` of its file.
enum class TrainTask {
  kRanking,         ///< TrainOptions
  kClassification,  ///< ClassTrainOptions
};
inline std::span<const std::string_view> option_names(TrainTask) {
  static constexpr std::array<std::string_view, 2> kNames = {"ranking", "classification"};
  return kNames;
}

}  // namespace lagom::cost_model
