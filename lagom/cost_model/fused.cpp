#include "lagom/cost_model/fused.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lagom/cost_model/fused_kernels.h"
#include "lagom/tensor/kept_value.h"

namespace lagom::cost_model {
namespace {

using tensor::DotPrecision;
using tensor::KeptValue;
using tensor::SegmentIndexPtr;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using OptionalTensor = std::optional<at::Tensor>;
using NormPtr = std::shared_ptr<const ColumnNorm>;

const float* data(const at::Tensor& x) {
  return x.defined() ? x.const_data_ptr<float>() : nullptr;
}

at::Tensor contiguous(const OptionalTensor& x) {
  return x ? x->contiguous() : at::Tensor();
}

at::Tensor tensor_of(const std::vector<float>& values, const at::Tensor& like) {
  at::Tensor out = at::empty(like.sizes(), at::kFloat);
  std::copy(values.begin(), values.end(), out.mutable_data_ptr<float>());
  return out;
}

NormPtr norm_of(const at::Tensor& x, bool has_norm) {
  if (!has_norm) return nullptr;
  return std::make_shared<ColumnNorm>(
      column_norm(x.const_data_ptr<float>(), x.size(0), x.numel() / x.size(0)));
}

DotPrecision precision(bool bf16) {
  return bf16 ? DotPrecision::kBfloat16 : DotPrecision::kFloat;
}

struct BlockTailFunction : torch::autograd::Function<BlockTailFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x_in,
                            const OptionalTensor& residual_in, const OptionalTensor& down,
                            const OptionalTensor& down_bias, const OptionalTensor& up,
                            const OptionalTensor& up_bias, const OptionalTensor& temperature,
                            const FusedTailOptions& options) {
    const at::Tensor x = x_in.contiguous();
    const variable_list saved = {x,
                                 contiguous(residual_in),
                                 contiguous(down),
                                 contiguous(down_bias),
                                 contiguous(up),
                                 contiguous(up_bias),
                                 contiguous(temperature)};
    const NormPtr norm = norm_of(x, options.has_norm);
    const TailShape shape = shape_of(saved, options);
    at::Tensor out = at::empty({shape.nodes, shape.configs, shape.out_width()}, x.options());
    block_tail_forward(shape, weights_of(saved), data(x), norm.get(), data(saved[1]),
                       out.mutable_data_ptr<float>());
    context->save_for_backward(saved);
    context->saved_data["options"] = KeptValue<FusedTailOptions>::keep(options);
    context->saved_data["norm"] = KeptValue<NormPtr>::keep(norm);
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto& options = KeptValue<FusedTailOptions>::of(context->saved_data["options"]);
    const auto& norm = KeptValue<NormPtr>::of(context->saved_data["norm"]);
    const TailShape shape = shape_of(saved, options);
    at::Tensor grad = gradients[0];
    // The mean over nodes hands one row to all of them.
    const bool is_one_row = grad.stride(0) == 0 && grad.select(0, 0).is_contiguous();
    if (!is_one_row) grad = grad.contiguous();
    at::Tensor grad_x = at::empty_like(saved[0]);
    at::Tensor grad_residual;
    if (saved[1].defined()) grad_residual = at::empty_like(saved[1]);
    const TailGradients sums = block_tail_backward(
        shape, weights_of(saved), data(saved[0]), norm.get(), data(saved[1]), data(grad),
        is_one_row ? 0 : shape.configs * shape.out_width(), grad_x.mutable_data_ptr<float>(),
        grad_residual.defined() ? grad_residual.mutable_data_ptr<float>() : nullptr);
    variable_list out = {grad_x,       grad_residual, at::Tensor(), at::Tensor(),
                         at::Tensor(), at::Tensor(),  at::Tensor(), at::Tensor()};
    if (saved[2].defined()) {
      out[2] = tensor_of(sums.down, saved[2]);
      out[3] = tensor_of(sums.down_bias, saved[3]);
      out[4] = tensor_of(sums.up, saved[4]);
      out[5] = tensor_of(sums.up_bias, saved[5]);
    }
    if (saved[6].defined()) out[6] = at::full({}, sums.temperature);
    return out;
  }

 private:
  static TailShape shape_of(const variable_list& saved, const FusedTailOptions& options) {
    return {.nodes = saved[0].size(0),
            .configs = saved[0].size(1),
            .width = saved[0].size(2),
            .has_cross = saved[6].defined(),
            .temperature = saved[6].defined() ? saved[6].item<float>() : 1,
            .dropout = {.share = static_cast<float>(options.dropout), .seed = options.dropout_seed},
            .precision = precision(options.bf16_dots)};
  }
  static TailWeights weights_of(const variable_list& saved) {
    return {.down = data(saved[2]),
            .down_bias = data(saved[3]),
            .up = data(saved[4]),
            .up_bias = data(saved[5]),
            .hidden = saved[2].defined() ? saved[2].size(0) : 0};
  }
};

