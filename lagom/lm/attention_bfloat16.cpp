#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "lagom/lm/attention.h"
#include "lagom/lm/kernels.h"

// Products go by blocks of queries (scores, outputs, gradients of queries) or of keys (gradients of
// keys and values), so that each result is summed, and rounded, once. Of a block of queries only
// the keys up to its end are kept: [N, rows, columns]. LibTorch's batched products copy operands
// that are not contiguous, slowly where they are transposed too: here they are made contiguous
// first.

namespace lagom::lm {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kBlock = 128;
constexpr int64_t kFixed = 6;  // saved tensors before the blocks

/// Heads first: query head k G + g, which key head k serves, is queries[g] at k; N = K B.
struct Heads {
  Tensor queries;       ///< [G, N, T, head_dim]
  Tensor keys, values;  ///< [N, T, head_dim]
};

/// Views of qkv [B, T, (H + 2 K) head_dim] with heads first, [G, K, B, T, head_dim] and so on.
std::array<Tensor, 3> head_views(const Tensor& qkv, const AttentionPlaces& p) {
  const int64_t batch = qkv.size(0), length = qkv.size(1);
  const int64_t group = p.num_heads / p.num_kv_heads, width = p.num_kv_heads * p.head_dim;
  const auto part = [&](int64_t begin, int64_t count) {
    return qkv.narrow(2, begin, count * width)
        .view({batch, length, p.num_kv_heads, count, p.head_dim})
        .permute({3, 2, 0, 1, 4});
  };
  const int64_t keys = group * width;
  return {part(0, group), part(keys, 1).squeeze(0), part(keys + width, 1).squeeze(0)};
}

/// Rows [begin, begin + count) of x [N, T, head_dim].
Tensor rows_of(const Tensor& x, int64_t begin, int64_t count) {
  return x.narrow(1, begin, count).contiguous();
}

Tensor transposed(const Tensor& x) {
  return x.transpose(1, 2);
}

uint16_t* halves(const Tensor& x) {
  return static_cast<uint16_t*>(x.mutable_data_ptr());
}

/// body(n, row, offset of that row) for a block [N, rows, columns], shared among threads.
template <typename Body>
void for_rows(const Tensor& block, Body&& body) {
  const int64_t rows = block.size(1), columns = block.size(2);
  at::parallel_for(0, block.size(0) * rows, 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(i / rows, i % rows, i * columns);
  });
}

