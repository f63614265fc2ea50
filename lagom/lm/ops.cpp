#include "lagom/lm/ops.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "lagom/lm/kernels.h"

namespace lagom::lm {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

/// Rows per task so that a task has enough to do to be worth a thread.
int64_t grain_of(int64_t width) {
  return std::max<int64_t>(1, 16384 / std::max<int64_t>(1, width));
}

/// Calls body with a float* or, for bfloat16, a uint16_t* of nothing: the element type's tag.
template <typename Body>
void for_element_type(const Tensor& x, Body&& body) {
  if (x.scalar_type() == at::kBFloat16) {
    body(static_cast<uint16_t*>(nullptr));
  } else {
    body(static_cast<float*>(nullptr));
  }
}

template <typename T>
const T* elements(const Tensor& x, T*) {
  return static_cast<const T*>(x.const_data_ptr());
}
template <typename T>
T* elements_to_set(const Tensor& x, T*) {
  return static_cast<T*>(x.mutable_data_ptr());
}

class RmsNorm : public Function<RmsNorm> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& input, const Tensor& weight,
                        double epsilon, bool bfloat16) {
    const Tensor x = input.contiguous();
    const int64_t width = x.size(-1), rows = x.numel() / width;
    Tensor y = at::empty_like(x, bfloat16 ? at::kBFloat16 : at::kFloat);
    const Tensor inverse = at::empty({rows}, x.options());
    at::parallel_for(0, rows, grain_of(width), [&](int64_t begin, int64_t end) {
      for_element_type(y, [&](auto* tag) {
        kernels::rms_norm(x.const_data_ptr<float>() + begin * width, weight.const_data_ptr<float>(),
                          end - begin, width, static_cast<float>(epsilon),
                          elements_to_set(y, tag) + begin * width,
                          inverse.mutable_data_ptr<float>() + begin);
      });
    });
    ctx->save_for_backward({x, weight, inverse});
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &inverse = saved[2];
    const Tensor grad_y = grads[0].contiguous();
    const int64_t width = x.size(-1), rows = x.numel() / width;
    Tensor grad_x = at::empty_like(x);
    Tensor grad_weight = at::zeros_like(weight);
    std::mutex mutex;
    at::parallel_for(0, rows, grain_of(width) * 8, [&](int64_t begin, int64_t end) {
      const Tensor part = at::zeros_like(weight);
      for_element_type(grad_y, [&](auto* tag) {
        kernels::rms_norm_gradient(
            elements(grad_y, tag) + begin * width, x.const_data_ptr<float>() + begin * width,
            weight.const_data_ptr<float>(), inverse.const_data_ptr<float>() + begin, end - begin,
            width, grad_x.mutable_data_ptr<float>() + begin * width,
            part.mutable_data_ptr<float>());
      });
      const std::lock_guard lock(mutex);
      grad_weight.add_(part);
    });
    return {grad_x, grad_weight, Tensor(), Tensor()};
  }
};

class Gelu : public Function<Gelu> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& input) {
    const Tensor x = input.contiguous();
    Tensor y = at::empty_like(x);
    at::parallel_for(0, x.numel(), 16384, [&](int64_t begin, int64_t end) {
      for_element_type(x, [&](auto* tag) {
        kernels::gelu(elements(x, tag) + begin, end - begin, elements_to_set(y, tag) + begin);
      });
    });
    ctx->save_for_backward({x});
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const Tensor x = ctx->get_saved_variables()[0];
    const Tensor grad_y = grads[0].contiguous();
    Tensor grad_x = at::empty_like(x);
    at::parallel_for(0, x.numel(), 16384, [&](int64_t begin, int64_t end) {
      for_element_type(x, [&](auto* tag) {
        kernels::gelu_gradient(elements(grad_y, tag) + begin, elements(x, tag) + begin, end - begin,
                               elements_to_set(grad_x, tag) + begin);
      });
    });
    return {grad_x};
  }
};

