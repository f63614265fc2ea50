#pragma once

// Models of other tools: GPT-2 and Llama as Hugging Face writes them, and their way into a
// Mixture-of-Depths model.

#include <filesystem>

#include "lagom/lm/checkpoint.h"

namespace lagom::lm {

/// Reads a dense model from `model.safetensors` with `config.json` beside it: model_type gpt2
/// (transformer.h.N.attn.c_attn..., weights [in, out]) or llama and mistral (model.layers.N...).
/// The tokenizer is `tokenizer.json` beside it, "bytes" where there is none. Half-precision weights
/// become float32. Throws FormatError naming the tensor or the field of the config that does not
/// fit, and for what this model has not (rope scaling, other activations).
LoadedModel import_model(const std::filesystem::path& path);

/// Writes a dense model of RMS norm, SwiGLU and rotary positions under Llama's names into a folder:
/// model.safetensors and config.json. Throws std::invalid_argument for any other model.
void export_llama(const Model& model, const std::filesystem::path& folder);

/// A routed model with a dense one's weights: routers and predictors are new. With all tokens
/// entering (a capacity of 1) and gate none or 2sigmoid at its start it computes nearly what the
/// dense one does; training then lowers the capacity (TrainOptions::capacity_warmup_share).
/// Throws std::invalid_argument when the source is routed.
std::unique_ptr<Model> convert_to_routed(const Model& dense, const RoutingOptions& routing,
                                         uint64_t seed);

}  // namespace lagom::lm
