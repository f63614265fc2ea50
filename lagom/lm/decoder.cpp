#include "lagom/lm/decoder.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "lagom/lm/decode_attention.h"
#include "lagom/lm/decode_experts.h"
#include "lagom/lm/decode_matrix.h"
#include "lagom/lm/decode_rows.h"
#include "lagom/lm/kernels.h"
#include "lagom/lm/routing.h"

namespace lagom::lm {
namespace {

using Floats = std::vector<float>;

constexpr int64_t kPromptTokens = 16;  // an input of so many is a prompt

const float* data_or_null(const at::Tensor& t) {
  return t.defined() ? t.const_data_ptr<float>() : nullptr;
}

struct DecodeBlock {
  const Block* block = nullptr;
  DecodeMatrix qkv, attention_out, mlp_in, mlp_out, predictor_in;
  float threshold = 0;
  DecodeExperts experts;
  int64_t expert_block = 0;  ///< Among the blocks with experts.
};

/// One block's keys and values of one row: only tokens that entered.
struct Cache {
  Floats keys, values;  ///< [length, d_kv]
  int64_t length = 0;
};

struct Row {
  bool used = false;
  int64_t length = 0;
  std::vector<Cache> caches;                      ///< One per block.
  std::vector<HardCap> caps;                      ///< One per routed block.
  std::vector<std::vector<HardCap>> expert_caps;  ///< Of each block with experts.
};

}  // namespace

class Decoder::Impl {
 public:
  Impl(const Model& model, const DecoderOptions& options)
      : model_(model), o_(model.options()), options_(options) {
    const bool experts_choose = o_.experts.count > 0 && o_.experts.choice == ExpertChoice::kExpert;
    if (options.routing == Routing::kTopK && (o_.num_routed() > 0 || experts_choose)) {
      throw std::invalid_argument("decoding needs a causal rule: top-k looks at the whole text");
    }
    const WeightFormat format = options.weights;
    share_ = options.capacity > 0 ? options.capacity : o_.routed_share();
    int64_t routed = 0, num_expert_blocks = 0;
    for (const Block& block : model.blocks()) {
      DecodeBlock& b = blocks_.emplace_back();
      b.block = &block;
      b.qkv = DecodeMatrix(block.qkv, format);
      b.attention_out = DecodeMatrix(block.attention_out, format);
      if (block.experts.defined()) {
        b.expert_block = num_expert_blocks++;
        b.experts = DecodeExperts(model, block.experts, b.expert_block, options);
      } else {
        b.mlp_in = DecodeMatrix(block.mlp_in, format);
        b.mlp_out = DecodeMatrix(block.mlp_out, format);
      }
      if (!block.router.defined()) continue;
      b.threshold = model.causal_threshold(options.routing, routed++, share_);
      // Decisions stay exact: they are cheap, and a wrong one costs more than a rounded product.
      if (block.predictor_in.weight.defined()) {
        b.predictor_in = DecodeMatrix(block.predictor_in, WeightFormat::kFloat32);
      }
    }
    head_ = DecodeMatrix({model.head(), {}}, format);
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
    for (int64_t layer = 0; layer < o_.num_layers; ++layer) {
      if (!o_.has_experts(layer)) continue;
      const ExpertRule rule = {.exact = false,
                               .cap = options_.hard_cap ? o_.expert_share(layer) : 1.0};
      rows_[row].expert_caps.push_back(lagom::lm::expert_caps(o_, rule));
    }
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
  DecodeMatrix head_;
  std::vector<uint8_t> routes_;

 private:
  struct Item {
    int64_t row, position;
    int32_t token;
    bool of_prompt;
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
        const bool of_prompt = std::ssize(input.tokens) >= kPromptTokens;
        items_.push_back({input.row, position++, token, of_prompt});
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

  void run_block(size_t layer, const std::vector<int64_t>& chosen, bool routed) {
    if (chosen.empty()) return;  // no weight of the block is read
    const DecodeBlock& b = blocks_[layer];
    const int64_t d = o_.d_model;
    const auto count = static_cast<int64_t>(chosen.size());
    inputs_.resize(static_cast<size_t>(count * d));
    for_rows(count, d, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        std::copy_n(stream(chosen[static_cast<size_t>(i)]), d, inputs_.data() + i * d);
      }
    });
    find_runs(chosen);
    normalize(o_, inputs_, b.block->attention_norm, normed_);
    b.qkv(normed_.data(), count, qkv_, runs_);
    append_keys(layer, chosen, routed);
    attend(layer, chosen);
    b.attention_out(mixed_.data(), count, attended_, runs_);
    for_rows(count, d, [&](int64_t begin, int64_t end) {
      kernels::add(attended_.data() + begin * d, (end - begin) * d, inputs_.data() + begin * d);
    });  // x + a
    normalize(o_, inputs_, b.block->mlp_norm, normed_);
    if (b.block->experts.defined()) {
      run_experts(b, chosen);
    } else {
      b.mlp_in(normed_.data(), count, hidden_, runs_);
      activate(o_, hidden_, count, o_.mlp_hidden(), activated_);
      b.mlp_out(activated_.data(), count, updates_, runs_);
    }
    for_rows(count, d, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        kernels::add_scaled_sum(attended_.data() + i * d, updates_.data() + i * d,
                                routed ? gates_[static_cast<size_t>(i)] : 1.0F, d,
                                stream(chosen[static_cast<size_t>(i)]));
      }
    });
  }

  /// runs_ become those of the chosen items.
  void find_runs(const std::vector<int64_t>& chosen) {
    runs_.clear();
    for (const int64_t item : chosen) {
      append_run(runs_, items_[static_cast<size_t>(item)].of_prompt);
    }
  }

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
      for_rows(count, width, [&](int64_t begin, int64_t end) {
        kernels::rotate(qkv_.data() + begin * width, turns_.data() + begin,
                        rotary_.cosines.const_data_ptr<float>(),
                        rotary_.sines.const_data_ptr<float>(), end - begin, width,
                        o_.num_heads + o_.kv_heads(), o_.head_dim(), /*inverse=*/false);
      });
    }
    for (size_t i = 0; i < chosen.size(); ++i) {
      const Item& item = items_[static_cast<size_t>(chosen[i])];
      Cache& cache = rows_[static_cast<size_t>(item.row)].caches[layer];
      const float* keys = &qkv_[i * static_cast<size_t>(width)] + o_.d_model;
      const auto needed = static_cast<size_t>(cache.length * kv);  // of this step's last token
      if (cache.keys.capacity() < needed) {
        for (Floats* kept : {&cache.keys, &cache.values}) {
          kept->reserve(std::max(needed, 2 * kept->capacity()));
        }
      }
      cache.keys.insert(cache.keys.end(), keys, keys + kv);
      cache.values.insert(cache.values.end(), keys + kv, keys + 2 * kv);
    }
  }

  void attend(size_t layer, const std::vector<int64_t>& chosen) {
    const int64_t width = o_.d_model + 2 * o_.d_kv(), head_dim = o_.head_dim();
    const int64_t heads = o_.num_heads, group = heads / o_.kv_heads();
    mixed_.resize(chosen.size() * static_cast<size_t>(o_.d_model));
    // Tokens of one row follow each other.
    for (size_t first = 0, end = 0; first < chosen.size(); first = end) {
      const Item& item = items_[static_cast<size_t>(chosen[first])];
      while (end < chosen.size() && items_[static_cast<size_t>(chosen[end])].row == item.row) ++end;
      if (!item.of_prompt) continue;
      const Cache& cache = rows_[static_cast<size_t>(item.row)].caches[layer];
      const auto at = static_cast<int64_t>(first);
      attend_in_blocks({.queries = qkv_.data() + at * width,
                        .query_stride = width,
                        .count = static_cast<int64_t>(end - first),
                        .keys = cache.keys.data(),
                        .values = cache.values.data(),
                        .first_seen = places_[first],
                        .heads = heads,
                        .kv_heads = o_.kv_heads(),
                        .head_dim = head_dim,
                        .rounded = options_.weights == WeightFormat::kBfloat16,
                        .out = mixed_.data() + at * o_.d_model});
    }
    const int64_t longest = *std::max_element(places_.begin(), places_.end());
    const int64_t grain = std::max<int64_t>(1, 32768 / (longest * head_dim));
    at::parallel_for(0, std::ssize(chosen) * heads, grain, [&](int64_t begin, int64_t end) {
      Floats scores(static_cast<size_t>(longest));
      for (int64_t task = begin; task < end; ++task) {
        const int64_t i = task / heads, head = task % heads;
        const Item& item = items_[static_cast<size_t>(chosen[static_cast<size_t>(i)])];
        if (item.of_prompt) continue;
        const Cache& cache = rows_[static_cast<size_t>(item.row)].caches[layer];
        const int64_t column = head / group * head_dim;
        kernels::attend(&qkv_[static_cast<size_t>(i * width + head * head_dim)],
                        cache.keys.data() + column, cache.values.data() + column,
                        places_[static_cast<size_t>(i)], o_.d_kv(), head_dim, scores.data(),
                        &mixed_[static_cast<size_t>(i * o_.d_model + head * head_dim)]);
      }
    });
  }

  /// updates_ becomes the experts' sum for each chosen item, from normed_.
  void run_experts(const DecodeBlock& b, const std::vector<int64_t>& chosen) {
    expert_tokens_.clear();
    for (size_t i = 0; i < chosen.size(); ++i) {
      const Item& item = items_[static_cast<size_t>(chosen[i])];
      auto& caps = rows_[static_cast<size_t>(item.row)].expert_caps;
      expert_tokens_.push_back({.rank = places_[i] - 1,
                                .caps = &caps[static_cast<size_t>(b.expert_block)],
                                .of_prompt = item.of_prompt});
    }
    b.experts(normed_, expert_tokens_, expert_scratch_, updates_);
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
    normalize(o_, stream_, model_.norm(), normed_);
    head_(normed_.data(), static_cast<int64_t>(normed_.size()) / o_.d_model, logits_);
    return logits_;
  }

  double share_ = 1;
  RotaryTables rotary_;
  std::vector<Item> items_;
  std::vector<int64_t> places_, turns_;
  std::vector<TokenRun> runs_;
  Floats stream_, inputs_, normed_, qkv_, mixed_, attended_, hidden_, activated_, updates_;
  Floats gates_, logits_;
  std::vector<ExpertToken> expert_tokens_;
  ExpertScratch expert_scratch_;
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
    for (const DecodeMatrix* matrix :
         {&b.qkv, &b.attention_out, &b.mlp_in, &b.mlp_out, &b.predictor_in}) {
      bytes += matrix->bytes();
    }
    bytes += b.experts.bytes();
  }
  return bytes;
}

}  // namespace lagom::lm
