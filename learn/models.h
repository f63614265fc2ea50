#pragma once

#include <string>
#include <vector>

#include "lagom/collect/measured_encoding.h"
#include "lagom/cost_model/trained_model.h"
#include "lagom/tune/form_beliefs.h"

namespace lagom::learn {

/// Loads one model file, or several whose names have commas between them. Throws as
/// TrainedModel::load, and FormatError when their graphs' formats differ.
std::vector<cost_model::TrainedModel> load_models(const std::string& paths);

/// How a program is put before a model for graphs of this format.
collect::EncodingOptions encoding_of(const cost_model::FeatureFormat& format);

/// What `lagom tune --model` asks: one model, trained on forms of kernels with a loss that makes
/// costs logarithms (log_mse). Throws as load_models, and FormatError for a model that does not
/// know forms.
tune::CostModel load_cost_model(const std::string& path);

}  // namespace lagom::learn
