#include "lagom/lm/trainer.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <list>
#include <numbers>
#include <stdexcept>

#include "lagom/lm/checkpoint.h"
#include "lagom/lm/evaluation.h"
#include "lagom/lm/flops.h"
#include "lagom/lm/generator.h"
#include "lagom/lm/import.h"
#include "lagom/lm/ops.h"
#include "lagom/train/flat_parameters.h"
#include "lagom/train/run_log.h"
#include "lagom/util/error.h"
#include "lagom/util/file.h"
#include "lagom/util/options.h"

namespace lagom::lm {
namespace {

using at::Tensor;

void require(bool ok, const std::string& what) {
  if (!ok) throw std::invalid_argument("training: " + what);
}

std::vector<train::ParameterGroup> parameter_groups(const Model& model,
                                                    const LmTrainOptions& options) {
  std::vector<train::ParameterGroup> groups = {
      {.name = "decay", .weight_decay = options.weight_decay},
      {.name = "no_decay"},
      {.name = "router", .learning_rate_scale = options.router_rate},
      // A set of its own: gradients of predictors must not shrink the trunk's steps.
      {.name = "predictor",
       .learning_rate_scale = options.predictor_rate,
       .clip_set = "predictor"}};
  for (const NamedTensor& parameter : model.parameters()) {
    groups[static_cast<size_t>(parameter.group)].parameters.emplace_back(parameter.name,
                                                                         parameter.value);
  }
  std::erase_if(groups, [](const train::ParameterGroup& g) { return g.parameters.empty(); });
  return groups;
}

/// The model that training begins with. Its options replace those asked for where an earlier
/// checkpoint decides.
std::unique_ptr<Model> make_model(LmTrainOptions& options) {
  const auto seed = static_cast<uint64_t>(options.seed);
  if (options.init.empty()) return std::make_unique<Model>(options.model, seed);
  require(options.model.experts.count == 0, "a model with experts cannot begin from `init`");
  const LoadedModel dense = load_model(options.init);
  auto model = convert_to_routed(*dense.model, options.model.routing, seed);
  options.model = model->options();
  return model;
}

}  // namespace

void LmTrainOptions::validate() const {
  require(steps > 0, "steps must be above 0");
  require(batch > 0, "batch must be above 0");
  require(accumulate > 0, "accumulate must be above 0");
  require(weight_decay >= 0, "weight_decay must not be negative");
  require(router_rate >= 0 && predictor_rate >= 0, "router_rate and predictor_rate: not negative");
  require(capacity_warmup_share >= 0 && capacity_warmup_share <= 1,
          "capacity_warmup_share must be in [0, 1]");
  require(log_every > 0, "log_every must be above 0");
  require(eval_every >= 0 && save_every >= 0 && sample_every >= 0 && eval_windows >= 0,
          "eval_every, eval_windows, save_every and sample_every must not be negative");
  schedule.validate();
  optimizer.validate();
  model.validate();
}

class LmTrainer::Impl {
 public:
  Impl(const LmTrainOptions& options, std::filesystem::path folder, bool resume)
      : options_(checked(options)),
        folder_(std::move(folder)),
        data_(open_data(options_.data, folder_)),
        model_(make_model(options_)),
        sampler_(data_.train.size(), options_.model.seq_len, static_cast<uint64_t>(options_.seed)) {
    if (data_.tokenizer->vocab_size() > options_.model.vocab_size) {
      throw std::invalid_argument(
          "training: the tokenizer has " + std::to_string(data_.tokenizer->vocab_size()) +
          " tokens, model.vocab_size is " + std::to_string(options_.model.vocab_size));
    }
    const bool goes_on = resume && std::filesystem::exists(checkpoint());
    tensor::TensorFile file;
    if (goes_on) {
      file = tensor::load_tensors(checkpoint());
      load_progress(file);
      set_model_tensors(*model_, file, checkpoint().string());
    }
    flat_ = std::make_unique<train::FlatParameters>(parameter_groups(*model_, options_));
    optimizer_ = std::make_unique<train::AdamW>(*flat_, options_.optimizer);
    if (goes_on) optimizer_->load_state(file);
    training_flops_per_step_ = count_flops(options_.model, options_.model.seq_len).training *
                               options_.batch * options_.accumulate;
  }

