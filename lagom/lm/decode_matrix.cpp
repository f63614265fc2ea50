#include "lagom/lm/decode_matrix.h"

#include <ATen/Parallel.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/t.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace lagom::lm {
namespace {

uint16_t to_bfloat16(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

}  // namespace

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
  const float* weight = weight_.const_data_ptr<float>();
  if (format == WeightFormat::kBfloat16) {
    halves_.resize(static_cast<size_t>(out_ * in_));
    std::transform(weight, weight + out_ * in_, halves_.begin(), to_bfloat16);
  } else if (format == WeightFormat::kInt8) {
    quantize(weight);
  }
  if (format != WeightFormat::kFloat32) weight_ = at::Tensor();
}

int64_t DecodeMatrix::bytes() const {
  constexpr std::array<int64_t, 3> kBytes = {4, 2, 1};
  return out_ * in_ * kBytes[static_cast<size_t>(format_)];
}

void DecodeMatrix::operator()(const float* x, int64_t count, std::vector<float>& y) const {
  y.resize(static_cast<size_t>(count * out_));
  constexpr int64_t kManyTokens = 16;  // from here on a real matrix product is faster
  const float* bias = bias_.defined() ? bias_.const_data_ptr<float>() : nullptr;
  if (format_ == WeightFormat::kFloat32 && count >= kManyTokens) {
    at::Tensor result = at::from_blob(y.data(), {count, out_}, at::kFloat);
    at::mm_out(result, at::from_blob(const_cast<float*>(x), {count, in_}, at::kFloat), weight_.t());
    if (bias) {
      for (int64_t t = 0; t < count; ++t)
        kernels::add(bias, out_, &y[static_cast<size_t>(t * out_)]);
    }
    return;
  }
  // A task reads at least 64 KB of weights. Rows of a task are a multiple of the kernels' four.
  const int64_t grain = std::max<int64_t>(1, 16384 / in_);
  at::parallel_for(0, (out_ + 3) / 4, grain, [&](int64_t first, int64_t last) {
    const int64_t begin = 4 * first, end = std::min(out_, 4 * last);
    switch (format_) {
      case WeightFormat::kFloat32:
        kernels::multiply_f32(weight_.const_data_ptr<float>(), bias, x, count, in_, out_, begin,
                              end, y.data());
        break;
      case WeightFormat::kBfloat16:
        kernels::multiply_bf16(halves_.data(), bias, x, count, in_, out_, begin, end, y.data());
        break;
      case WeightFormat::kInt8:
        kernels::multiply_i8(bytes_.data(), scales_.data(), bias, x, count, in_, out_, begin, end,
                             y.data());
        break;
    }
  });
}

void DecodeMatrix::quantize(const float* weight) {
  bytes_.resize(static_cast<size_t>(out_ * in_));
  scales_.resize(static_cast<size_t>(out_));
  for (int64_t o = 0; o < out_; ++o) {
    const float* row = weight + o * in_;
    float peak = 0;
    for (int64_t i = 0; i < in_; ++i) peak = std::max(peak, std::abs(row[i]));
    const float scale = peak > 0 ? peak / 127 : 1;
    scales_[static_cast<size_t>(o)] = scale;
    for (int64_t i = 0; i < in_; ++i) {
      bytes_[static_cast<size_t>(o * in_ + i)] = static_cast<int8_t>(std::lround(row[i] / scale));
    }
  }
}

}  // namespace lagom::lm
