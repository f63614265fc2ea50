#include "lagom/tune/kernel_features.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "lagom/hlo/contraction.h"
#include "lagom/hlo/cost_analysis.h"
#include "lagom/rewrite/convolution_view.h"

namespace lagom::tune {
namespace {

/// What makes another loop rather than a longer one.
constexpr float kApart = 4;

float log_size(double size) {
  return static_cast<float>(std::log2(1 + std::max(size, 0.0)));
}

void add_shape(const hlo::Shape& shape, std::vector<float>& features) {
  features.push_back(log_size(static_cast<double>(shape.size_bytes())));
  features.push_back(log_size(hlo::minor_size(shape)));
}

void add_convolution(const hlo::Instruction& node, std::vector<float>& features) {
  const auto view = rewrite::ConvolutionView::of(node);
  if (!view) {
    features.insert(features.end(), 12, -1);
    return;
  }
  double stride = 1, holes = 1, dilation = 1;
  for (const hlo::WindowDim& d : view->window()) {
    stride *= static_cast<double>(d.stride);
    holes *= static_cast<double>(d.base_dilation);
    dilation *= static_cast<double>(d.window_dilation);
  }
  for (const double size :
       {static_cast<double>(view->output_batch()), static_cast<double>(view->input_features()),
        static_cast<double>(view->output_features()), static_cast<double>(view->feature_groups()),
        static_cast<double>(view->batch_groups()), static_cast<double>(view->output_positions()),
        static_cast<double>(view->window_elements()), stride, holes, dilation}) {
    features.push_back(log_size(size));
  }
  features.push_back(kApart * static_cast<float>(view->dims().kernel_input_feature));
  features.push_back(kApart * static_cast<float>(view->spatial_rank()));
}

void add_dot(const hlo::Instruction& node, std::vector<float>& features) {
  const auto& dims = node.attributes.dot;
  if (!dims || node.operands.size() < 2) {
    features.insert(features.end(), 6, -1);
    return;
  }
  const hlo::Shape& left = node.operand(0).shape;
  const hlo::Shape& right = node.operand(1).shape;
  const hlo::Contraction c = hlo::contraction_of(node);
  for (const double size : {c.batch, c.rows, c.columns, c.depth}) {
    features.push_back(log_size(size));
  }
  const auto is_last = [](const hlo::Shape& shape, const hlo::Dims& which) {
    return !which.empty() && which.back() == shape.rank() - 1;
  };
  features.push_back(is_last(left, dims->lhs_contracting) ? kApart : 0);
  features.push_back(is_last(right, dims->rhs_contracting) ? kApart : 0);
}

}  // namespace

std::vector<float> describe_node(const hlo::Module& module, const std::string& name) {
  const hlo::Instruction* node = module.entry()->find(name);
  if (node == nullptr) throw std::invalid_argument("no node " + name + " in the module's entry");
  hlo::CostAnalysis costs(module);
  std::vector<float> features = {log_size(costs.of(*node).flops)};
  add_shape(node->shape, features);
  for (size_t i = 0; i < 2; ++i) {
    if (i < node->operands.size()) {
      add_shape(node->operand(i).shape, features);
    } else {
      features.insert(features.end(), 2, 0);
    }
  }
  const hlo::Shape& typed =
      node->shape.is_array() || node->operands.empty() ? node->shape : node->operand(0).shape;
  features.push_back(typed.is_array() ? static_cast<float>(hlo::element_bytes(typed.element_type))
                                      : 0);
  if (node->opcode == hlo::Opcode::kConvolution) add_convolution(*node, features);
  if (node->opcode == hlo::Opcode::kDot) add_dot(*node, features);
  return features;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += d * d;
  }
  return std::sqrt(sum);
}

}  // namespace lagom::tune
