#include "lagom/cost_model/run_result.h"

#include <ATen/ATen.h>

#include "lagom/util/error.h"

namespace lagom::cost_model {

void add_progress(const RunResult& run, std::vector<tensor::NamedTensor>& state) {
  state.emplace_back("training.progress",
                     at::tensor({static_cast<double>(run.steps), run.best_metric,
                                 static_cast<double>(run.best_step), run.last_loss},
                                at::kDouble));
}

RunResult read_progress(const tensor::TensorFile& file, const std::string& path,
                        const std::string& options) {
  const auto saved = file.metadata.find("training");
  if (saved == file.metadata.end() || saved->second != options) {
    throw FormatError(path, "training", "was begun with other options");
  }
  const at::Tensor progress = file.find("training.progress");
  if (!progress.defined() || progress.numel() != 4) {
    throw FormatError(path, "training.progress", "is missing");
  }
  const auto* values = progress.const_data_ptr<double>();
  return {.steps = static_cast<int64_t>(values[0]),
          .best_metric = values[1],
          .best_step = static_cast<int64_t>(values[2]),
          .last_loss = values[3]};
}

}  // namespace lagom::cost_model
