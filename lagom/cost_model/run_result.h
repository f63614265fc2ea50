#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lagom/tensor/safetensors.h"

namespace lagom::cost_model {

/// Where a training run stands.
struct RunResult {
  int64_t steps = 0;  ///< Taken in all, also before a stop.
  double best_metric = 0;
  int64_t best_step = 0;     ///< 0 without validation graphs.
  bool was_stopped = false;  ///< By `stop`; the run can be resumed.
  double last_loss = 0;
};
/// Asked between steps; true ends the run after a checkpoint.
using StopCheck = std::function<bool()>;

/// Adds what a checkpoint holds of it.
void add_progress(const RunResult& run, std::vector<tensor::NamedTensor>& state);
/// Throws FormatError when the checkpoint was begun with other options than these, or has none.
RunResult read_progress(const tensor::TensorFile& file, const std::string& path,
                        const std::string& options);

}  // namespace lagom::cost_model
