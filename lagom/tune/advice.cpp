#include "lagom/tune/advice.h"

namespace lagom::tune {
namespace {

using rewrite::Decision;
using rewrite::DecisionKind;

std::string python_list(const hlo::Dims& dims) {
  std::string out = "(";
  for (const int64_t d : dims) out += std::to_string(d) + ",";
  return out + ")";
}

std::string form_advice(const std::string& form) {
  if (form == "depthwise_taps") {
    return "y = sum(x_padded[..., i:i+h, j:j+w, :] * kernel[i, j, 0] for every tap (i, j)) instead "
           "of lax.conv_general_dilated(..., feature_group_count=C)";
  }
  if (form == "depthwise_weight_gradient") {
    return "the kernel's gradient at tap (i, j) is jnp.sum(x_padded[:, i:i+h, j:j+w, :] * dy, "
           "axis=(0, 1, 2)); give the depthwise layer a jax.custom_vjp with it";
  }
  if (form == "im2col_dot") {
    return "patches = jnp.concatenate([x_padded[:, i:i+h, j:j+w, :] for every tap], axis=-1); "
           "y = patches.reshape(-1, k*k*I) @ kernel.reshape(k*k*I, O) instead of the convolution";
  }
  if (form == "im2col_dot_weights_first") {
    return "columns = stack of x_padded[:, :, i:i+h, j:j+w] over taps, as [I*k*k, N*h*w]; "
           "y = kernel.reshape(O, I*k*k) @ columns instead of the convolution";
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