class Bfloat16Attention : public torch::autograd::Function<Bfloat16Attention> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& input, const AttentionPlaces* p) {
    const Tensor qkv = input.detach();
    if (p->positions.defined()) rotate_rows(qkv, *p, /*inverse=*/false);
    const int64_t batch = qkv.size(0), length = qkv.size(1), kv_heads = p->num_kv_heads;
    const Heads heads = split(qkv, *p);
    const Tensor first = first_keys(p->segments);
    const auto* first_key = first.defined() ? first.const_data_ptr<int64_t>() : nullptr;
    const float scale = 1 / std::sqrt(static_cast<float>(p->head_dim));
    const int64_t group = heads.queries.size(0);
    const Tensor attended = at::empty_like(heads.queries);  // [G, N, T, head_dim]
    variable_list saved = {heads.queries, heads.keys, heads.values,
                           p->positions,  p->cosines, p->sines};
    for (int64_t g = 0; g < group; ++g) {
      for (int64_t begin = 0; begin < length; begin += kBlock) {
        const int64_t rows = std::min(kBlock, length - begin), columns = begin + rows;
        const Tensor block = at::bmm(rows_of(heads.queries[g], begin, rows),
                                     transposed(rows_of(heads.keys, 0, columns)));
        for_rows(block, [&](int64_t n, int64_t row, int64_t offset) {
          const int64_t first = first_key ? first_key[n % batch * length + begin + row] : 0;
          kernels::causal_softmax(halves(block) + offset, begin + row + 1, columns, first, scale);
        });
        attended[g].narrow(1, begin, rows).copy_(at::bmm(block, rows_of(heads.values, 0, columns)));
        saved.push_back(block);
      }
    }
    ctx->save_for_backward(std::move(saved));
    ctx->saved_data["kv_heads"] = kv_heads;
    return attended.view({group, kv_heads, batch, length, p->head_dim})
        .permute({2, 3, 1, 0, 4})
        .reshape({batch, length, p->num_heads * p->head_dim});
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Heads heads = {saved[0], saved[1], saved[2]};
    const int64_t group = heads.queries.size(0), n = heads.keys.size(0);
    const int64_t length = heads.keys.size(1), head_dim = heads.keys.size(2);
    const int64_t kv_heads = ctx->saved_data["kv_heads"].toInt(), batch = n / kv_heads;
    const AttentionPlaces p = {.positions = saved[3],
                               .cosines = saved[4],
                               .sines = saved[5],
                               .num_heads = group * kv_heads,
                               .num_kv_heads = kv_heads,
                               .head_dim = head_dim};
    const float scale = 1 / std::sqrt(static_cast<float>(head_dim));
    const Tensor grad_out = grads[0]
                                .reshape({batch, length, kv_heads, group, head_dim})
                                .permute({3, 2, 0, 1, 4})
                                .reshape({group, n, length, head_dim});
    const Tensor grad_qkv =
        at::empty({batch, length, (group + 2) * kv_heads * head_dim}, heads.keys.options());
    const auto [grad_queries, grad_keys, grad_values] = head_views(grad_qkv, p);
    const auto set = [&](const Tensor& to, int64_t begin, const Tensor& part, bool add) {
      const Tensor rows = to.narrow(2, begin, part.size(1));  // [K, B, t, head_dim]
      const Tensor heads_first = part.view(rows.sizes());
      add ? rows.add_(heads_first) : rows.copy_(heads_first);
    };
    const int64_t num_blocks = (length + kBlock - 1) / kBlock;
    for (int64_t g = 0; g < group; ++g) {
      const auto* blocks = &saved[static_cast<size_t>(kFixed + g * num_blocks)];
      std::vector<Tensor> grad_blocks;
      for (int64_t i = 0; i < num_blocks; ++i) {
        const Tensor& block = blocks[i];
        const int64_t begin = i * kBlock, columns = block.size(2);
        grad_blocks.push_back(at::bmm(rows_of(grad_out[g], begin, block.size(1)),
                                      transposed(rows_of(heads.values, 0, columns))));
        for_rows(block, [&](int64_t, int64_t, int64_t offset) {
          kernels::softmax_gradient(halves(block) + offset, columns, scale,
                                    halves(grad_blocks.back()) + offset);
        });
        set(grad_queries[g], begin, at::bmm(grad_blocks.back(), rows_of(heads.keys, 0, columns)),
            /*add=*/false);
      }
      for (int64_t i = 0; i < num_blocks; ++i) {
        const int64_t begin = i * kBlock, columns = blocks[i].size(1);
        // Of the queries that see these keys: [N, T - begin, columns].
        const auto seen = [&](const Tensor* all) {
          std::vector<Tensor> parts;
          for (int64_t k = i; k < num_blocks; ++k)
            parts.push_back(all[k].narrow(2, begin, columns));
          return transposed(at::cat(parts, 1));
        };
        const bool add = g > 0;
        set(grad_values, begin, at::bmm(seen(blocks), rows_of(grad_out[g], begin, length - begin)),
            add);
        set(grad_keys, begin,
            at::bmm(seen(grad_blocks.data()), rows_of(heads.queries[g], begin, length - begin)),
            add);
      }
    }
    if (p.positions.defined()) rotate_rows(grad_qkv, p, /*inverse=*/true);
    return {grad_qkv, Tensor()};
  }

 private:
  static Heads split(const Tensor& qkv, const AttentionPlaces& p) {
    const auto [queries, keys, values] = head_views(qkv, p);
    const int64_t n = p.num_kv_heads * qkv.size(0);
    return {queries.reshape({-1, n, qkv.size(1), p.head_dim}),
            keys.reshape({n, qkv.size(1), p.head_dim}),
            values.reshape({n, qkv.size(1), p.head_dim})};
  }
};

}  // namespace

Tensor bfloat16_attention(const Tensor& qkv, const AttentionPlaces& places) {
  return Bfloat16Attention::apply(qkv, &places);
}

}  // namespace lagom::lm
