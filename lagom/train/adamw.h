#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lagom/tensor/safetensors.h"
#include "lagom/train/flat_parameters.h"

namespace lagom::train {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double clip_norm = 1;  ///< Largest gradient norm of a clip set; 0 does not clip.

  /// Throws std::invalid_argument naming the first field that is out of range.
  void validate() const;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("beta1", self.beta1);
    visit("beta2", self.beta2);
    visit("epsilon", self.epsilon);
    visit("clip_norm", self.clip_norm);
  }
};

/// Adam with decoupled weight decay (Loshchilov & Hutter 2019, arXiv 1711.05101), one fused pass
/// over each group's flat buffers.
class AdamW {
 public:
  /// `parameters` must outlive the optimizer.
  AdamW(FlatParameters& parameters, AdamWOptions options);

  /// What a step met: the gradient norm of each clip set, before clipping.
  struct Report {
    std::map<std::string, double> gradient_norms;
    bool is_finite = true;  ///< False: a gradient was NaN or infinite, and nothing was changed.
  };

  /// One update with the gradients as they are, of all groups or of one by its name.
  Report step(double learning_rate, std::string_view only_group = {});

  /// Moments and step counts under names that begin with "optimizer.", for a checkpoint. They
  /// share memory with the optimizer.
  std::vector<tensor::NamedTensor> state() const;
  /// Takes them back. Throws std::invalid_argument when one is missing or of another size.
  void load_state(const tensor::TensorFile& checkpoint);

 private:
  struct Moments {
    at::Tensor exp_avg, exp_avg_sq;  ///< [P]
    at::Tensor step;                 ///< [], f32: updates so far.
  };

  FlatParameters& parameters_;
  AdamWOptions options_;
  std::vector<Moments> moments_;  ///< One for each group.
};

/// Exponential moving average of the parameters: average += (1 - decay) (value - average).
class ParameterAverage {
 public:
  /// Starts at the parameters' values. `parameters` must outlive it.
  ParameterAverage(FlatParameters& parameters, double decay);

  void update();
  /// Exchanges the parameters' values with the averages; a second call exchanges them back.
  void swap();
  /// As AdamW's, under "average.".
  std::vector<tensor::NamedTensor> state() const;
  void load_state(const tensor::TensorFile& checkpoint);

 private:
  FlatParameters& parameters_;
  double decay_;
  std::vector<at::Tensor> averages_;
};

}  // namespace lagom::train
