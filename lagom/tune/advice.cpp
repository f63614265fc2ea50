#include "lagom/tune/advice.h"

#include <string_view>

namespace lagom::tune {
namespace {

using rewrite::Decision;
using rewrite::DecisionKind;

std::string python_list(const hlo::Dims& dims) {
  std::string out = "(";
  for (const int64_t d : dims) out += std::to_string(d) + ",";
  return out + ")";
}

struct FormAdvice {
  std::string_view form, advice;
};

constexpr FormAdvice kFormAdvice[] = {
    {"depthwise_taps",
     "y = sum(x_padded[..., i:i+h, j:j+w, :] * kernel[i, j, 0] for every tap (i, j)) instead "
     "of lax.conv_general_dilated(..., feature_group_count=C)"},
    {"depthwise_weight_gradient",
     "the kernel's gradient at tap (i, j) is jnp.sum(x_padded[:, i:i+h, j:j+w, :] * dy, "
     "axis=(0, 1, 2)); give the depthwise layer a jax.custom_vjp with it"},
    {"im2col_dot",
     "patches = jnp.concatenate([x_padded[:, i:i+h, j:j+w, :] for every tap], axis=-1); y = "
     "patches.reshape(-1, k*k*I) @ kernel.reshape(k*k*I, O) instead of the convolution"},
    {"im2col_dot_weights_first",
     "columns = stack of x_padded[:, :, i:i+h, j:j+w] over taps, as [I*k*k, N*h*w]; y = "
     "kernel.reshape(O, I*k*k) @ columns instead of the convolution"},
    {"position_dots",
     "the kernel's gradient at tap (i, j) is jnp.einsum('nhwi,nhwo->io', x_padded[:, i:i+h, "
     "j:j+w, :], dy); give the layer a jax.custom_vjp with it"},
    {"tap_dots",
     "y = sum(x_padded[:, i:i+h, j:j+w, :] @ kernel[i, j] for every tap (i, j)) instead of "
     "the convolution"},
    {"phases",
     "split the kernel by kernel[p::stride, q::stride], run one plain convolution for each "
     "phase (p, q) and interleave the results instead of lhs_dilation"},
    {"phases_im2col",
     "split the kernel by kernel[p::stride, q::stride], compute every phase as patches @ "
     "kernel and interleave the results instead of lhs_dilation"},
    {"col2im",
     "parts = x.reshape(-1, I) @ kernel.reshape(I, k*k*O); y = sum of every tap's part, "
     "placed with lax.pad (interior = stride - 1), instead of lhs_dilation"},
    {"trimmed_convolution",
     "cut the kernel to the taps that meet the input (kernel[1:2, 1:2] for 3x3 on a 1x1 map) "
     "and reduce the padding to match"},
    {"padded_convolution",
     "x = lax.optimization_barrier(jnp.pad(x, ...)), then the convolution with padding='VALID'"},
    {"float32_convolution", "convert operands to float32 for the convolution and its result back"},
    {"grouped_taps",
     "y = sum(x_padded[..., i:i+h, j:j+w, g::G] * kernel[i, j, g] for every tap and input "
     "feature g of a group of G) instead of feature_group_count"},
    {"pool_slices",
     "functools.reduce(jnp.maximum, [x_padded[:, i:i+h:s, j:j+w:s, :] for every (i, j)]) "
     "instead of lax.reduce_window (add for a sum)"},
    {"pool_separable",
     "pool rows first, then columns, each as jnp.maximum over shifted slices (add for a sum), "
     "instead of lax.reduce_window"},
    {"max_pool_gradient_slices",
     "give the pool a jax.custom_vjp: for every window element, dy where it is the first that "
     "equals the maximum, placed with lax.pad (interior = stride - 1) and added"},
    {"row_dots", "jnp.stack([w @ row for row in x]) instead of x @ w.T"},
    {"swapped_dot",
     "give einsum the operands the other way round (weights, values) and transpose the result"},
    {"ordered_dot",
     "lax.optimization_barrier(jnp.transpose(...)) the operands to [batch, rows, depth] and "
     "[batch, depth, columns], then jnp.matmul"},
    {"swapped_ordered_dot",
     "lax.optimization_barrier(jnp.transpose(...)) the operands for jnp.matmul with the sides "
     "swapped, then transpose the result"},
    {"outer_product",
     "x[:, None] * w[None, :], added up over the few contracted elements, instead of a dot"},
    {"float32_dot", "convert operands to float32 for the dot and its result back"},
    {"merged_dots",
     "concatenate the weights once, outside of the step, and split the result: jnp.split(h @ "
     "weights, n, axis=-1)"},
    {"ones_dot", "jnp.ones(n) @ x.reshape(n, -1) instead of x.sum(axis=0)"},
    {"arg_select",
     "best = x.max(axis, keepdims=True); jnp.min(jnp.where(x == best, jnp.arange(n), n), "
     "axis) instead of jnp.argmax (NaNs aside)"},
    {"unmasked_gather",
     "table.at[indices].get(mode='promise_in_bounds') instead of table[indices]"},
    {"bf16_dot",
     "jnp.dot(x.astype(jnp.bfloat16), w.astype(jnp.bfloat16), "
     "preferred_element_type=jnp.float32)"},
    {"bf16_convolution",
     "lax.conv_general_dilated on x.astype(jnp.bfloat16) and kernel.astype(jnp.bfloat16) with "
     "preferred_element_type=jnp.float32"},
    {"normalization_affine",
     "scale = gamma * lax.rsqrt(var + eps); shift = beta - mean * scale; y = x * scale + "
     "shift, with lax.optimization_barrier around scale and shift"},
    {"folded_scale",
     "multiply the layer's weights by the scale of their output features and leave that "
     "multiplication of the result out"},
};

std::string form_advice(std::string_view form) {
  for (const FormAdvice& entry : kFormAdvice) {
    if (entry.form == form) return std::string(entry.advice);
  }
  return "write the operation in the form that the tuned program shows for this node";
}

}  // namespace

DecisionReport describe_decision(const hlo::Module& module, const Decision& decision) {
  DecisionReport report;
  report.decision = decision;
  for (const auto& computation : module.computations()) {
    const hlo::Instruction* instruction = computation->find(decision.instruction);
    if (instruction == nullptr) continue;
    report.opcode = hlo::opcode_name(instruction->opcode);
    report.shape = instruction->shape.to_string();
    if (instruction->metadata) report.op_name = instruction->metadata->op_name;
    report.source = hlo::source_location(module, *instruction);
    break;
  }
  switch (decision.kind) {
    case DecisionKind::kForm:
      report.advice = form_advice(decision.form);
      break;
    case DecisionKind::kOutputLayout:
    case DecisionKind::kOperandLayout: {
      hlo::Dims major_to_minor(decision.layout.rbegin(), decision.layout.rend());
      report.advice = "jax.experimental.layout.with_layout_constraint(" +
                      std::string(decision.kind == DecisionKind::kOutputLayout
                                      ? "y"
                                      : "operand " + std::to_string(decision.operand)) +
                      ", Layout(major_to_minor=" + python_list(major_to_minor) + "))";
      break;
    }
    case DecisionKind::kBarrier:
      report.advice =
          "jax.lax.optimization_barrier(operand " + std::to_string(decision.operand) + ")";
      break;
  }
  return report;
}

std::string compiler_options_python(const Flags& flags) {
  std::string out = "{";
  for (const auto& [name, value] : flags) {
    if (out.size() > 1) out += ", ";
    out += "'" + name + "': ";
    if (const bool* flag = std::get_if<bool>(&value)) {
      out += *flag ? "True" : "False";
    } else if (std::holds_alternative<std::string>(value)) {
      out += "'" + flag_value_to_string(value) + "'";
    } else {
      out += flag_value_to_string(value);
    }
  }
  return out + "}";
}

}  // namespace lagom::tune