struct SageFunction : torch::autograd::Function<SageFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x_in,
                            const OptionalTensor& neighbors, const at::Tensor& self,
                            const at::Tensor& bias, const SegmentIndexPtr& index, bool has_norm,
                            bool bf16) {
    const variable_list saved = {x_in.contiguous(), contiguous(neighbors), self.contiguous()};
    const at::Tensor& x = saved[0];
    const NormPtr norm = norm_of(x, has_norm);
    const ConvShape shape = shape_of(saved, bf16);
    at::Tensor out = at::empty({shape.nodes, shape.configs, shape.out}, x.options());
    const at::Tensor flat_bias = bias.contiguous();
    sage_forward(shape, index.get(), data(saved[1]), data(saved[2]), data(flat_bias), data(x),
                 norm.get(), out.mutable_data_ptr<float>());
    context->save_for_backward(saved);
    context->saved_data["index"] = KeptValue<SegmentIndexPtr>::keep(index);
    context->saved_data["norm"] = KeptValue<NormPtr>::keep(norm);
    context->saved_data["bf16"] = bf16;
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto& index = KeptValue<SegmentIndexPtr>::of(context->saved_data["index"]);
    const auto& norm = KeptValue<NormPtr>::of(context->saved_data["norm"]);
    const ConvShape shape = shape_of(saved, context->saved_data["bf16"].toBool());
    const at::Tensor grad = gradients[0].contiguous();
    at::Tensor grad_x;
    if (context->needs_input_grad(0)) grad_x = at::empty_like(saved[0]);
    const ConvGradients sums = sage_backward(
        shape, index.get(), data(saved[1]), data(saved[2]), data(saved[0]), norm.get(), data(grad),
        grad_x.defined() ? grad_x.mutable_data_ptr<float>() : nullptr);
    return {grad_x,
            saved[1].defined() ? tensor_of(sums.neighbors, saved[1]) : at::Tensor(),
            tensor_of(sums.self, saved[2]),
            tensor_of(sums.bias, at::empty({shape.out})),
            at::Tensor(),
            at::Tensor(),
            at::Tensor()};
  }

 private:
  static ConvShape shape_of(const variable_list& saved, bool bf16) {
    return {.nodes = saved[0].size(0),
            .configs = saved[0].size(1),
            .in = saved[0].size(2),
            .out = saved[2].size(0),
            .precision = precision(bf16)};
  }
};

struct InstanceNormFunction : torch::autograd::Function<InstanceNormFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x_in) {
    const at::Tensor x = x_in.contiguous();
    const NormPtr norm = norm_of(x, true);
    at::Tensor out = at::empty_like(x);
    normalize(data(x), x.size(0), x.numel() / x.size(0), *norm, out.mutable_data_ptr<float>());
    context->save_for_backward({x});
    context->saved_data["norm"] = KeptValue<NormPtr>::keep(norm);
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor x = context->get_saved_variables()[0];
    const auto& norm = KeptValue<NormPtr>::of(context->saved_data["norm"]);
    const at::Tensor grad = gradients[0].clone(at::MemoryFormat::Contiguous);
    normalize_backward(data(x), x.size(0), x.numel() / x.size(0), *norm,
                       grad.mutable_data_ptr<float>());
    return {grad};
  }
};

}  // namespace

at::Tensor fused_block_tail(const at::Tensor& x, const at::Tensor& residual,
                            const FusedTailParameters& parameters,
                            const FusedTailOptions& options) {
  OptionalTensor optional_residual;
  if (residual.defined()) optional_residual = residual;
  return BlockTailFunction::apply(x, optional_residual, parameters.down, parameters.down_bias,
                                  parameters.up, parameters.up_bias, parameters.temperature,
                                  options);
}

at::Tensor fused_sage(const at::Tensor& x, const SegmentIndexPtr& index,
                      const at::Tensor& neighbors, const at::Tensor& self, const at::Tensor& bias,
                      bool has_norm, bool bf16_dots) {
  return SageFunction::apply(x, OptionalTensor(neighbors), self, bias, index, has_norm, bf16_dots);
}

at::Tensor fused_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                        bool bf16_dots) {
  const int64_t rows = x.numel() / weight.size(1);
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() = weight.size(0);
  const at::Tensor flat_bias = bias.defined() ? bias : at::zeros({weight.size(0)});
  return SageFunction::apply(x.reshape({rows, 1, x.size(-1)}), OptionalTensor(), weight, flat_bias,
                             SegmentIndexPtr(), false, bf16_dots)
      .view(sizes);
}

at::Tensor fused_instance_norm(const at::Tensor& x) {
  return InstanceNormFunction::apply(x);
}

at::Tensor hash_dropout_factors(const at::Tensor& x, double share, uint32_t seed) {
  at::Tensor factors = at::empty(x.sizes(), at::kFloat);
  dropout_factors({.share = static_cast<float>(share), .seed = seed}, x.numel(),
                  factors.mutable_data_ptr<float>());
  return factors.to(x.scalar_type());
}

}  // namespace lagom::cost_model
