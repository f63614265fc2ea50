#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "lagom/rewrite/affine_chain.h"
#include "lagom/rewrite/convolution_view.h"
#include "lagom/rewrite/dot_view.h"
#include "lagom/rewrite/patterns.h"
#include "lagom/rewrite/rules.h"

// Forms that give up precision.
namespace lagom::rewrite {
namespace {

using hlo::Builder;
using hlo::Dims;
using hlo::ElementType;
using hlo::Instruction;
using hlo::Opcode;

[[noreturn]] void refuse(const Rule& rule) {
  throw std::invalid_argument(std::string(rule.name()) + ": does not match");
}

// f32 in and out, and no wish for more than the default precision.
bool may_be_bf16(const Instruction& i) {
  return i.shape.element_type == ElementType::kF32 &&
         i.operand(0).shape.element_type == ElementType::kF32 &&
         i.operand(1).shape.element_type == ElementType::kF32 &&
         i.rare().operand_precision.empty() && i.rare().dot_algorithm.empty();
}

class Bf16Dot : public Rule {
 public:
  std::string_view name() const override { return "bf16_dot"; }
  RuleClass rule_class() const override { return RuleClass::kRelaxes; }

  bool matches(const Instruction& instruction) const override {
    return DotView::of(instruction) && may_be_bf16(instruction);
  }

  // Vectors are read once: rounding the matrix first takes as long as multiplying it.
  bool is_promising(const Instruction& instruction) const override {
    const DotView view = *DotView::of(instruction);
    return std::min(view.rows, view.columns) >= 16 && view.depth >= 64 &&
           view.rows * view.columns >= 1 << 14;
  }

  Instruction* emit(Builder& builder, const Instruction& instruction) const override {
    if (!matches(instruction)) refuse(*this);
    const DotView view = *DotView::of(instruction);
    return builder.dot(builder.convert(view.lhs(), ElementType::kBF16),
                       builder.convert(view.rhs(), ElementType::kBF16), view.dims(),
                       ElementType::kF32);
  }
};

class Bf16Convolution : public Rule {
 public:
  std::string_view name() const override { return "bf16_convolution"; }
  RuleClass rule_class() const override { return RuleClass::kRelaxes; }

  bool matches(const Instruction& instruction) const override {
    return ConvolutionView::of(instruction) && may_be_bf16(instruction);
  }

  bool is_promising(const Instruction&) const override { return false; }

  Instruction* emit(Builder& builder, const Instruction& instruction) const override {
    if (!matches(instruction)) refuse(*this);
    const ConvolutionView view = *ConvolutionView::of(instruction);
    return builder.convolution(builder.convert(view.input(), ElementType::kBF16),
                               builder.convert(view.kernel(), ElementType::kBF16),
                               {.window = view.window(),
                                .dims = view.dims(),
                                .feature_group_count = view.feature_groups(),
                                .batch_group_count = view.batch_groups()},
                               ElementType::kF32);
  }
};

// x * scale + shift; the vectors stay apart from the work on the array, which the compiler would
// otherwise repeat for every element.
Instruction* emit_affine(Builder& builder, const AffineChain& chain, Instruction* x,
                         AffineChain::Vectors vectors) {
  const Dims& dims = chain.x->shape.dimensions;
  const auto spread = [&](Instruction* vector) {
    return builder.broadcast(builder.optimization_barrier(vector), dims, chain.feature_dims);
  };
  if (vectors.scale != nullptr) x = builder.multiply(x, spread(vectors.scale));
  if (vectors.shift != nullptr) x = builder.add(x, spread(vectors.shift));
  return x;
}

class NormalizationAffine : public Rule {
 public:
  std::string_view name() const override { return "normalization_affine"; }
  RuleClass rule_class() const override { return RuleClass::kRelaxes; }

  bool matches(const Instruction& instruction) const override {
    const auto chain = AffineChain::ending_at(instruction);
    return chain && chain->has_scale && chain->steps.size() >= 3;
  }

  bool is_promising(const Instruction&) const override { return false; }

  std::vector<const Instruction*> inner_nodes(const Instruction& instruction) const override {
    return AffineChain::ending_at(instruction)->inner_nodes();
  }