  LmStepReport train_step() {
    LmStepReport report;
    report.capacity = capacity_at(step_);
    report.learning_rate = train::learning_rate_at(options_.schedule, step_, options_.steps);
    flat_->zero_gradients();
    RoutingCounts predictions;
    loads_.assign(static_cast<size_t>(options_.model.num_expert_blocks()), {});
    for (int64_t micro = 0; micro < options_.accumulate; ++micro) {
      run_micro_batch(report, predictions, static_cast<uint64_t>(micro));
    }
    if (!std::isfinite(report.loss)) {
      throw std::runtime_error("step " + std::to_string(step_) + ": the loss is not finite; " +
                               "the last checkpoint is the last good state");
    }
    const auto update = optimizer_->step(report.learning_rate);
    if (!update.is_finite) {
      throw std::runtime_error("step " + std::to_string(step_) + ": a gradient is not finite; " +
                               "the last checkpoint is the last good state");
    }
    report.gradient_norm = update.gradient_norms.at("all");
    report.predictor_accuracy = predictions.accuracy();
    report.step = ++step_;
    return report;
  }

  void run(const std::function<bool()>& stop) {
    write_file(folder_ / "options.toml", options_to_toml(options_));
    train::RunLog log(folder_, step_);
    train::Progress progress(step_, options_.steps);
    bool saved = true;
    while (step_ < options_.steps && !stop()) {
      const auto start = std::chrono::steady_clock::now();
      const LmStepReport report = train_step();
      training_seconds_ +=
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      saved = false;
      const auto due = [&](int64_t every) { return every > 0 && step_ % every == 0; };
      if (due(options_.log_every) || step_ == options_.steps) log_step(report, log);
      char text[80];
      std::snprintf(text, sizeof text, "loss %.4f", report.loss);
      progress.update(step_, text);
      if (due(options_.eval_every) || step_ == options_.steps) evaluate_now(log, progress);
      if (due(options_.sample_every)) write_sample();
      if (due(options_.save_every)) {
        save();
        saved = true;
      }
    }
    if (step_ == options_.steps) {
      calibrate_thresholds(*model_, data_.validation, *data_.tokenizer, eval_options());
      save_model(folder_ / "model.safetensors", *model_, tokenizer_name());
      saved = false;  // the thresholds are new
    }
    if (!saved) save();
  }

  void save() const {
    save_model(checkpoint(), *model_, tokenizer_name(), optimizer_->state(),
               {{"step", std::to_string(step_)},
                {"cursor", std::to_string(sampler_.cursor())},
                {"training_seconds", std::to_string(training_seconds_)},
                {"train_options", options_to_toml(options_)}});
  }

  int64_t step_ = 0;
  LmTrainOptions options_;
  std::filesystem::path folder_;
  LmData data_;
  std::unique_ptr<Model> model_;

 private:
  static LmTrainOptions checked(const LmTrainOptions& options) {
    options.validate();
    return options;
  }

  std::filesystem::path checkpoint() const { return folder_ / "checkpoint.safetensors"; }

  /// A tokenizer that is a file goes with the run.
  std::string tokenizer_name() const {
    if (options_.data.tokenizer == "bytes") return "bytes";
    const std::filesystem::path source(options_.data.tokenizer);
    const auto copy = folder_ / source.filename();
    if (!std::filesystem::exists(copy)) std::filesystem::copy_file(source, copy);
    return source.filename().string();
  }

  void load_progress(const tensor::TensorFile& file) {
    const auto number = [&](const char* key) -> int64_t {
      const auto found = file.metadata.find(key);
      if (found == file.metadata.end()) {
        throw FormatError(checkpoint().string(), "metadata",
                          std::string("'") + key + "' is missing: no checkpoint of a run");
      }
      return std::stoll(found->second);
    };
    step_ = number("step");
    sampler_.set_cursor(number("cursor"));
    if (const auto found = file.metadata.find("training_seconds"); found != file.metadata.end()) {
      training_seconds_ = std::stod(found->second);
    }
  }

  double capacity_at(int64_t step) const {
    if (options_.model.num_routed() == 0) return 1;
    const double last = options_.model.routed_share();
    const double ramp = options_.capacity_warmup_share * static_cast<double>(options_.steps);
    const double done = static_cast<double>(step);
    return done >= ramp ? last : 1 + (last - 1) * done / ramp;
  }

