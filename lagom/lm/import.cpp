#include "lagom/lm/import.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "lagom/util/error.h"
#include "lagom/util/file.h"

namespace lagom::lm {
namespace {

using at::Tensor;
using nlohmann::json;

/// A foreign file's tensors and config, with its name in complaints.
class Source {
 public:
  explicit Source(const std::filesystem::path& path)
      : file(tensor::load_tensors(path)), path_(path.string()) {
    const auto config_path = path.parent_path() / "config.json";
    if (!std::filesystem::exists(config_path)) {
      throw FormatError(path_, "metadata",
                        "is no checkpoint of this program, and has no config.json beside it");
    }
    config_path_ = config_path.string();
    config_ = json::parse(read_file(config_path), nullptr, /*allow_exceptions=*/false);
    if (!config_.is_object()) throw FormatError(config_path_, "", "is no JSON object");
  }

  [[noreturn]] void fail(const std::string& where, const std::string& what) const {
    throw FormatError(config_path_, where, what);
  }

  template <typename T>
  T field(const char* name) const {
    if (!config_.contains(name)) fail(name, "is missing");
    return value<T>(name, T{});
  }
  template <typename T>
  T value(const char* name, T otherwise) const {
    if (!config_.contains(name) || config_[name].is_null()) return otherwise;
    try {
      return config_[name].get<T>();
    } catch (const json::exception&) {
      fail(name, "has another type than expected: " + config_[name].dump());
    }
  }
  bool has_value(const char* name) const {
    return config_.contains(name) && !config_[name].is_null();
  }
  /// Throws unless the field is absent or has this value: other models compute something else.
  template <typename T>
  void require(const char* name, T expected) const {
    if (value<T>(name, expected) != expected) {
      fail(name, "expected " + json(expected).dump() + ", found " + config_[name].dump());
    }
  }

  /// The base of rotary embedding: in `rope_parameters` (transformers 5) or beside it (before).
  double rope_theta() const {
    const json& parameters = rope_object("rope_parameters");
    rope_object("rope_scaling");
    const double theta = value("rope_theta", 10000.0);
    if (!parameters.contains("rope_theta")) return theta;
    if (!parameters["rope_theta"].is_number()) fail("rope_parameters", "rope_theta is no number");
    return parameters["rope_theta"].get<double>();
  }

  /// Float32; throws when it is missing or has another shape.
  Tensor weights(const std::string& name, at::IntArrayRef sizes) const {
    Tensor found = file.find(name);
    if (!found.defined()) throw FormatError(path_, "tensor '" + name + "'", "is missing");
    if (found.sizes() != sizes) {
      std::ostringstream what;
      what << "has shape " << found.sizes() << ", the config asks for " << sizes;
      throw FormatError(path_, "tensor '" + name + "'", what.str());
    }
    return found.to(at::kFloat);
  }

  tensor::TensorFile file;

 private:
  /// A field that may scale rotary embedding, which is refused; an empty object without it.
  const json& rope_object(const char* name) const {
    static const json kNone = json::object();
    if (!has_value(name)) return kNone;
    const json& object = config_[name];
    if (!object.is_object()) fail(name, "is no object: " + object.dump());
    for (const char* kind : {"rope_type", "type"}) {
      if (object.contains(kind) && object[kind] != "default") {
        fail(name, "expected rotary embedding of type default, found " + object[kind].dump());
      }
    }
    if (object.contains("factor") || object.value("partial_rotary_factor", json(1.0)) != 1.0) {
      fail(name, "scaled or partial rotary embedding is not supported: " + object.dump());
    }
    return object;
  }

  std::string path_, config_path_;
  json config_;
};

/// Sets a parameter of the model by its name.
class Target {
 public:
  explicit Target(Model& model) : parameters_(model.parameters()) {}
  void set(const std::string& name, const Tensor& value) {
    for (NamedTensor& parameter : parameters_) {
      if (parameter.name != name) continue;
      TORCH_INTERNAL_ASSERT(parameter.value.sizes() == value.sizes(), name);
      parameter.value.set_data(value.contiguous());
      return;
    }
    TORCH_INTERNAL_ASSERT(false, "no parameter ", name);
  }

