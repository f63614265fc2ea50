#include "lagom/lm/attention.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>

#include "lagom/lm/kernels.h"

// The BLAS that comes with LibTorch; small products go without the dispatcher's cost.
extern "C" void sgemm_(const char* transa, const char* transb, const int* m, const int* n,
                       const int* k, const float* alpha, const float* a, const int* lda,
                       const float* b, const int* ldb, const float* beta, float* c, const int* ldc);

namespace lagom::lm {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kQueryBlock = 64;

/// The shape of one attention, and where its parts lie.
struct Layout {
  Layout(const Tensor& qkv, int64_t h, int64_t kv, int64_t d)
      : batch(qkv.size(0)),
        length(qkv.size(1)),
        width(qkv.size(2)),
        heads(h),
        kv_heads(kv),
        head_dim(d),
        scale(1 / std::sqrt(static_cast<float>(d))) {
    for (int64_t begin = 0; begin < length; begin += kQueryBlock) {
      const int64_t rows = std::min(kQueryBlock, length - begin);
      blocks.push_back({begin, rows, begin + rows, kept});
      kept += rows * (begin + rows);
    }
  }

  /// Queries [begin, begin + rows) and the keys they may see, [0, columns).
  struct Block {
    int64_t begin, rows, columns, offset;
  };

  int64_t batch, length, width, heads, kv_heads, head_dim;
  float scale;
  std::vector<Block> blocks;
  int64_t kept = 0;  ///< Probabilities of one head.

