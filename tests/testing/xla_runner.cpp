#include "tests/testing/xla_runner.h"

#include <cstdlib>
#include <iostream>

#include "lagom/hlo/proto_writer.h"
#include "lagom/hlo/text_writer.h"
#include "lagom/xla/client.h"
#include "tests/testing/plugins.h"

namespace lagom::testing {
namespace {

const xla::Client& client() {
  static const xla::Client kClient(xla::Plugin::load(plugin_path()));
  return kClient;
}

// A complex array's imaginary parts stand behind its real ones (hlo::Values).
std::string encoded(hlo::ElementType type, const hlo::Values& numbers) {
  const auto width = static_cast<size_t>(number_format(type).bytes);
  const bool is_complex = hlo::is_complex(type);
  const size_t n = is_complex ? numbers.size() / 2 : numbers.size();
  std::string bytes(n * width, '\0');
  for (size_t i = 0; i < n; ++i) {
    encode_number(type, numbers[i], bytes.data() + i * width, is_complex ? numbers[n + i] : 0);
  }
  return bytes;
}

void append_leaves(const hlo::Value& value, std::vector<hlo::Values>* result) {
  if (!value.is_tuple()) result->push_back(value.numbers());
  for (const hlo::Value& element : value.elements()) append_leaves(element, result);
}

void append_leaf_shapes(const hlo::Shape& shape, std::vector<hlo::Shape>* result) {
  if (shape.is_array()) result->push_back(shape);
  for (const hlo::Shape& element : shape.tuple_shapes) append_leaf_shapes(element, result);
}

}  // namespace

hlo::Values decoded(hlo::ElementType type, std::string_view bytes) {
  const auto width = static_cast<size_t>(number_format(type).bytes);
  const size_t n = bytes.size() / width;
  const int parts = hlo::is_complex(type) ? 2 : 1;
  hlo::Values numbers;
  numbers.reserve(n * static_cast<size_t>(parts));
  for (int part = 0; part < parts; ++part) {
    for (size_t i = 0; i < n; ++i) {
      numbers.push_back(decode_number(type, bytes.data() + i * width, part));
    }
  }
  return numbers;
}

hlo::Values rounded(hlo::ElementType type, hlo::Values numbers) {
  return decoded(type, encoded(type, numbers));
}

std::vector<hlo::Values> run_in_xla(const hlo::Module& module,
                                    const std::vector<hlo::Values>& arguments) {
  if (std::getenv("LAGOM_TRACE_XLA") != nullptr) {
    std::cerr << hlo::write_hlo_text(module) << std::endl;
  }
  std::vector<hlo::Shape> shapes;
  const std::vector<hlo::Instruction*> parameters = module.entry()->parameters();
  for (const hlo::Instruction* parameter : parameters) {
    append_leaf_shapes(parameter->shape, &shapes);
  }
  xla::CompileOptions options;
  options.tuple_arguments = parameters.size() == 1 && parameters[0]->shape.is_tuple();
  const xla::Executable executable = client().compile(hlo::write_hlo_proto(module), options);
  std::vector<xla::Buffer> inputs;
  for (size_t i = 0; i < shapes.size(); ++i) {
    inputs.push_back(client().buffer_from_host({shapes[i].element_type, shapes[i].dimensions},
                                               encoded(shapes[i].element_type, arguments.at(i))));
  }
  std::vector<hlo::Values> results;
  for (const xla::Buffer& output : executable.run(inputs).outputs) {
    results.push_back(decoded(output.type().element_type, output.to_host()));
  }
  return results;
}

std::vector<hlo::Values> leaves(const hlo::Value& value) {
  std::vector<hlo::Values> result;
  append_leaves(value, &result);
  return result;
}

std::vector<hlo::ElementType> leaf_types(const hlo::Shape& shape) {
  std::vector<hlo::Shape> shapes;
  append_leaf_shapes(shape, &shapes);
  std::vector<hlo::ElementType> types;
  for (const hlo::Shape& leaf : shapes) types.push_back(leaf.element_type);
  return types;
}

}  // namespace lagom::testing