class Swiglu : public Function<Swiglu> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& input) {
    const Tensor x = input.contiguous();
    const int64_t width = x.size(-1) / 2, rows = x.numel() / (2 * width);
    auto sizes = x.sizes().vec();
    sizes.back() = width;
    Tensor y = at::empty(sizes, x.options());
    at::parallel_for(0, rows, grain_of(width), [&](int64_t begin, int64_t end) {
      for_element_type(x, [&](auto* tag) {
        kernels::swiglu(elements(x, tag) + begin * 2 * width, end - begin, width,
                        elements_to_set(y, tag) + begin * width);
      });
    });
    ctx->save_for_backward({x});
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const Tensor x = ctx->get_saved_variables()[0];
    const Tensor grad_y = grads[0].contiguous();
    const int64_t width = x.size(-1) / 2, rows = x.numel() / (2 * width);
    Tensor grad_x = at::empty_like(x);
    at::parallel_for(0, rows, grain_of(width), [&](int64_t begin, int64_t end) {
      for_element_type(x, [&](auto* tag) {
        kernels::swiglu_gradient(elements(grad_y, tag) + begin * width,
                                 elements(x, tag) + begin * 2 * width, end - begin, width,
                                 elements_to_set(grad_x, tag) + begin * 2 * width);
      });
    });
    return {grad_x};
  }
};

class AddRows : public Function<AddRows> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& input,
                        const Tensor& indices, const Tensor& scale) {
    const Tensor update = input.contiguous();
    Tensor out = x.clone(at::MemoryFormat::Contiguous);
    kernels::add_rows(update.const_data_ptr<float>(), scale.const_data_ptr<float>(),
                      indices.const_data_ptr<int64_t>(), update.size(0), update.size(1),
                      out.mutable_data_ptr<float>());
    ctx->save_for_backward({update, indices, scale});
    return out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &update = saved[0], &indices = saved[1], &scale = saved[2];
    const Tensor grad_out = grads[0].contiguous();
    Tensor grad_update = at::empty_like(update);
    Tensor grad_scale = at::empty_like(scale);
    kernels::add_rows_gradient(grad_out.const_data_ptr<float>(), update.const_data_ptr<float>(),
                               scale.const_data_ptr<float>(), indices.const_data_ptr<int64_t>(),
                               update.size(0), update.size(1),
                               grad_update.mutable_data_ptr<float>(),
                               grad_scale.mutable_data_ptr<float>());
    return {grad_out, grad_update, Tensor(), grad_scale};
  }
};

class GroupedLinear : public Function<GroupedLinear> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& input, const Tensor& weight,
                        const std::vector<int64_t>& offsets) {
    const Tensor x = input.contiguous();
    const Tensor y = at::empty({x.size(0), weight.size(1)}, x.options());
    for_groups(offsets, [&](int64_t e, int64_t begin, int64_t count) {
      Tensor part = y.narrow(0, begin, count);
      at::mm_out(part, x.narrow(0, begin, count), weight[e].t());
    });
    ctx->save_for_backward({x, weight});
    ctx->saved_data["offsets"] = offsets;
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1];
    const Tensor grad_y = grads[0].contiguous();
    const Tensor grad_x = at::empty_like(x);
    const Tensor grad_weight = at::empty_like(weight);
    const auto offsets = ctx->saved_data["offsets"].toIntVector();
    for (int64_t e = 0; e < weight.size(0); ++e) {
      const auto at = static_cast<size_t>(e);
      if (offsets[at] == offsets[at + 1]) grad_weight[e].zero_();
    }
    for_groups(offsets, [&](int64_t e, int64_t begin, int64_t count) {
      const Tensor grad = grad_y.narrow(0, begin, count);
      Tensor part = grad_x.narrow(0, begin, count), expert = grad_weight[e];
      at::mm_out(part, grad, weight[e]);
      at::mm_out(expert, grad.t(), x.narrow(0, begin, count));
    });
    return {grad_x, grad_weight, Tensor()};
  }

 private:
  template <typename Body>
  static void for_groups(const std::vector<int64_t>& offsets, Body&& body) {
    for (size_t e = 0; e + 1 < offsets.size(); ++e) {
      const int64_t count = offsets[e + 1] - offsets[e];
      if (count > 0) body(static_cast<int64_t>(e), offsets[e], count);
    }
  }
};