  int64_t key_column(int64_t kv) const { return (heads + kv) * head_dim; }
  int64_t value_column(int64_t kv) const { return (heads + kv_heads + kv) * head_dim; }
};

/// One key head of one sequence, and all query heads that share it.
void attend(const Layout& l, const float* qkv, const int64_t* first, int64_t kv,
            float* probabilities, float* out) {
  const int64_t group = l.heads / l.kv_heads;
  for (int64_t head = kv * group; head < (kv + 1) * group; ++head) {
    for (const Layout::Block& block : l.blocks) {
      float* p = probabilities + head * l.kept + block.offset;
      matrix_product(false, true, block.rows, block.columns, l.head_dim,
                     qkv + block.begin * l.width + head * l.head_dim, l.width,
                     qkv + l.key_column(kv), l.width, 0, p, block.columns);
      kernels::causal_softmax(p, block.rows, block.columns, block.begin,
                              first ? first + block.begin : nullptr, l.scale);
      const int64_t out_width = l.heads * l.head_dim;
      matrix_product(false, false, block.rows, l.head_dim, block.columns, p, block.columns,
                     qkv + l.value_column(kv), l.width, 0,
                     out + block.begin * out_width + head * l.head_dim, out_width);
    }
  }
}

/// Its gradient. Blocks go from the last to the first: the last one sees every key, so its products
/// set the gradients of keys and values that the others add to.
void attend_gradient(const Layout& l, const float* qkv, const float* probabilities,
                     const float* grad_out, int64_t kv, float* scratch, float* grad_qkv) {
  const int64_t group = l.heads / l.kv_heads, out_width = l.heads * l.head_dim;
  float* grad_keys = grad_qkv + l.key_column(kv);
  float* grad_values = grad_qkv + l.value_column(kv);
  bool is_first = true;
  for (int64_t head = kv * group; head < (kv + 1) * group; ++head) {
    for (auto block = l.blocks.rbegin(); block != l.blocks.rend(); ++block) {
      const float* p = probabilities + head * l.kept + block->offset;
      const float* grad = grad_out + block->begin * out_width + head * l.head_dim;
      const float* queries = qkv + block->begin * l.width + head * l.head_dim;
      const float beta = is_first ? 0 : 1;
      is_first = false;
      matrix_product(true, false, block->columns, l.head_dim, block->rows, p, block->columns, grad,
                     out_width, beta, grad_values, l.width);
      matrix_product(false, true, block->rows, block->columns, l.head_dim, grad, out_width,
                     qkv + l.value_column(kv), l.width, 0, scratch, block->columns);
      kernels::softmax_gradient(p, block->rows, block->columns, l.scale, scratch);
      matrix_product(false, false, block->rows, l.head_dim, block->columns, scratch, block->columns,
                     qkv + l.key_column(kv), l.width, 0,
                     grad_qkv + block->begin * l.width + head * l.head_dim, l.width);
      matrix_product(true, false, block->columns, l.head_dim, block->rows, scratch, block->columns,
                     queries, l.width, beta, grad_keys, l.width);
    }
  }
}

class CausalAttention : public torch::autograd::Function<CausalAttention> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& input, const AttentionPlaces* p) {
    const Tensor qkv = input.detach();
    if (p->positions.defined()) rotate_rows(qkv, *p, /*inverse=*/false);
    const Layout l(qkv, p->num_heads, p->num_kv_heads, p->head_dim);
    const Tensor first = first_keys(p->segments);
    Tensor probabilities = at::empty({l.batch, l.heads * l.kept}, qkv.options());
    Tensor out = at::empty({l.batch, l.length, l.heads * l.head_dim}, qkv.options());
    at::parallel_for(0, l.batch * l.kv_heads, 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t b = task / l.kv_heads;
        attend(l, qkv.const_data_ptr<float>() + b * l.length * l.width,
               first.defined() ? first.const_data_ptr<int64_t>() + b * l.length : nullptr,
               task % l.kv_heads, probabilities.mutable_data_ptr<float>() + b * l.heads * l.kept,
               out.mutable_data_ptr<float>() + b * l.length * l.heads * l.head_dim);
      }
    });
    ctx->save_for_backward({qkv, probabilities, p->positions, p->cosines, p->sines});
    ctx->saved_data["heads"] = p->num_heads;
    ctx->saved_data["kv_heads"] = p->num_kv_heads;
    ctx->saved_data["head_dim"] = p->head_dim;
    return out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &qkv = saved[0], &probabilities = saved[1];
    const AttentionPlaces p = {.positions = saved[2],
                               .cosines = saved[3],
                               .sines = saved[4],
                               .num_heads = ctx->saved_data["heads"].toInt(),
                               .num_kv_heads = ctx->saved_data["kv_heads"].toInt(),
                               .head_dim = ctx->saved_data["head_dim"].toInt()};
    const Layout l(qkv, p.num_heads, p.num_kv_heads, p.head_dim);
    const Tensor grad_out = grads[0].contiguous();
    Tensor grad_qkv = at::empty_like(qkv);
    at::parallel_for(0, l.batch * l.kv_heads, 1, [&](int64_t begin, int64_t end) {
      std::vector<float> scratch(static_cast<size_t>(kQueryBlock * l.length));
      for (int64_t task = begin; task < end; ++task) {
        const int64_t b = task / l.kv_heads;
        attend_gradient(l, qkv.const_data_ptr<float>() + b * l.length * l.width,
                        probabilities.const_data_ptr<float>() + b * l.heads * l.kept,
                        grad_out.const_data_ptr<float>() + b * l.length * l.heads * l.head_dim,
                        task % l.kv_heads, scratch.data(),
                        grad_qkv.mutable_data_ptr<float>() + b * l.length * l.width);
      }
    });
    if (p.positions.defined()) rotate_rows(grad_qkv, p, /*inverse=*/true);
    return {grad_qkv, Tensor()};
  }
};

/// Rotary embedding alone, in place, for attention by ATen.
class Rotate : public torch::autograd::Function<Rotate> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const AttentionPlaces* p) {
    rotate_rows(x, *p, /*inverse=*/false);
    ctx->mark_dirty({x});
    ctx->save_for_backward({p->positions, p->cosines, p->sines});
    ctx->saved_data["heads"] = p->num_heads;
    ctx->saved_data["kv_heads"] = p->num_kv_heads;
    ctx->saved_data["head_dim"] = p->head_dim;
    return x;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor grad = grads[0].clone(at::MemoryFormat::Contiguous);
    rotate_rows(grad,
                {.positions = saved[0],
                 .cosines = saved[1],
                 .sines = saved[2],
                 .num_heads = ctx->saved_data["heads"].toInt(),
                 .num_kv_heads = ctx->saved_data["kv_heads"].toInt(),
                 .head_dim = ctx->saved_data["head_dim"].toInt()},
                /*inverse=*/true);
    return {grad, Tensor()};
  }
};

