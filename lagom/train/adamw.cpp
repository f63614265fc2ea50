#include "lagom/train/adamw.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <optional>
#include <stdexcept>

#include "lagom/train/check_field.h"

namespace lagom::train {
namespace {

void copy_state(const tensor::TensorFile& checkpoint, const std::vector<tensor::NamedTensor>& to) {
  const at::NoGradGuard no_gradients;
  for (const auto& [name, tensor] : to) {
    const at::Tensor from = checkpoint.find(name);
    if (!from.defined()) throw std::invalid_argument("the checkpoint has no '" + name + "'");
    if (from.sizes() != tensor.sizes() || from.scalar_type() != tensor.scalar_type()) {
      throw std::invalid_argument("the checkpoint's '" + name + "' has " +
                                  std::to_string(from.numel()) + " values, expected " +
                                  std::to_string(tensor.numel()));
    }
    tensor.copy_(from);
  }
}

}  // namespace

void AdamWOptions::validate() const {
  check_field(beta1 >= 0 && beta1 < 1, "beta1", "a number in [0, 1)", beta1);
  check_field(beta2 >= 0 && beta2 < 1, "beta2", "a number in [0, 1)", beta2);
  check_field(epsilon > 0 && std::isfinite(epsilon), "epsilon", "a number above 0", epsilon);
  check_field(clip_norm >= 0 && std::isfinite(clip_norm), "clip_norm", "a number from 0",
              clip_norm);
}

AdamW::AdamW(FlatParameters& parameters, AdamWOptions options)
    : parameters_(parameters), options_(options) {
  options_.validate();
  for (const FlatParameters::Group& group : parameters_.groups()) {
    moments_.push_back(
        {at::zeros_like(group.values), at::zeros_like(group.values), at::zeros({}, at::kFloat)});
  }
}

AdamW::Report AdamW::step(double learning_rate, std::string_view only_group) {
  const at::NoGradGuard no_gradients;
  const auto is_left_out = [&](const FlatParameters::Group& group) {
    return !only_group.empty() && group.options.name != only_group;
  };
  Report report;
  for (const FlatParameters::Group& group : parameters_.groups()) {
    if (is_left_out(group)) continue;
    report.gradient_norms[group.options.clip_set] += sum_of_squares(group.gradients);
  }
  for (auto& [name, norm] : report.gradient_norms) {
    norm = std::sqrt(norm);
    report.is_finite = report.is_finite && std::isfinite(norm);
  }
  if (!report.is_finite) return report;
  for (size_t i = 0; i < moments_.size(); ++i) {
    const FlatParameters::Group& group = parameters_.groups()[i];
    if (group.values.numel() == 0 || is_left_out(group)) continue;
    Moments& moments = moments_[i];
    moments.step += 1;
    std::optional<at::Tensor> divisor;  // of the gradients
    const double norm = report.gradient_norms.at(group.options.clip_set);
    if (options_.clip_norm > 0 && norm > options_.clip_norm) {
      divisor = at::full({}, norm / options_.clip_norm, at::kFloat);
    }
    at::_fused_adamw_({group.values}, {group.gradients}, {moments.exp_avg}, {moments.exp_avg_sq},
                      /*max_exp_avg_sqs=*/{}, {moments.step},
                      learning_rate * group.options.learning_rate_scale, options_.beta1,
                      options_.beta2, group.options.weight_decay, options_.epsilon,
                      /*amsgrad=*/false, /*maximize=*/false, divisor, /*found_inf=*/{});
  }
  return report;
}

std::vector<tensor::NamedTensor> AdamW::state() const {
  std::vector<tensor::NamedTensor> state;
  for (size_t i = 0; i < moments_.size(); ++i) {
    const std::string prefix = "optimizer." + parameters_.groups()[i].options.name + ".";
    state.emplace_back(prefix + "exp_avg", moments_[i].exp_avg);
    state.emplace_back(prefix + "exp_avg_sq", moments_[i].exp_avg_sq);
    state.emplace_back(prefix + "step", moments_[i].step);
  }
  return state;
}

void AdamW::load_state(const tensor::TensorFile& checkpoint) {
  copy_state(checkpoint, state());
}

ParameterAverage::ParameterAverage(FlatParameters& parameters, double decay)
    : parameters_(parameters), decay_(decay) {
  for (const FlatParameters::Group& group : parameters_.groups()) {
    averages_.push_back(group.values.clone());
  }
}

void ParameterAverage::update() {
  const at::NoGradGuard no_gradients;
  for (size_t i = 0; i < averages_.size(); ++i) {
    averages_[i].lerp_(parameters_.groups()[i].values, 1 - decay_);
  }
}

void ParameterAverage::swap() {
  const at::NoGradGuard no_gradients;
  for (size_t i = 0; i < averages_.size(); ++i) {
    const at::Tensor& values = parameters_.groups()[i].values;
    const at::Tensor before = values.clone();
    values.copy_(averages_[i]);
    averages_[i].copy_(before);
  }
}

std::vector<tensor::NamedTensor> ParameterAverage::state() const {
  std::vector<tensor::NamedTensor> state;
  for (size_t i = 0; i < averages_.size(); ++i) {
    state.emplace_back("average." + parameters_.groups()[i].options.name, averages_[i]);
  }
  return state;
}

void ParameterAverage::load_state(const tensor::TensorFile& checkpoint) {
  copy_state(checkpoint, state());
}

}  // namespace lagom::train