class NextTokenLoss : public Function<NextTokenLoss> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& input, const Tensor& head,
                        const Tensor& targets) {
    const Tensor hidden = input.contiguous();
    const int64_t rows = hidden.size(0), vocab = head.size(0);
    const int64_t* target = targets.const_data_ptr<int64_t>();
    int64_t counted = 0;
    for (int64_t r = 0; r < rows; ++r) counted += target[r] >= 0;
    const float scale = counted > 0 ? 1.0F / static_cast<float>(counted) : 0.0F;
    const bool keep = input.requires_grad() || head.requires_grad();
    Tensor grad_hidden = keep ? at::empty_like(hidden) : Tensor();
    Tensor grad_head = keep ? at::zeros_like(head) : Tensor();
    // 8 MB of logits: they stay in the cache between softmax and the two products.
    const int64_t chunk = std::clamp<int64_t>((int64_t{2} << 20) / vocab, 1, rows);
    double total = 0;
    for (int64_t begin = 0; begin < rows; begin += chunk) {
      const int64_t n = std::min(chunk, rows - begin);
      const Tensor part = hidden.narrow(0, begin, n);  // [n, D]
      Tensor logits = at::linear(part, head);          // [n, V], soon their gradient
      total += softmax_rows(logits, target + begin, scale);
      if (!keep) continue;
      Tensor grad_part = grad_hidden.narrow(0, begin, n);
      at::mm_out(grad_part, logits, head);
      grad_head.addmm_(logits.t(), part);
    }
    ctx->save_for_backward({grad_hidden, grad_head});
    return at::scalar_tensor(total * scale, hidden.options());
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    return {saved[0] * grads[0], saved[1] * grads[0], Tensor()};
  }

 private:
  /// Logits to gradients; returns the sum of the counted rows' losses.
  static double softmax_rows(Tensor& logits, const int64_t* target, float scale) {
    const int64_t rows = logits.size(0), vocab = logits.size(1);
    float* const data = logits.mutable_data_ptr<float>();
    std::vector<float> losses(static_cast<size_t>(rows), 0.0F);
    at::parallel_for(0, rows, grain_of(vocab), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        if (target[r] >= 0) {
          losses[static_cast<size_t>(r)] =
              kernels::cross_entropy_in_place(data + r * vocab, vocab, target[r], scale);
        } else {
          std::fill_n(data + r * vocab, vocab, 0.0F);
        }
      }
    });
    double total = 0;
    for (const float loss : losses) total += loss;
    return total;
  }
};

}  // namespace

Tensor rms_norm(const Tensor& x, const Tensor& weight, double epsilon, bool bfloat16) {
  return RmsNorm::apply(x, weight, epsilon, bfloat16);
}

Tensor gelu_tanh(const Tensor& x) {
  return Gelu::apply(x);
}

Tensor swiglu(const Tensor& gate_up) {
  return Swiglu::apply(gate_up);
}

Tensor add_rows(const Tensor& x, const Tensor& update, const Tensor& indices, const Tensor& scale) {
  return AddRows::apply(x, update, indices,
                        scale.defined() ? scale : at::ones({indices.size(0)}, x.options()));
}

std::span<const float> row_of(const Tensor& x, int64_t row) {
  const int64_t width = x.size(1);
  return {x.const_data_ptr<float>() + row * width, static_cast<size_t>(width)};
}

Tensor grouped_linear(const Tensor& x, const Tensor& weight, const std::vector<int64_t>& offsets) {
  TORCH_CHECK_VALUE(x.dim() == 2 && weight.dim() == 3 && weight.size(2) == x.size(1) &&
                        std::ssize(offsets) == weight.size(0) + 1 && offsets.front() == 0 &&
                        offsets.back() == x.size(0),
                    "grouped_linear: expected x [P, in], weight [E, out, in] and offsets from 0 to "
                    "P, got ",
                    x.sizes(), ", ", weight.sizes(), " and ", offsets);
  return GroupedLinear::apply(x, weight, offsets);
}

Tensor next_token_loss(const Tensor& hidden, const Tensor& head, const Tensor& targets) {
  TORCH_CHECK_VALUE(hidden.dim() == 2 && hidden.size(0) == targets.numel(),
                    "next_token_loss: expected hidden [N, D] and targets [N], got ", hidden.sizes(),
                    " and ", targets.sizes());
  TORCH_CHECK_VALUE(targets.numel() == 0 || targets.max().item<int64_t>() < head.size(0),
                    "next_token_loss: a target is beyond the vocabulary of ", head.size(0));
  return NextTokenLoss::apply(hidden, head, targets.contiguous());
}

}  // namespace lagom::lm
