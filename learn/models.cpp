#include "learn/models.h"

#include <sstream>

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

}  // namespace lagom::learn
