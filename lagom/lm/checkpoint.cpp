#include "lagom/lm/checkpoint.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include <set>
#include <sstream>

#include "lagom/lm/import.h"
#include "lagom/util/error.h"
#include "lagom/util/options.h"

namespace lagom::lm {
namespace {

constexpr const char* kFormat = "lagom.lm";
constexpr const char* kVersion = "1";

std::string to_string(at::IntArrayRef sizes) {
  std::ostringstream out;
  out << sizes;
  return out.str();
}

bool is_training_state(const std::string& name) {
  return name.starts_with("optimizer.") || name.starts_with("average.");
}

}  // namespace

std::vector<tensor::NamedTensor> model_tensors(const Model& model) {
  std::vector<tensor::NamedTensor> tensors;
  for (const NamedTensor& parameter : model.parameters()) {
    tensors.emplace_back(parameter.name, parameter.value.detach());
  }
  if (model.options().num_routed() > 0) {
    tensors.emplace_back("thresholds.calibrated", model.calibrated_thresholds);
    tensors.emplace_back("thresholds.ema", model.ema_thresholds);
  }
  if (model.ema_expert_thresholds.defined()) {
    tensors.emplace_back("thresholds.experts_calibrated", model.calibrated_expert_thresholds);
    tensors.emplace_back("thresholds.experts_ema", model.ema_expert_thresholds);
  }
  return tensors;
}

void save_model(const std::filesystem::path& path, const Model& model, const std::string& tokenizer,
                const std::vector<tensor::NamedTensor>& more,
                const formats::SafetensorsMetadata& metadata) {
  std::vector<tensor::NamedTensor> tensors = model_tensors(model);
  tensors.insert(tensors.end(), more.begin(), more.end());
  formats::SafetensorsMetadata all = metadata;
  all["format"] = kFormat;
  all["version"] = kVersion;
  all["options"] = options_to_toml(model.options());
  all["tokenizer"] = tokenizer;
  tensor::save_tensors(path, tensors, all);
}

void set_model_tensors(Model& model, const tensor::TensorFile& file, const std::string& path) {
  const at::NoGradGuard no_grad;
  std::set<std::string> known;
  for (auto& [name, value] : model_tensors(model)) {
    known.insert(name);
    const at::Tensor found = file.find(name);
    if (!found.defined()) throw FormatError(path, "tensor '" + name + "'", "is missing");
    if (found.sizes() != value.sizes()) {
      throw FormatError(
          path, "tensor '" + name + "'",
          "has shape " + to_string(found.sizes()) + ", the model's is " + to_string(value.sizes()));
    }
  }
  for (const auto& [name, value] : file.tensors) {
    if (!known.contains(name) && !is_training_state(name)) {
      throw FormatError(path, "tensor '" + name + "'", "is none of the model's");
    }
  }
  for (NamedTensor& parameter : model.parameters()) {
    parameter.value.set_data(file.find(parameter.name).to(at::kFloat));
  }
  if (model.options().num_routed() > 0) {
    model.calibrated_thresholds.copy_(file.find("thresholds.calibrated"));
    model.ema_thresholds.copy_(file.find("thresholds.ema"));
  }
  if (model.ema_expert_thresholds.defined()) {
    model.calibrated_expert_thresholds.copy_(file.find("thresholds.experts_calibrated"));
    model.ema_expert_thresholds.copy_(file.find("thresholds.experts_ema"));
  }
}

std::filesystem::path checkpoint_path(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return path;
  const auto model = path / "model.safetensors";
  return std::filesystem::exists(model) ? model : path / "checkpoint.safetensors";
}

LoadedModel load_model(const std::filesystem::path& given) {
  const std::filesystem::path path = checkpoint_path(given);
  LoadedModel loaded;
  loaded.file = tensor::load_tensors(path);
  const auto& metadata = loaded.file.metadata;
  const auto format = metadata.find("format");
  if (format == metadata.end() || format->second != kFormat) return import_model(path);
  const auto version = metadata.find("version");
  if (version == metadata.end() || version->second != kVersion) {
    throw FormatError(path.string(), "metadata",
                      "expected version " + std::string(kVersion) + ", found " +
                          (version == metadata.end() ? "none" : version->second));
  }
  for (const char* key : {"options", "tokenizer"}) {
    if (!metadata.contains(key)) {
      throw FormatError(path.string(), "metadata", std::string("'") + key + "' is missing");
    }
  }
  LmOptions options;
  options_from_toml(metadata.at("options"), path.string() + ": options", options);
  loaded.tokenizer = metadata.at("tokenizer");
  try {
    loaded.model = std::make_unique<Model>(options, std::nullopt);
  } catch (const std::invalid_argument& error) {
    throw FormatError(path.string(), "options", error.what());
  }
  set_model_tensors(*loaded.model, loaded.file, path.string());
  return loaded;
}

std::unique_ptr<text::Tokenizer> open_tokenizer(const std::string& name,
                                                const std::filesystem::path& beside) {
  if (name == "bytes") return text::make_byte_tokenizer();
  const std::filesystem::path folder =
      std::filesystem::is_directory(beside) ? beside : beside.parent_path();
  const auto here = folder / name;
  return text::load_tokenizer(std::filesystem::exists(here) ? here : std::filesystem::path(name));
}

}  // namespace lagom::lm