 private:
  std::vector<NamedTensor> parameters_;
};

std::unique_ptr<Model> make_empty(LmOptions options, const Source& source) {
  options.routing.every = 0;
  try {
    return std::make_unique<Model>(options, std::nullopt);
  } catch (const std::invalid_argument& error) {
    source.fail("", error.what());
  }
}

std::unique_ptr<Model> import_gpt2(const Source& source) {
  LmOptions o;
  o.vocab_size = source.field<int64_t>("vocab_size");
  o.seq_len = source.value<int64_t>("n_positions", source.value<int64_t>("n_ctx", 1024));
  o.d_model = source.field<int64_t>("n_embd");
  o.num_layers = source.field<int64_t>("n_layer");
  o.num_heads = source.field<int64_t>("n_head");
  o.d_mlp = source.value<int64_t>("n_inner", 4 * o.d_model);
  o.norm = Norm::kLayer;
  o.norm_epsilon = source.value("layer_norm_epsilon", 1e-5);
  o.positions = Positions::kLearned;
  o.bias = true;
  const auto activation = source.value<std::string>("activation_function", "gelu_new");
  if (activation != "gelu_new" && activation != "gelu_pytorch_tanh") {
    source.fail("activation_function", "expected gelu_new, found " + activation);
  }
  source.require("scale_attn_weights", true);
  source.require("scale_attn_by_inverse_layer_idx", false);
  source.require("add_cross_attention", false);
  o.tied_head = source.value("tie_word_embeddings", true);
  auto model = make_empty(o, source);
  Target target(*model);
  const std::string root =
      source.file.find("transformer.wte.weight").defined() ? "transformer." : "";
  const int64_t d = o.d_model, hidden = o.d_mlp;
  target.set("embedding.weight", source.weights(root + "wte.weight", {o.vocab_size, d}));
  target.set("position_embedding.weight", source.weights(root + "wpe.weight", {o.seq_len, d}));
  for (int64_t layer = 0; layer < o.num_layers; ++layer) {
    const std::string from = root + "h." + std::to_string(layer) + ".";
    const std::string to = "blocks." + std::to_string(layer) + ".";
    const auto norm = [&](const char* theirs, const char* ours) {
      target.set(to + ours + ".weight", source.weights(from + theirs + ".weight", {d}));
      target.set(to + ours + ".bias", source.weights(from + theirs + ".bias", {d}));
    };
    const auto linear = [&](const char* theirs, const char* ours, int64_t in, int64_t out) {
      target.set(to + ours + ".weight", source.weights(from + theirs + ".weight", {in, out}).t());
      target.set(to + ours + ".bias", source.weights(from + theirs + ".bias", {out}));
    };
    norm("ln_1", "attention_norm");
    norm("ln_2", "mlp_norm");
    linear("attn.c_attn", "qkv", d, 3 * d);
    linear("attn.c_proj", "attention_out", d, d);
    linear("mlp.c_fc", "mlp_in", d, hidden);
    linear("mlp.c_proj", "mlp_out", hidden, d);
  }
  target.set("norm.weight", source.weights(root + "ln_f.weight", {d}));
  target.set("norm.bias", source.weights(root + "ln_f.bias", {d}));
  if (!o.tied_head) target.set("head.weight", source.weights("lm_head.weight", {o.vocab_size, d}));
  return model;
}

std::unique_ptr<Model> import_llama(const Source& source) {
  LmOptions o;
  o.vocab_size = source.field<int64_t>("vocab_size");
  o.seq_len = source.field<int64_t>("max_position_embeddings");
  o.d_model = source.field<int64_t>("hidden_size");
  o.num_layers = source.field<int64_t>("num_hidden_layers");
  o.num_heads = source.field<int64_t>("num_attention_heads");
  o.num_kv_heads = source.value("num_key_value_heads", o.num_heads);
  o.d_mlp = source.field<int64_t>("intermediate_size");
  o.activation = Activation::kSwiglu;
  o.norm_epsilon = source.value("rms_norm_eps", 1e-6);
  o.rope_theta = source.rope_theta();
  o.tied_head = source.value("tie_word_embeddings", false);
  source.require("attention_bias", false);
  source.require("mlp_bias", false);
  source.require<std::string>("hidden_act", "silu");
  if (source.value("sliding_window", o.seq_len) < o.seq_len) {
    source.fail("sliding_window", "attention within a window is not supported");
  }
  if (o.num_heads > 0 &&
      source.value<int64_t>("head_dim", o.d_model / o.num_heads) * o.num_heads != o.d_model) {
    source.fail("head_dim", "expected hidden_size / num_attention_heads");
  }
  auto model = make_empty(o, source);
  Target target(*model);
  const int64_t d = o.d_model, kv = o.d_kv(), hidden = o.d_mlp;
  target.set("embedding.weight", source.weights("model.embed_tokens.weight", {o.vocab_size, d}));
  for (int64_t layer = 0; layer < o.num_layers; ++layer) {
    const std::string from = "model.layers." + std::to_string(layer) + ".";
    const std::string to = "blocks." + std::to_string(layer) + ".";
    const auto get = [&](const char* name, int64_t out, int64_t in) {
      return source.weights(from + name + ".weight", {out, in});
    };
    target.set(to + "attention_norm.weight", source.weights(from + "input_layernorm.weight", {d}));
    target.set(to + "qkv.weight",
               at::cat({get("self_attn.q_proj", d, d), get("self_attn.k_proj", kv, d),
                        get("self_attn.v_proj", kv, d)}));
    target.set(to + "attention_out.weight", get("self_attn.o_proj", d, d));
    target.set(to + "mlp_norm.weight",
               source.weights(from + "post_attention_layernorm.weight", {d}));
    target.set(to + "mlp_in.weight",
               at::cat({get("mlp.gate_proj", hidden, d), get("mlp.up_proj", hidden, d)}));
    target.set(to + "mlp_out.weight", get("mlp.down_proj", d, hidden));
  }
  target.set("norm.weight", source.weights("model.norm.weight", {d}));
  if (!o.tied_head) target.set("head.weight", source.weights("lm_head.weight", {o.vocab_size, d}));
  return model;
}

}  // namespace

LoadedModel import_model(const std::filesystem::path& path) {
  const at::NoGradGuard no_grad;
  const Source source(path);
  LoadedModel loaded;
  const auto type = source.field<std::string>("model_type");
  if (type == "gpt2") {
    loaded.model = import_gpt2(source);
  } else if (type == "llama" || type == "mistral") {
    loaded.model = import_llama(source);
  } else {
    source.fail("model_type", "expected gpt2, llama or mistral, found " + type);
  }
  loaded.tokenizer =
      std::filesystem::exists(path.parent_path() / "tokenizer.json") ? "tokenizer.json" : "bytes";
  loaded.file = source.file;
  return loaded;
}

void export_llama(const Model& model, const std::filesystem::path& folder) {
  const LmOptions& o = model.options();
  if (o.num_routed() > 0 || o.experts.count > 0 || o.norm != Norm::kRms ||
      o.activation != Activation::kSwiglu || o.positions != Positions::kRotary || o.bias) {
    throw std::invalid_argument(
        "Llama's form holds dense models of RMS norm, SwiGLU and rotary positions without biases");
  }
  const int64_t d = o.d_model, kv = o.d_kv(), hidden = o.mlp_hidden();
  std::vector<tensor::NamedTensor> tensors;
  const auto add = [&](const std::string& name, const Tensor& value) {
    tensors.emplace_back(name + ".weight", value.detach());
  };
  add("model.embed_tokens", model.embedding());
  for (size_t layer = 0; layer < model.blocks().size(); ++layer) {
    const Block& b = model.blocks()[layer];
    const std::string to = "model.layers." + std::to_string(layer) + ".";
    add(to + "input_layernorm", b.attention_norm.weight);
    add(to + "self_attn.q_proj", b.qkv.weight.narrow(0, 0, d));
    add(to + "self_attn.k_proj", b.qkv.weight.narrow(0, d, kv));
    add(to + "self_attn.v_proj", b.qkv.weight.narrow(0, d + kv, kv));
    add(to + "self_attn.o_proj", b.attention_out.weight);
    add(to + "post_attention_layernorm", b.mlp_norm.weight);
    add(to + "mlp.gate_proj", b.mlp_in.weight.narrow(0, 0, hidden));
    add(to + "mlp.up_proj", b.mlp_in.weight.narrow(0, hidden, hidden));
    add(to + "mlp.down_proj", b.mlp_out.weight);
  }
  add("model.norm", model.norm().weight);
  if (!o.tied_head) add("lm_head", model.head());
  tensor::save_tensors(folder / "model.safetensors", tensors, {{"format", "pt"}});
  const nlohmann::ordered_json config = {{"architectures", {"LlamaForCausalLM"}},
                                         {"model_type", "llama"},
                                         {"vocab_size", o.vocab_size},
                                         {"max_position_embeddings", o.seq_len},
                                         {"hidden_size", d},
                                         {"num_hidden_layers", o.num_layers},
                                         {"num_attention_heads", o.num_heads},
                                         {"num_key_value_heads", o.kv_heads()},
                                         {"intermediate_size", hidden},
                                         {"hidden_act", "silu"},
                                         {"rms_norm_eps", o.norm_epsilon},
                                         {"rope_theta", o.rope_theta},
                                         {"attention_bias", false},
                                         {"tie_word_embeddings", o.tied_head},
                                         {"torch_dtype", "float32"}};
  write_file(folder / "config.json", config.dump(2) + "\n");
}

std::unique_ptr<Model> convert_to_routed(const Model& dense, const RoutingOptions& routing,
                                         uint64_t seed) {
  if (dense.options().num_routed() > 0) {
    throw std::invalid_argument("conversion begins with a dense model; this one is routed");
  }
  LmOptions options = dense.options();
  options.routing = routing;
  auto model = std::make_unique<Model>(options, seed);
  Target target(*model);
  for (const NamedTensor& parameter : dense.parameters()) {
    target.set(parameter.name, parameter.value.detach().clone());
  }
  return model;
}

}  // namespace lagom::lm
