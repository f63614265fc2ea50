#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "lagom/lm/model.h"
#include "lagom/tensor/safetensors.h"
#include "lagom/text/tokenizer.h"

namespace lagom::lm {

/// The model's parameters and thresholds under their names, as a checkpoint holds them; they share
/// memory with the model.
std::vector<tensor::NamedTensor> model_tensors(const Model& model);

/// Writes a model: its tensors, `more` behind them, and in the metadata its options and the name of
/// its tokenizer ("bytes", or a file beside the checkpoint), with `metadata` added.
void save_model(const std::filesystem::path& path, const Model& model, const std::string& tokenizer,
                const std::vector<tensor::NamedTensor>& more = {},
                const formats::SafetensorsMetadata& metadata = {});

struct LoadedModel {
  std::unique_ptr<Model> model;
  std::string tokenizer;
  tensor::TensorFile file;  ///< Everything that was in the file.
};

/// Reads a checkpoint of save_model, or a model that another tool wrote (see import.h). A folder
/// means its `model.safetensors`. Float32 weights stay mapped: their pages come in as they are
/// used. Throws FormatError for unknown options, tensors that are missing, of other shapes or
/// unknown.
LoadedModel load_model(const std::filesystem::path& path);

/// Copies (or maps) a file's tensors into the model's. Tensors that begin with "optimizer." and
/// "average." are left alone. Throws as load_model.
void set_model_tensors(Model& model, const tensor::TensorFile& file, const std::string& path);

/// The tokenizer that a checkpoint names; a file is looked for beside the checkpoint.
std::unique_ptr<text::Tokenizer> open_tokenizer(const std::string& name,
                                                const std::filesystem::path& beside);

/// Replaces a folder by the checkpoint in it: a run's model.safetensors, else
/// checkpoint.safetensors.
std::filesystem::path checkpoint_path(const std::filesystem::path& path);

}  // namespace lagom::lm
