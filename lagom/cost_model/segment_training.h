#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lagom/cost_model/segments.h"
#include "lagom/formats/event_log.h"
#include "lagom/train/flat_parameters.h"

namespace lagom::cost_model {

/// What Graph Segment Training keeps over a run: the history, and where finetuning begins.
class SegmentTraining {
 public:
  /// graphs: the training graphs, cut; configs: of each, what its history has room for. All but
  /// `graphs` must outlive it. file: of a mapped history.
  /// Throws std::invalid_argument for options that do not go with the network, and for a history
  /// past its bound.
  SegmentTraining(const Network& network, const SegmentOptions& options, int64_t steps,
                  const std::vector<PreparedGraphPtr>& graphs, const std::vector<int64_t>& configs,
                  at::ScalarType dtype, const std::filesystem::path& file);

  /// "12 graphs in 57 segments of at most 5000 nodes, ..."
  const std::string& description() const { return description_; }

  /// Whether step `step`, from 0, trains the head alone.
  bool is_finetuning(int64_t step) const { return step >= finetune_begin_; }
  /// From here on the encoder does not change: the history is made anew by it.
  bool begins_finetuning(int64_t step) const {
    return step == finetune_begin_ && options_.finetune_share > 0;
  }
  void begin_finetuning();

  /// Whether the history is to be filled before the first step.
  bool wants_fill() const { return history_ && options_.warm_start == WarmStart::kPass; }
  void fill(const SegmentedSample& sample, const ForwardContext& context);

  /// [C] (of a classifier [C, classes]) of a training step.
  at::Tensor costs(const SegmentedSample& sample, const ForwardContext& context, int64_t step);
  /// What the graphs since the last call met, for the log: nothing without a history.
  void report(std::vector<formats::Scalar>& line);

  /// The history, for a checkpoint.
  void add_state(std::vector<tensor::NamedTensor>& state) const;
  void load_state(const tensor::TensorFile& checkpoint);

 private:
  const Network& network_;
  const SegmentOptions& options_;
  int64_t finetune_begin_;
  std::optional<HistoryTable> history_;
  std::string description_;
  StaleReport report_;
};

/// One group, or where the head is finetuned "encoder" and "head" apart. Throws
/// std::invalid_argument for finetuning a network without parameters behind its pooling.
std::vector<train::ParameterGroup> parameter_groups(const Network& network,
                                                    const SegmentOptions& options,
                                                    double weight_decay);

}  // namespace lagom::cost_model