  Instruction* emit(Builder& builder, const Instruction& instruction) const override {
    if (!matches(instruction)) refuse(*this);
    const AffineChain chain = *AffineChain::ending_at(instruction);
    return emit_affine(builder, chain, chain.x, chain.emit_vectors(builder));
  }
};

// The scale of a convolution's or dot's output features, moved into its weights.
class FoldedScale : public Rule {
 public:
  std::string_view name() const override { return "folded_scale"; }
  RuleClass rule_class() const override { return RuleClass::kRelaxes; }

  bool matches(const Instruction& instruction) const override {
    const auto chain = AffineChain::ending_at(instruction);
    return chain && chain->has_scale && weight_dims(*chain);
  }

  bool is_promising(const Instruction&) const override { return false; }

  std::vector<const Instruction*> inner_nodes(const Instruction& instruction) const override {
    const auto chain = AffineChain::ending_at(instruction);
    std::vector<const Instruction*> nodes = {chain->x};
    for (const Instruction* node : chain->inner_nodes()) nodes.push_back(node);
    return nodes;
  }

  Instruction* emit(Builder& builder, const Instruction& instruction) const override {
    if (!matches(instruction)) refuse(*this);
    const AffineChain chain = *AffineChain::ending_at(instruction);
    AffineChain::Vectors vectors = chain.emit_vectors(builder);
    const auto [side, weights] = weights_of(chain);
    Instruction* const scaled = builder.multiply(
        weights, builder.broadcast(vectors.scale, weights->shape.dimensions, *weight_dims(chain)));
    Instruction* const product = with_operand(builder, *chain.x, side, scaled);
    vectors.scale = nullptr;
    return emit_affine(builder, chain, product, vectors);
  }

 private:
  // Operand number and operand that carries the output features.
  static std::pair<size_t, Instruction*> weights_of(const AffineChain& chain) {
    size_t side = 1;
    if (const auto dot = DotView::of(*chain.x)) {
      const auto first_column =
          static_cast<int64_t>(dot->dims().lhs_batch.size() + dot->lhs_free.size());
      if (chain.feature_dims.back() < first_column) side = 0;
    }
    return {side, chain.x->operands[side]};
  }

  // Where the weights have the dimensions along which the scale varies; nullopt: it cannot move.
  static std::optional<Dims> weight_dims(const AffineChain& chain) {
    if (const auto view = ConvolutionView::of(*chain.x)) {
      if (chain.feature_dims != Dims{view->dims().output_feature} || !is_same_type(*chain.x)) {
        return std::nullopt;
      }
      return Dims{view->dims().kernel_output_feature};
    }
    const auto dot = DotView::of(*chain.x);
    if (!dot || !is_same_type(*chain.x)) return std::nullopt;
    const auto batch = static_cast<int64_t>(dot->dims().lhs_batch.size());
    const auto [side, weights] = weights_of(chain);
    const Dims& free = side == 0 ? dot->lhs_free : dot->rhs_free;
    const int64_t first = batch + (side == 0 ? 0 : static_cast<int64_t>(dot->lhs_free.size()));
    Dims dims;
    for (int64_t d : chain.feature_dims) {
      if (d < first) return std::nullopt;
      dims.push_back(free.at(static_cast<size_t>(d - first)));
    }
    return dims;
  }

  static bool is_same_type(const Instruction& i) {
    return i.operand(0).shape.element_type == i.shape.element_type &&
           i.operand(1).shape.element_type == i.shape.element_type;
  }

  static Instruction* with_operand(Builder& builder, const Instruction& product, size_t side,
                                   Instruction* operand) {
    std::vector<Instruction*> operands = product.operands;
    operands[side] = operand;
    Instruction* result;
    if (product.opcode == Opcode::kDot) {
      result = builder.dot(operands[0], operands[1], *product.attributes.dot,
                           product.shape.element_type);
    } else {
      result = builder.convolution(operands[0], operands[1],
                                   {.window = product.attributes.window,
                                    .dims = *product.attributes.convolution,
                                    .feature_group_count = product.attributes.feature_group_count,
                                    .batch_group_count = product.attributes.batch_group_count},
                                   product.shape.element_type);
    }
    copy_precision(product, *result);
    return result;
  }
};

}  // namespace

const Rule& bf16_dot_rule() {
  static const Bf16Dot kRule;
  return kRule;
}

const Rule& bf16_convolution_rule() {
  static const Bf16Convolution kRule;
  return kRule;
}

const Rule& normalization_affine_rule() {
  static const NormalizationAffine kRule;
  return kRule;
}

const Rule& folded_scale_rule() {
  static const FoldedScale kRule;
  return kRule;
}

}  // namespace lagom::rewrite
