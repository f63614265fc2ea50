#include "learn/models.h"

#include <memory>
#include <sstream>

#include "lagom/collect/program_graph.h"
#include "lagom/tensor/threads.h"
#include "lagom/util/error.h"

namespace lagom::learn {

std::vector<cost_model::TrainedModel> load_models(const std::string& paths) {
  std::vector<cost_model::TrainedModel> models;
  std::istringstream list(paths);
  for (std::string path; std::getline(list, path, ',');) {
    models.push_back(cost_model::TrainedModel::load(path));
    const auto& format = models.back().normalization().format;
    const auto& first = models.front().normalization().format;
    if (!(format == first)) {
      throw FormatError(
          path, "",
          "is for graphs of " + format.to_string() + ", the first model for " + first.to_string());
    }
  }
  return models;
}

collect::EncodingOptions encoding_of(const cost_model::FeatureFormat& format) {
  return {
      .encoding =
          format.has_config_graphs ? collect::Encoding::kRewritten : collect::Encoding::kDecisions,
      .graph = {.feature_version = format.feature_version, .list_padding = format.list_padding}};
}

tune::CostModel load_cost_model(const std::string& path) {
  std::vector<cost_model::TrainedModel> models = load_models(path);
  const cost_model::FeatureFormat format = models.at(0).normalization().format;
  if (models.size() != 1 || !(format.has_forms || format.has_config_graphs)) {
    throw FormatError(path, "",
                      "expected one model of kernels' forms, found " +
                          (models.size() != 1 ? std::to_string(models.size()) + " models"
                                              : "one for " + format.to_string()));
  }
  // The machine is to be quiet while kernels are timed.
  tensor::set_num_threads(1);
  std::vector<std::string> devices = models[0].devices();
  auto ranker =
      std::make_shared<cost_model::ModelRanker>(std::move(models), cost_model::InferenceOptions{});
  const auto costs = [ranker, format](const hlo::Module& module,
                                      const std::vector<rewrite::Configuration>& configurations) {
    const collect::ProgramGraph graph(module.name, module, configurations, encoding_of(format));
    return ranker->costs(graph.view());
  };
  return {.costs = costs, .devices = std::move(devices)};
}

}  // namespace lagom::learn
