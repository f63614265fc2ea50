#include "lagom/cost_model/losses.h"

#include <ATen/ATen.h>

namespace lagom::cost_model {
namespace {

at::Tensor mean_of_pairs(const at::Tensor& values, const at::Tensor& pairs, bool over_all) {
  const at::Tensor sum = (values * pairs).sum();
  if (over_all) return sum / static_cast<double>(pairs.numel());
  return sum / pairs.sum().clamp_min(1);
}

at::Tensor hinge(const at::Tensor& differences, const at::Tensor& pairs, double margin,
                 bool over_all) {
  return mean_of_pairs((margin - differences).relu(), pairs, over_all);
}

at::Tensor list_mle(const at::Tensor& costs, const at::Tensor& runtimes,
                    const LossOptions& options) {
  const at::Tensor order = runtimes.argsort(/*stable=*/true, /*dim=*/0,
                                            /*descending=*/!options.fastest_first);
  const double sign = options.fastest_first ? -1 : 1;
  const at::Tensor placed = costs.index_select(0, order) * (sign / options.temperature);
  // log of the sum over the k-th and all later ones.
  const at::Tensor rest = placed.flip(0).logcumsumexp(0).flip(0);
  return (rest - placed).sum();
}

}  // namespace

void LossOptions::validate() const {
  const auto check = [](bool ok, const char* field, double value) {
    TORCH_CHECK_VALUE(ok, "LossOptions: ", field, " is out of range: ", value);
  };
  check(hinge >= 0, "hinge", hinge);
  check(logistic >= 0, "logistic", logistic);
  check(list_mle >= 0, "list_mle", list_mle);
  check(diff_mat >= 0, "diff_mat", diff_mat);
  check(mse >= 0, "mse", mse);
  check(log_mse >= 0, "log_mse", log_mse);
  check(mape >= 0, "mape", mape);
  check(margin > 0, "margin", margin);
  check(diff_mat_margin > 0, "diff_mat_margin", diff_mat_margin);
  check(noise_floor >= 0, "noise_floor", noise_floor);
  check(temperature > 0, "temperature", temperature);
}

at::Tensor pairs_that_count(const at::Tensor& runtimes, const at::Tensor& uncertainties,
                            double noise_floor, at::ScalarType dtype) {
  const at::Tensor gap = runtimes.unsqueeze(1) - runtimes.unsqueeze(0);              // [C, C]
  const at::Tensor noise = uncertainties.unsqueeze(1) + uncertainties.unsqueeze(0);  // [C, C]
  const at::Tensor floor = (runtimes * noise_floor).unsqueeze(0).maximum(noise);     // [C, C]
  return (gap > floor).to(dtype);
}

at::Tensor ranking_loss(const at::Tensor& costs, const at::Tensor& runtimes,
                        const at::Tensor& uncertainties, const LossOptions& options) {
  TORCH_CHECK_VALUE(costs.dim() == 1 && runtimes.sizes() == costs.sizes(),
                    "ranking_loss: expected costs and runtimes [C], got ", costs.sizes(), " and ",
                    runtimes.sizes());
  at::Tensor loss = at::zeros({}, costs.options());
  if (options.hinge > 0 || options.logistic > 0 || options.diff_mat > 0) {
    const at::Tensor pairs =
        pairs_that_count(runtimes, uncertainties, options.noise_floor, costs.scalar_type());
    const at::Tensor differences = costs.unsqueeze(1) - costs.unsqueeze(0);  // [C, C]
    if (options.hinge > 0) {
      loss =
          loss + options.hinge * hinge(differences, pairs, options.margin, options.over_all_pairs);
    }
    if (options.logistic > 0) {
      loss = loss + options.logistic *
                        mean_of_pairs(-at::log_sigmoid(differences), pairs, options.over_all_pairs);
    }
    if (options.diff_mat > 0) {
      loss = loss + options.diff_mat / options.diff_mat_margin *
                        hinge(differences, pairs, options.diff_mat_margin, /*over_all=*/false);
    }
  }
  if (options.list_mle > 0) loss = loss + options.list_mle * list_mle(costs, runtimes, options);
  if (options.mse > 0 || options.mape > 0) {
    const at::Tensor target = runtimes.to(costs.scalar_type());
    const at::Tensor error = costs - target;
    if (options.mse > 0) loss = loss + options.mse * error.square().mean();
    if (options.mape > 0) loss = loss + options.mape * (error.abs() / target).mean();
  }
  if (options.log_mse > 0) {
    const at::Tensor error = costs - runtimes.log().to(costs.scalar_type());
    loss = loss + options.log_mse * error.square().mean();
  }
  return loss;
}

}  // namespace lagom::cost_model