Tensor flash_attention(Tensor qkv, const AttentionPlaces& p) {
  if (p.positions.defined()) qkv = Rotate::apply(qkv, &p);
  const int64_t batch = qkv.size(0), length = qkv.size(1);
  const auto heads = [&](int64_t begin, int64_t count) {
    return qkv.narrow(2, begin * p.head_dim, count * p.head_dim)
        .view({batch, length, count, p.head_dim})
        .transpose(1, 2);  // [B, count, T, head_dim]
  };
  std::optional<Tensor> mask;
  if (p.segments.defined()) {
    const Tensor same = p.segments.unsqueeze(2) == p.segments.unsqueeze(1);  // [B, T, T]
    mask = same.tril().unsqueeze(1);                                         // [B, 1, T, T]
  }
  const Tensor out = at::scaled_dot_product_attention(
      heads(0, p.num_heads), heads(p.num_heads, p.num_kv_heads),
      heads(p.num_heads + p.num_kv_heads, p.num_kv_heads), mask, /*dropout_p=*/0.0,
      /*is_causal=*/!mask.has_value(), /*scale=*/std::nullopt,
      /*enable_gqa=*/p.num_kv_heads != p.num_heads);
  return out.transpose(1, 2).reshape({batch, length, p.num_heads * p.head_dim});
}

}  // namespace

void matrix_product(bool a_transposed, bool b_transposed, int64_t m, int64_t n, int64_t k,
                    const float* a, int64_t lda, const float* b, int64_t ldb, float beta, float* c,
                    int64_t ldc) {
  // BLAS is column-major: its c is our c transposed, b^T a^T.
  const char first = b_transposed ? 'T' : 'N', second = a_transposed ? 'T' : 'N';
  const auto narrow = [](int64_t value) { return static_cast<int>(value); };
  const int rows = narrow(n), columns = narrow(m), depth = narrow(k);
  const int first_stride = narrow(ldb), second_stride = narrow(lda), stride = narrow(ldc);
  const float alpha = 1;
  sgemm_(&first, &second, &rows, &columns, &depth, &alpha, b, &first_stride, a, &second_stride,
         &beta, c, &stride);
}

Tensor first_keys(const Tensor& segments) {
  if (!segments.defined()) return {};
  const Tensor ids = segments.contiguous();
  Tensor first = at::empty_like(ids);
  const int64_t batch = ids.size(0), length = ids.size(1);
  const auto* id = ids.const_data_ptr<int64_t>();
  auto* out = first.mutable_data_ptr<int64_t>();
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t t = 0; t < length; ++t) {
      const int64_t at = b * length + t;
      out[at] = t > 0 && id[at] == id[at - 1] ? out[at - 1] : t;
    }
  }
  return first;
}

void rotate_rows(const Tensor& x, const AttentionPlaces& p, bool inverse) {
  const int64_t width = x.size(-1), rows = x.numel() / width;
  const Tensor positions = p.positions.contiguous();
  const auto rotate = [&](auto* data) {
    at::parallel_for(0, rows, std::max<int64_t>(1, 16384 / width), [&](int64_t begin, int64_t end) {
      kernels::rotate(data + begin * width, positions.const_data_ptr<int64_t>() + begin,
                      p.cosines.const_data_ptr<float>(), p.sines.const_data_ptr<float>(),
                      end - begin, width, p.num_heads + p.num_kv_heads, p.head_dim, inverse);
    });
  };
  if (x.scalar_type() == at::kBFloat16) {
    rotate(static_cast<uint16_t*>(x.mutable_data_ptr()));
  } else {
    rotate(x.mutable_data_ptr<float>());
  }
}

Tensor causal_attention(const Tensor& qkv, const AttentionPlaces& places) {
  TORCH_INTERNAL_ASSERT(qkv.is_contiguous());
  if (qkv.size(1) <= kernels::kLongestKeptRow) {
    const bool bfloat16 = qkv.scalar_type() == at::kBFloat16;
    return bfloat16 ? bfloat16_attention(qkv, places) : CausalAttention::apply(qkv, &places);
  }
  return flash_attention(qkv.to(at::kFloat), places).to(qkv.scalar_type());
}

}  // namespace lagom::lm
