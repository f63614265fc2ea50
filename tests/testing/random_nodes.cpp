#include "tests/testing/random_nodes.h"

#include <utility>

namespace lagom::testing {

int64_t RandomChoices::integer(int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(generator_);
}

RandomNode::RandomNode() {
  entry = module.add_computation(std::make_unique<hlo::Computation>("main"));
  module.set_entry(entry);
}

NodeMaker::NodeMaker(Choices& choices)
    : choices(choices), names(result.module), builder(result.module, *result.entry, names) {}

hlo::Instruction* NodeMaker::parameter(hlo::ElementType type, hlo::Dims dims,
                                       std::string_view name) {
  if (type == hlo::ElementType::kPred) return whole_parameter(type, std::move(dims), 0, 1, name);
  if (hlo::is_integer(type)) return whole_parameter(type, std::move(dims), -3, 3, name);
  // One choice for all values: their number must not blow up the choices that are shrunk.
  std::mt19937 generator(static_cast<uint32_t>(choices.integer(0, 1 << 20)));
  std::normal_distribution<double> normal;
  hlo::Values values(static_cast<size_t>(hlo::checked_product(dims).value()));
  for (double& value : values) value = normal(generator);
  return parameter(type, std::move(dims), std::move(values), name);
}

hlo::Instruction* NodeMaker::whole_parameter(hlo::ElementType type, hlo::Dims dims, int64_t low,
                                             int64_t high, std::string_view name) {
  std::mt19937 generator(static_cast<uint32_t>(choices.integer(0, 1 << 20)));
  std::uniform_int_distribution<int64_t> whole(low, high);
  hlo::Values values(static_cast<size_t>(hlo::checked_product(dims).value()));
  for (double& value : values) value = static_cast<double>(whole(generator));
  return parameter(type, std::move(dims), std::move(values), name);
}

hlo::Instruction* NodeMaker::parameter(hlo::ElementType type, hlo::Dims dims, hlo::Values values,
                                       std::string_view name) {
  result.arguments.push_back(std::move(values));
  hlo::Instruction* const made = builder.parameter(
      static_cast<int64_t>(result.arguments.size()) - 1,
      hlo::Shape::array(type, dims, hlo::row_major(static_cast<int64_t>(dims.size()))), name);
  maybe_odd_layout(made);
  return made;
}

hlo::ElementType NodeMaker::float_type() {
  // Mostly f32, where the tolerance is tight.
  static const std::vector<hlo::ElementType> kTypes = {
      hlo::ElementType::kF32, hlo::ElementType::kF32, hlo::ElementType::kF32,
      hlo::ElementType::kBF16, hlo::ElementType::kF16};
  return choices.element(kTypes);
}

hlo::Dims NodeMaker::permutation(int64_t rank) {
  hlo::Dims left, result;
  for (int64_t d = 0; d < rank; ++d) left.push_back(d);
  while (!left.empty()) {
    const auto at = choices.integer(0, static_cast<int64_t>(left.size()) - 1);
    result.push_back(left[at]);
    left.erase(left.begin() + at);
  }
  return result;
}

void NodeMaker::maybe_odd_layout(hlo::Instruction* instruction) {
  if (!choices.rarely(4)) return;
  instruction->shape.layout.ensure().minor_to_major = permutation(instruction->shape.rank());
}

RandomNode NodeMaker::finish(hlo::Instruction* node) {
  result.node = node;
  if (result.entry->root() == nullptr) result.entry->set_root(node);
  return std::move(result);
}

const std::vector<NodeFamily>& node_families() {
  static const std::vector<NodeFamily> kFamilies = [] {
    std::vector<NodeFamily> families;
    for (std::vector<NodeFamily> part :
         {convolution_families(), pooling_families(), dot_families(), reduction_families(),
          affine_families(), gather_families()}) {
      families.insert(families.end(), std::make_move_iterator(part.begin()),
                      std::make_move_iterator(part.end()));
    }
    return families;
  }();
  return kFamilies;
}

}  // namespace lagom::testing
