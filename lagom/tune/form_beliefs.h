#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lagom/tune/neighbours.h"
#include "lagom/tune/space.h"

namespace lagom::tune {

/// A learned cost model's word on configurations of a module: [configurations] costs whose
/// differences are logarithms of ratios of run times; lower is faster. Throws FormatError when the
/// model does not fit such modules.
using CostFunction = std::function<std::vector<double>(
    const hlo::Module& module, const std::vector<rewrite::Configuration>& configurations)>;

/// A learned cost model with the devices of the measurements it was trained on.
struct CostModel {
  CostFunction costs;                ///< Empty: there is none.
  std::vector<std::string> devices;  ///< Of measure::device_key; empty: not known.
};

/// What is believed of the forms of kernels before they are measured, from three sources: how often
/// forms win where a survey found them promising, what was measured of similar nodes, and a learned
/// cost model.
class FormBeliefs {
 public:
  /// `device`: what is tuned for (measure::device_key). A model of another kind of device is not
  /// asked; one of another compiler or other CPUs is believed less (doubt_of_device).
  /// `model_deviation` is its error in log(ratio) on its own device, by default that of
  /// models/kernel_xla_cpu.safetensors.
  FormBeliefs(Neighbours neighbours, CostModel model, std::string_view device,
              double model_deviation = 0.5);

  /// By the places of Kernel::rules: log(seconds in the form / seconds as it is). Once the model
  /// has refused a kernel it is not asked again, and `model_error` says why.
  std::vector<Belief> of(const Kernel& kernel);

  const std::string& model_error() const { return model_error_; }
  /// Why the model is believed much less than on its own device; empty where it is not.
  const std::string& model_doubt() const { return model_doubt_; }
  bool has_model() const { return static_cast<bool>(costs_); }
  size_t num_neighbours() const { return neighbours_.size(); }

 private:
  Neighbours neighbours_;
  CostFunction costs_;
  double model_deviation_;
  std::string model_error_, model_doubt_;
};

}  // namespace lagom::tune
