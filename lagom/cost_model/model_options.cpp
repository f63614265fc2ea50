#include "lagom/cost_model/model_options.h"

#include <stdexcept>
#include <string>

namespace lagom::cost_model {
namespace {

constexpr std::string_view kNames[] = {"ours",          "early_join",  "late_join",
                                       "layout_resnet", "mlp",         "first_place",
                                       "second_place",  "third_place", "rewritten"};

}  // namespace

std::span<const std::string_view> option_names(ModelKind) {
  return kNames;
}

void ModelOptions::validate() const {
  const auto check = [](bool ok, const char* field) {
    if (!ok)
      throw std::invalid_argument("ModelOptions: " + std::string(field) + " is out of range");
  };
  check(width >= 8 && width <= 4096, "width");
  for (const int64_t w : graph_widths) check(w >= 1 && w <= 4096, "graph_widths");
  check(linear_layers >= 1 && linear_layers <= 64, "linear_layers");
  check(graph_layers >= 0 && graph_layers <= 64, "graph_layers");
  check(trunk_layers >= 0 && trunk_layers <= 64, "trunk_layers");
  check(opcode_channels >= 1 && opcode_channels <= 1024, "opcode_channels");
  check(layout_channels >= 1 && layout_channels <= 256, "layout_channels");
  check(form_channels >= 1 && form_channels <= 1024, "form_channels");
  check(message_width >= 1 && message_width <= 4096, "message_width");
  check(node_channels >= 1 && node_channels <= 4096, "node_channels");
  check(head_layers >= 0 && head_layers <= 16, "head_layers");
  check(dropout >= 0 && dropout < 1, "dropout");
}

}  // namespace lagom::cost_model
