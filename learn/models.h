#pragma once

#include <string>
#include <vector>

#include "lagom/cost_model/trained_model.h"

namespace lagom::learn {

/// Loads one model file, or several whose names have commas between them. Throws as
/// TrainedModel::load, and FormatError when their graphs' formats differ.
std::vector<cost_model::TrainedModel> load_models(const std::string& paths);

}  // namespace lagom::learn
