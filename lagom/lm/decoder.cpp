#include "lagom/lm/decoder.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/t.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "lagom/lm/kernels.h"
#include "lagom/lm/routing.h"

namespace lagom::lm {
namespace {

using Floats = std::vector<float>;

const float* data_or_null(const at::Tensor& t) {
  return t.defined() ? t.const_data_ptr<float>() : nullptr;
}

uint16_t to_bfloat16(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

/// A linear layer in the decoder's format.
class Matrix {
 public:
  Matrix() = default;
  Matrix(const Linear& linear, WeightFormat format)
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

  int64_t out() const { return out_; }
  int64_t bytes() const {
    constexpr std::array<int64_t, 3> kBytes = {4, 2, 1};
    return out_ * in_ * kBytes[static_cast<size_t>(format_)];
  }

  /// x [count, in] -> y [count, out]
  void operator()(const float* x, int64_t count, Floats& y) const {
    y.resize(static_cast<size_t>(count * out_));
    constexpr int64_t kManyTokens = 16;  // from here on a real matrix product is faster
    if (format_ == WeightFormat::kFloat32 && count >= kManyTokens) {
      at::Tensor result = at::from_blob(y.data(), {count, out_}, at::kFloat);
      at::mm_out(result, at::from_blob(const_cast<float*>(x), {count, in_}, at::kFloat),
                 weight_.t());
      if (bias_.defined()) {
        for (int64_t t = 0; t < count; ++t)
          kernels::add(data_or_null(bias_), out_, &y[static_cast<size_t>(t * out_)]);
      }
      return;
    }
    const float* bias = data_or_null(bias_);
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

 private:
  void quantize(const float* weight) {
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

  WeightFormat format_ = WeightFormat::kFloat32;
  at::Tensor weight_, bias_;
  int64_t out_ = 0, in_ = 0;
  std::vector<uint16_t> halves_;
  std::vector<int8_t> bytes_;
  Floats scales_;
};

struct DecodeBlock {
  const Block* block = nullptr;
  Matrix qkv, attention_out, mlp_in, mlp_out, predictor_in;
  float threshold = 0;
};

/// One block's keys and values of one row: only tokens that entered.
struct Cache {
  Floats keys, values;  ///< [length, d_kv]
  int64_t length = 0;
};

struct Row {
  bool used = false;
  int64_t length = 0;
  std::vector<Cache> caches;  ///< One per block.
  std::vector<HardCap> caps;  ///< One per routed block.
};

}  // namespace

std::span<const std::string_view> option_names(WeightFormat) {
  static constexpr std::array<std::string_view, 3> kNames = {"float32", "bfloat16", "int8"};
  return kNames;
}

class Decoder::Impl {
 public:
  Impl(const Model& model, const DecoderOptions& options)
      : model_(model), o_(model.options()), options_(options) {
    if (options.routing == Routing::kTopK && o_.num_routed() > 0) {
      throw std::invalid_argument("decoding needs a causal rule: top-k looks at the whole text");
    }
    const WeightFormat format = options.weights;
    share_ = options.capacity > 0 ? options.capacity : o_.routed_share();
    int64_t routed = 0;
    for (const Block& block : model.blocks()) {
      DecodeBlock& b = blocks_.emplace_back();
      b.block = &block;
      b.qkv = Matrix(block.qkv, format);
      b.attention_out = Matrix(block.attention_out, format);
      b.mlp_in = Matrix(block.mlp_in, format);
      b.mlp_out = Matrix(block.mlp_out, format);
      if (!block.router.defined()) continue;
      b.threshold = model.causal_threshold(options.routing, routed++, share_);
      // Decisions stay exact: they are cheap, and a wrong one costs more than a rounded product.
      if (block.predictor_in.weight.defined()) {
        b.predictor_in = Matrix(block.predictor_in, WeightFormat::kFloat32);
      }
    }
    head_ = Matrix({model.head(), {}}, format);
    if (o_.positions == Positions::kRotary) {
      rotary_ = make_rotary_tables(o_.seq_len, o_.head_dim(), o_.rope_theta);
    }
  }

  int64_t add_row() {
    size_t row = 0;
    while (row < rows_.size() && rows_[row].used) ++row;
    if (row == rows_.size()) rows_.emplace_back();
    rows_[row] = {.used = true, .caches = std::vector<Cache>(blocks_.size())};
    rows_[row].caps.assign(static_cast<size_t>(o_.num_routed()),
                           HardCap(options_.hard_cap ? share_ : 1.0));
    return static_cast<int64_t>(row);
  }

  void remove_row(int64_t row) { rows_.at(static_cast<size_t>(row)) = {}; }

  std::span<const float> step(std::span<const DecodeInput> inputs, bool all_logits) {
    const c10::NoGradGuard no_grad;
    begin_step(inputs);
    embed();
    std::vector<int64_t> all(items_.size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
    int64_t routed = 0;
    for (size_t layer = 0; layer < blocks_.size(); ++layer) {
      if (blocks_[layer].block->router.defined()) {
        run_block(layer, choose(layer, routed++), true);
      } else {
        run_block(layer, all, false);
      }
    }
    for (const DecodeInput& input : inputs) {
      rows_[static_cast<size_t>(input.row)].length += std::ssize(input.tokens);
    }
    return finish(inputs, all_logits);
  }

  const Model& model_;
  const LmOptions& o_;
  DecoderOptions options_;
  std::vector<Row> rows_;
  std::vector<DecodeBlock> blocks_;
  Matrix head_;
  std::vector<uint8_t> routes_;

 private:
  struct Item {
    int64_t row, position;
    int32_t token;
  };

  void begin_step(std::span<const DecodeInput> inputs) {
    items_.clear();
    for (const DecodeInput& input : inputs) {
      const auto row = static_cast<size_t>(input.row);
      TORCH_CHECK_VALUE(input.row >= 0 && row < rows_.size() && rows_[row].used,
                        "Decoder: there is no row ", input.row);
      TORCH_CHECK_VALUE(!input.tokens.empty(), "Decoder: an input without tokens");
      int64_t position = rows_[row].length;
      TORCH_CHECK_VALUE(position + std::ssize(input.tokens) <= o_.seq_len,
                        "Decoder: ", position + std::ssize(input.tokens),
                        " tokens are longer than seq_len ", o_.seq_len);
      for (const int32_t token : input.tokens) {
        TORCH_CHECK_VALUE(token >= 0 && token < o_.vocab_size, "Decoder: token ", token,
                          " is not in the vocabulary of ", o_.vocab_size);
        items_.push_back({input.row, position++, token});
      }
    }
    routes_.assign(items_.size() * static_cast<size_t>(o_.num_routed()), 0);
  }

  void embed() {
    const int64_t d = o_.d_model;
    const float* table = model_.embedding().const_data_ptr<float>();
    const float* positions = data_or_null(model_.position_embedding());
    stream_.resize(items_.size() * static_cast<size_t>(d));
    for (size_t i = 0; i < items_.size(); ++i) {
      float* x = &stream_[i * static_cast<size_t>(d)];
      std::copy_n(table + items_[i].token * d, d, x);
      if (positions) kernels::add(positions + items_[i].position * d, d, x);
    }
  }

  float* stream(int64_t item) { return &stream_[static_cast<size_t>(item * o_.d_model)]; }

  /// The items that enter a routed block; `gates_` gets their scales.
  std::vector<int64_t> choose(size_t layer, int64_t routed) {
    const DecodeBlock& b = blocks_[layer];
    const int64_t d = o_.d_model;
    const auto count = static_cast<int64_t>(items_.size());
    const Selection selection = o_.routing.selection;
    const bool predicted =
        options_.routing == Routing::kPredictor && selection == Selection::kLearned;
    if (predicted) b.predictor_in(stream_.data(), count, hidden_);
    std::vector<int64_t> chosen;
    gates_.clear();
    for (int64_t i = 0; i < count; ++i) {
      const Item& item = items_[static_cast<size_t>(i)];
      float score = kernels::dot(b.block->router.const_data_ptr<float>(), stream(i), d);
      float decision = score;
      if (selection != Selection::kLearned) {
        decision = random_score(/*draw=*/0, static_cast<int64_t>(layer), /*row=*/0, item.position);
        if (selection == Selection::kGaussian) score = decision;
      } else if (predicted) {
        decision = predictor_logit(b, i);
      }
      HardCap& cap = rows_[static_cast<size_t>(item.row)].caps[static_cast<size_t>(routed)];
      if (!cap.admit(decision > b.threshold, item.position)) continue;
      chosen.push_back(i);
      gates_.push_back(apply_gate(o_.routing.gate, score));
      routes_[static_cast<size_t>(i * o_.num_routed() + routed)] = 1;
    }
    return chosen;
  }

  /// SiLU and the predictor's second layer, of hidden_.
  float predictor_logit(const DecodeBlock& b, int64_t item) {
    const int64_t width = b.predictor_in.out();
    const Linear& out = b.block->predictor_out;
    float* hidden = &hidden_[static_cast<size_t>(item * width)];
    for (int64_t j = 0; j < width; ++j) hidden[j] /= 1 + std::exp(-hidden[j]);
    return kernels::dot(out.weight.const_data_ptr<float>(), hidden, width) +
           out.bias.const_data_ptr<float>()[0];
  }

  void normalize(const Floats& x, const NormWeights& norm, Floats& y) {
    const int64_t d = o_.d_model, count = static_cast<int64_t>(x.size()) / d;
    y.resize(x.size());
    if (o_.norm == Norm::kRms) {
      scratch_.resize(static_cast<size_t>(count));
      kernels::rms_norm(x.data(), norm.weight.const_data_ptr<float>(), count, d,
                        static_cast<float>(o_.norm_epsilon), y.data(), scratch_.data());
      return;
    }
    const float* weight = norm.weight.const_data_ptr<float>();
    const float* bias = norm.bias.const_data_ptr<float>();
    for (int64_t i = 0; i < count; ++i) {
      const float* in = &x[static_cast<size_t>(i * d)];
      float* out = &y[static_cast<size_t>(i * d)];
      double mean = 0, squares = 0;
      for (int64_t j = 0; j < d; ++j) mean += in[j];
      mean /= static_cast<double>(d);
      for (int64_t j = 0; j < d; ++j) squares += (in[j] - mean) * (in[j] - mean);
      const double inverse = 1 / std::sqrt(squares / static_cast<double>(d) + o_.norm_epsilon);
      for (int64_t j = 0; j < d; ++j) {
        out[j] = static_cast<float>((in[j] - mean) * inverse) * weight[j] + bias[j];
      }
    }
  }

  void run_block(size_t layer, const std::vector<int64_t>& chosen, bool routed) {
    if (chosen.empty()) return;  // no weight of the block is read
    const DecodeBlock& b = blocks_[layer];
    const int64_t d = o_.d_model;
    const auto count = static_cast<int64_t>(chosen.size());
    inputs_.resize(static_cast<size_t>(count * d));
    for (int64_t i = 0; i < count; ++i) {
      std::copy_n(stream(chosen[static_cast<size_t>(i)]), d, &inputs_[static_cast<size_t>(i * d)]);
    }
    normalize(inputs_, b.block->attention_norm, normed_);
    b.qkv(normed_.data(), count, qkv_);
    append_keys(layer, chosen, routed);
    attend(layer, chosen);
    b.attention_out(mixed_.data(), count, attended_);
    kernels::add(attended_.data(), count * d, inputs_.data());  // x + a
    normalize(inputs_, b.block->mlp_norm, normed_);
    b.mlp_in(normed_.data(), count, hidden_);
    activate(count);
    b.mlp_out(activated_.data(), count, updates_);
    for (int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<size_t>(i * d);
      kernels::add_scaled_sum(&attended_[at], &updates_[at],
                              routed ? gates_[static_cast<size_t>(i)] : 1.0F, d,
                              stream(chosen[static_cast<size_t>(i)]));
    }
  }

  /// Turns queries and keys, and puts keys and values into the rows' caches; `places_` gets how
  /// many cached tokens each item sees.
  void append_keys(size_t layer, const std::vector<int64_t>& chosen, bool routed) {
    const int64_t width = o_.d_model + 2 * o_.d_kv(), kv = o_.d_kv();
    const bool by_rank = routed && o_.routing.positions == RoutedPositions::kRank;
    const auto count = static_cast<int64_t>(chosen.size());
    places_.resize(chosen.size());
    turns_.resize(chosen.size());
    for (size_t i = 0; i < chosen.size(); ++i) {
      const Item& item = items_[static_cast<size_t>(chosen[i])];
      Cache& cache = rows_[static_cast<size_t>(item.row)].caches[layer];
      turns_[i] = by_rank ? cache.length : item.position;
      places_[i] = ++cache.length;
    }
    if (o_.positions == Positions::kRotary) {
      kernels::rotate(qkv_.data(), turns_.data(), rotary_.cosines.const_data_ptr<float>(),
                      rotary_.sines.const_data_ptr<float>(), count, width,
                      o_.num_heads + o_.kv_heads(), o_.head_dim(), /*inverse=*/false);
    }
    for (size_t i = 0; i < chosen.size(); ++i) {
      const Item& item = items_[static_cast<size_t>(chosen[i])];
      Cache& cache = rows_[static_cast<size_t>(item.row)].caches[layer];
      const float* keys = &qkv_[i * static_cast<size_t>(width)] + o_.d_model;
      cache.keys.insert(cache.keys.end(), keys, keys + kv);
      cache.values.insert(cache.values.end(), keys + kv, keys + 2 * kv);
    }
  }

  void attend(size_t layer, const std::vector<int64_t>& chosen) {
    const int64_t width = o_.d_model + 2 * o_.d_kv(), head_dim = o_.head_dim();
    const int64_t heads = o_.num_heads, group = heads / o_.kv_heads();
    mixed_.resize(chosen.size() * static_cast<size_t>(o_.d_model));
    const int64_t longest = *std::max_element(places_.begin(), places_.end());
    const int64_t grain = std::max<int64_t>(1, 32768 / (longest * head_dim));
    at::parallel_for(0, std::ssize(chosen) * heads, grain, [&](int64_t begin, int64_t end) {
      Floats scores(static_cast<size_t>(longest));
      for (int64_t task = begin; task < end; ++task) {
        const int64_t i = task / heads, head = task % heads;
        const Item& item = items_[static_cast<size_t>(chosen[static_cast<size_t>(i)])];
        const Cache& cache = rows_[static_cast<size_t>(item.row)].caches[layer];
        const int64_t column = head / group * head_dim;
        kernels::attend(&qkv_[static_cast<size_t>(i * width + head * head_dim)],
                        cache.keys.data() + column, cache.values.data() + column,
                        places_[static_cast<size_t>(i)], o_.d_kv(), head_dim, scores.data(),
                        &mixed_[static_cast<size_t>(i * o_.d_model + head * head_dim)]);
      }
    });
  }

  void activate(int64_t count) {
    const int64_t hidden = o_.mlp_hidden();
    activated_.resize(static_cast<size_t>(count * hidden));
    if (o_.activation == Activation::kGelu) {
      kernels::gelu(hidden_.data(), count * hidden, activated_.data());
    } else {
      kernels::swiglu(hidden_.data(), count, hidden, activated_.data());
    }
  }

  std::span<const float> finish(std::span<const DecodeInput> inputs, bool all_logits) {
    if (!all_logits) {
      const auto d = static_cast<size_t>(o_.d_model);
      size_t last = 0, kept = 0;
      for (const DecodeInput& input : inputs) {
        last += input.tokens.size();
        std::copy_n(&stream_[(last - 1) * d], d, &stream_[kept++ * d]);
      }
      stream_.resize(kept * d);
    }
    normalize(stream_, model_.norm(), normed_);
    head_(normed_.data(), static_cast<int64_t>(normed_.size()) / o_.d_model, logits_);
    return logits_;
  }

  double share_ = 1;
  RotaryTables rotary_;
  std::vector<Item> items_;
  std::vector<int64_t> places_, turns_;
  Floats stream_, inputs_, normed_, qkv_, mixed_, attended_, hidden_, activated_, updates_;
  Floats gates_, scratch_, logits_;
};

Decoder::Decoder(const Model& model, const DecoderOptions& options)
    : impl_(std::make_unique<Impl>(model, options)) {}
Decoder::~Decoder() = default;

const LmOptions& Decoder::model_options() const {
  return impl_->o_;
}
int64_t Decoder::add_row() {
  return impl_->add_row();
}
void Decoder::remove_row(int64_t row) {
  impl_->remove_row(row);
}
int64_t Decoder::length(int64_t row) const {
  return impl_->rows_.at(static_cast<size_t>(row)).length;
}

std::span<const float> Decoder::step(std::span<const DecodeInput> inputs, bool all_logits) {
  return impl_->step(inputs, all_logits);
}

std::span<const uint8_t> Decoder::routes() const {
  return impl_->routes_;
}

std::vector<int64_t> Decoder::cached_tokens(int64_t row) const {
  std::vector<int64_t> lengths;
  for (const Cache& cache : impl_->rows_.at(static_cast<size_t>(row)).caches) {
    lengths.push_back(cache.length);
  }
  return lengths;
}

int64_t Decoder::kv_bytes(int64_t row) const {
  size_t values = 0;
  for (const Cache& cache : impl_->rows_.at(static_cast<size_t>(row)).caches) {
    values += cache.keys.size() + cache.values.size();
  }
  return static_cast<int64_t>(values * sizeof(float));
}

int64_t Decoder::weight_bytes() const {
  int64_t bytes = impl_->head_.bytes();
  for (const DecodeBlock& b : impl_->blocks_) {
    for (const Matrix* matrix :
         {&b.qkv, &b.attention_out, &b.mlp_in, &b.mlp_out, &b.predictor_in}) {
      bytes += matrix->bytes();
    }
  }
  return bytes;
}

}  // namespace lagom::lm
