#include "lagom/lm/decode_matrix.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/t.h>

#include <algorithm>
#include <array>

#include "lagom/lm/decode_rows.h"

namespace lagom::lm {
std::span<const std::string_view> option_names(WeightFormat) {
  static constexpr std::array<std::string_view, 3> kNames = {"float32", "bfloat16", "int8"};
  return kNames;
}

DecodeMatrix::DecodeMatrix(const Linear& linear, WeightFormat format)
    : format_(format),
      weight_(linear.weight.detach().contiguous()),
      bias_(linear.bias),
      out_(weight_.size(0)),
      in_(weight_.size(1)) {
  if (format != WeightFormat::kFloat32) pack(weight_.const_data_ptr<float>());
}

int64_t DecodeMatrix::bytes() const {
  return out_ * in_ * static_cast<int64_t>(sizeof(float)) / values_per_word(format_);
}

void DecodeMatrix::pack(const float* weight) {
  const int64_t groups = kernels::num_groups(out_);
  const at::Tensor packed = at::empty({groups, kernels::words_per_group(format_, in_)}, at::kInt);
  auto* words = static_cast<uint32_t*>(packed.mutable_data_ptr());
  if (format_ == WeightFormat::kInt8) scales_.resize(static_cast<size_t>(out_));
  at::parallel_for(0, groups, /*grain_size=*/1, [&](int64_t begin, int64_t end) {
    if (format_ == WeightFormat::kInt8) {
      kernels::pack_i8(weight, in_, out_, begin, end, words, scales_.data());
    } else {
      kernels::pack_bf16(weight, in_, out_, begin, end, words);
    }
  });
  weight_ = packed;
}

void DecodeMatrix::operator()(const float* x, int64_t count, std::vector<float>& y,
                              std::span<const TokenRun> runs) const {
  y.resize(static_cast<size_t>(count * out_));
  if (format_ != WeightFormat::kBfloat16 || !kernels::has_rounded_products()) runs = {};
  const TokenRun whole = {.end = count};
  for (const TokenRun& run : runs.empty() ? std::span(&whole, 1) : runs) {
    const float* from = x + run.begin * in_;
    float* to = y.data() + run.begin * out_;
    if (run.of_prompt) {
      multiply_prompt(from, run.end - run.begin, to);
    } else {
      multiply_tokens(from, run.end - run.begin, to);
    }
  }
}

/// Output rows per task, so that it reads at least 64 KB of weights.
int64_t DecodeMatrix::grain(int64_t rows) const {
  return std::max<int64_t>(1, 16384 * values_per_word(format_) / (rows * in_));
}

void DecodeMatrix::multiply_prompt(const float* x, int64_t count, float* y) const {
  thread_local std::vector<uint32_t> rounded;
  const int64_t stride = kernels::rounded_stride(in_);
  rounded.resize(static_cast<size_t>(count * stride));
  uint32_t* tokens = rounded.data();
  for_rows(count, in_, [&](int64_t begin, int64_t end) {
    kernels::round_tokens(x + begin * in_, in_, end - begin, in_, tokens + begin * stride);
  });
  const kernels::RoundedProduct product = {
      .words = static_cast<const uint32_t*>(weight_.const_data_ptr()),
      .group_words = kernels::words_per_group(format_, in_),
      .bias = bias_.defined() ? bias_.const_data_ptr<float>() : nullptr,
      .x = tokens,
      .x_stride = stride,
      .count = count,
      .in = in_,
      .out = out_,
      .y = y,
      .y_stride = out_};
  at::parallel_for(
      0, kernels::num_groups(out_), grain(kernels::kGroupRows),
      [&](int64_t begin, int64_t end) { kernels::multiply_rounded(product, begin, end); });
}

void DecodeMatrix::multiply_tokens(const float* x, int64_t count, float* y) const {
  constexpr int64_t kManyTokens = 16;  // from here on a real matrix product is faster
  const float* bias = bias_.defined() ? bias_.const_data_ptr<float>() : nullptr;
  if (format_ == WeightFormat::kFloat32 && count >= kManyTokens) {
    at::Tensor result = at::from_blob(y, {count, out_}, at::kFloat);
    at::mm_out(result, at::from_blob(const_cast<float*>(x), {count, in_}, at::kFloat), weight_.t());
    if (bias) {
      for (int64_t t = 0; t < count; ++t) kernels::add(bias, out_, y + t * out_);
    }
    return;
  }
  const int64_t rows = format_ == WeightFormat::kFloat32 ? 4 : kernels::kGroupRows;
  at::parallel_for(0, (out_ + rows - 1) / rows, grain(rows),
                   [&](int64_t begin, int64_t end) { multiply(x, count, begin, end, y); });
}

/// Pieces [begin, end) of four rows (float32) or of a group.
void DecodeMatrix::multiply(const float* x, int64_t count, int64_t begin, int64_t end,
                            float* y) const {
  const float* bias = bias_.defined() ? bias_.const_data_ptr<float>() : nullptr;
  const void* weight = weight_.const_data_ptr();
  switch (format_) {
    case WeightFormat::kFloat32:
      kernels::multiply_f32(static_cast<const float*>(weight), bias, x, count, in_, out_, 4 * begin,
                            std::min(out_, 4 * end), y);
      break;
    case WeightFormat::kBfloat16:
      kernels::multiply_bf16(static_cast<const uint32_t*>(weight), bias, x, count, in_, out_, begin,
                             end, y);
      break;
    case WeightFormat::kInt8:
      kernels::multiply_i8(static_cast<const uint32_t*>(weight), scales_.data(), bias, x, count,
                           in_, out_, begin, end, y);
      break;
  }
}

}  // namespace lagom::lm
