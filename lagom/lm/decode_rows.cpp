#include "lagom/lm/decode_rows.h"

#include "lagom/lm/kernels.h"

namespace lagom::lm {

void normalize(const LmOptions& options, const std::vector<float>& x, const NormWeights& norm,
               std::vector<float>& y) {
  const int64_t d = options.d_model, count = static_cast<int64_t>(x.size()) / d;
  y.resize(x.size());
  const float* weight = norm.weight.const_data_ptr<float>();
  const float* bias = norm.bias.defined() ? norm.bias.const_data_ptr<float>() : nullptr;
  const auto epsilon = static_cast<float>(options.norm_epsilon);
  thread_local std::vector<float> inverse_rms;  // which only a gradient would need
  inverse_rms.resize(static_cast<size_t>(count));
  float* inverse = inverse_rms.data();
  for_rows(count, d, [&](int64_t begin, int64_t end) {
    const float* in = x.data() + begin * d;
    float* out = y.data() + begin * d;
    if (options.norm == Norm::kRms) {
      kernels::rms_norm(in, weight, end - begin, d, epsilon, out, inverse + begin);
    } else {
      kernels::layer_norm(in, weight, bias, end - begin, d, epsilon, out);
    }
  });
}

void activate(const LmOptions& options, const std::vector<float>& hidden, int64_t count,
              int64_t width, std::vector<float>& y) {
  y.resize(static_cast<size_t>(count * width));
  for_rows(count, width, [&](int64_t begin, int64_t end) {
    float* out = y.data() + begin * width;
    if (options.activation == Activation::kGelu) {
      kernels::gelu(hidden.data() + begin * width, (end - begin) * width, out);
    } else {
      kernels::swiglu(hidden.data() + begin * 2 * width, end - begin, width, out);
    }
  });
}

}  // namespace lagom::lm