  void run_micro_batch(LmStepReport& report, RoutingCounts& predictions, uint64_t micro) {
    std::vector<int64_t> begins;
    for (int64_t i = 0; i < options_.batch; ++i) begins.push_back(sampler_.next());
    const LmBatch batch =
        data_.train.batch(begins, options_.model.seq_len, options_.model.vocab_size, end_of_text());
    const PassOptions pass = {
        .capacity = report.capacity,
        .draw =
            (static_cast<uint64_t>(options_.seed) << 40) ^
            (static_cast<uint64_t>(step_) * static_cast<uint64_t>(options_.accumulate) + micro + 1),
        .segments = batch.segments,
        .bfloat16 = options_.bfloat16,
        .checkpoint = options_.checkpoint_blocks};
    const ForwardResult result = model_->forward(batch.tokens, pass);
    const Tensor loss =
        next_token_loss(result.hidden.flatten(0, 1), model_->head(), batch.targets.flatten());
    const RoutingLosses extra = routing_losses(result, options_.model);
    Tensor total = loss;
    if (extra.predictor.defined()) total = total + extra.predictor;
    if (extra.auxiliary.defined()) {
      total = total + options_.model.routing.aux_weight * extra.auxiliary;
    }
    if (extra.balance.defined()) {
      total = total + options_.model.experts.balance_weight * extra.balance;
    }
    const double share = 1.0 / static_cast<double>(options_.accumulate);
    (options_.accumulate == 1 ? total : total * share).backward();
    report.loss += loss.item<double>() * share;
    if (extra.predictor.defined()) {
      report.predictor_loss += extra.predictor.item<double>() * share;
      for (const RoutedLayer& layer : result.routed) {
        if (layer.predictor_logits.defined()) predictions += count_predictions(layer);
      }
      for (const ExpertLayer& layer : result.experts) {
        if (layer.predictor_logits.defined()) predictions += count_predictions(layer);
      }
    }
    for (size_t i = 0; i < result.experts.size(); ++i) {
      loads_[i] += count_load(result.experts[i], options_.model.experts.count);
    }
    model_->update_ema_thresholds(result, report.capacity);
  }

  std::optional<int32_t> end_of_text() const {
    return options_.data.documents ? data_.tokenizer->end_of_text() : std::nullopt;
  }

  EvaluationOptions eval_options() const {
    return {.batch = options_.batch,
            .max_windows = options_.eval_windows,
            .documents = options_.data.documents};
  }

  void log_step(const LmStepReport& report, train::RunLog& log) const {
    std::vector<formats::Scalar> scalars = {
        {"loss", report.loss},
        {"learning_rate", report.learning_rate},
        {"gradient_norm", report.gradient_norm},
        {"training_flops",
         static_cast<double>(training_flops_per_step_) * static_cast<double>(step_)},
        {"training_seconds", training_seconds_}};
    if (options_.model.num_routed() > 0) scalars.push_back({"capacity", report.capacity});
    if (has_predictors()) {
      scalars.push_back({"predictor_loss", report.predictor_loss});
      scalars.push_back({"predictor_accuracy", report.predictor_accuracy});
    }
    std::list<std::string> names;  // scalars only look at theirs
    for (const ExpertLoad& load : loads_) {
      const std::string block = "block_" + std::to_string(load.layer) + "_";
      scalars.push_back(
          {names.emplace_back(block + "imbalance"), load.imbalance(options_.model.experts.count)});
      scalars.push_back({names.emplace_back(block + "untouched"),
                         static_cast<double>(load.untouched) / static_cast<double>(load.tokens)});
    }
    log.add(report.step, scalars);
  }

  bool has_predictors() const {
    return (options_.model.num_routed() > 0 && options_.model.routing.predictor) ||
           options_.model.has_expert_predictor();
  }

  /// Whether training's choices look ahead, so that text is sampled under another rule.
  bool looks_ahead() const {
    return options_.model.num_routed() > 0 || model_->ema_expert_thresholds.defined();
  }

  /// The headline is the loss of the text as it would be sampled.
  void evaluate_now(train::RunLog& log, train::Progress& progress) const {
    EvaluationOptions options = eval_options();
    const Evaluation top_k = evaluate(*model_, data_.validation, *data_.tokenizer, options);
    std::vector<formats::Scalar> scalars;
    char text[200];
    if (!looks_ahead()) {
      scalars = {{"validation_loss", top_k.loss},
                 {"validation_bits_per_byte", top_k.bits_per_byte}};
      std::snprintf(text, sizeof text, "step %lld: validation loss %.4f nats, %.4f bits per byte",
                    static_cast<long long>(step_), top_k.loss, top_k.bits_per_byte);
    } else if (has_predictors()) {
      options.routing = Routing::kPredictor;
      const Evaluation causal = evaluate(*model_, data_.validation, *data_.tokenizer, options);
      RoutingCounts counts;
      for (const RoutingCounts& layer : top_k.predictions) counts += layer;
      for (const RoutingCounts& layer : top_k.expert_predictions) counts += layer;
      double rate = 0;
      for (const double r : causal.rates) rate += r / static_cast<double>(causal.rates.size());
      scalars = {{"validation_loss", causal.loss},
                 {"validation_bits_per_byte", causal.bits_per_byte},
                 {"validation_loss_topk", top_k.loss},
                 {"predictor_validation_accuracy", counts.accuracy()},
                 {"predictor_precision", counts.precision()},
                 {"predictor_recall", counts.recall()},
                 {"predictor_majority", counts.majority_accuracy()},
                 {"realised_rate", rate}};
      std::snprintf(text, sizeof text,
                    "step %lld: validation loss %.4f nats (top-k, not causal: %.4f), %.4f bits "
                    "per byte; predictor %.1f %% right (majority %.1f %%), rate %.3f",
                    static_cast<long long>(step_), causal.loss, top_k.loss, causal.bits_per_byte,
                    100 * counts.accuracy(), 100 * counts.majority_accuracy(), rate);
    } else {
      options.routing = Routing::kEma;
      const Evaluation causal = evaluate(*model_, data_.validation, *data_.tokenizer, options);
      scalars = {{"validation_loss", causal.loss},
                 {"validation_bits_per_byte", causal.bits_per_byte},
                 {"validation_loss_topk", top_k.loss}};
      std::snprintf(text, sizeof text,
                    "step %lld: validation loss %.4f nats (top-k, not causal: %.4f)",
                    static_cast<long long>(step_), causal.loss, top_k.loss);
    }
    log.add(step_, scalars);
    progress.note(text);
  }

  void write_sample() const {
    Decoder decoder(*model_, {.routing = options_.model.routing.predictor ? Routing::kPredictor
                                                                          : Routing::kEma});
    Generator generator(decoder, *data_.tokenizer);
    std::string text = options_.sample_prompt;
    GenerationRequest request;
    request.prompt = data_.tokenizer->encode(text);
    request.options.seed = step_;
    request.on_event = [&](const GenerationEvent& event) {
      text += event.text;
      return true;
    };
    generator.add(std::move(request));
    while (generator.step()) {
    }
    std::ofstream(folder_ / "samples.txt", std::ios::app) << "== step " << step_ << "\n"
                                                          << text << "\n\n";
  }

  text::WindowSampler sampler_;
  std::vector<ExpertLoad> loads_;  ///< Of the last step.
  std::unique_ptr<train::FlatParameters> flat_;
  std::unique_ptr<train::AdamW> optimizer_;
  int64_t training_flops_per_step_ = 0;
  double training_seconds_ = 0;  ///< In steps, of all processes that had a part.
};

LmTrainer::LmTrainer(const LmTrainOptions& options, const std::filesystem::path& folder,
                     bool resume)
    : impl_(std::make_unique<Impl>(options, folder, resume)) {}
LmTrainer::~LmTrainer() = default;

int64_t LmTrainer::step() const {
  return impl_->step_;
}
const Model& LmTrainer::model() const {
  return *impl_->model_;
}
LmStepReport LmTrainer::train_step() {
  return impl_->train_step();
}
void LmTrainer::run(const std::function<bool()>& stop) {
  impl_->run(stop);
}
void LmTrainer::save() const {
  impl_->save();
}

}  // namespace lagom::lm
