#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/common.h"
#include "lagom/lm/flops.h"
#include "lagom/lm/trainer.h"
#include "lagom/util/options.h"
#include "learn/lm_commands.h"

namespace lagom::learn {
namespace {

using nlohmann::ordered_json;

struct FlopsArguments {
  std::string model;
  std::vector<std::string> overrides;
  int64_t length = 0;
  bool causal = false, json = false;
};

lm::LmOptions model_options(const FlopsArguments& args) {
  if (std::filesystem::path(args.model).extension() == ".toml" || args.model.empty()) {
    lm::LmTrainOptions options;
    read_options(args.model, args.overrides, options);
    return options.model;
  }
  return lm::load_model(args.model).model->options();
}

int flops(const FlopsArguments& args) {
  const lm::LmOptions options = model_options(args);
  const int64_t length = args.length > 0 ? args.length : options.seq_len;
  const auto attention = args.causal ? lm::AttentionCount::kCausal : lm::AttentionCount::kSquare;
  const lm::FlopTable table = lm::count_flops(options, length, attention);
  lm::LmOptions dense = options;
  dense.routing.every = 0;
  dense.experts = {};
  const lm::FlopTable dense_table = lm::count_flops(dense, length, attention);
  const double share =
      static_cast<double>(options.routed_tokens(length)) / static_cast<double>(length);
  const double decode = lm::decode_flops(options, length - 1, share);
  const int64_t kv = lm::kv_bytes(options, length, options.routed_tokens(length));
  const int64_t dense_kv = lm::kv_bytes(dense, length, length);
  const double ratio =
      static_cast<double>(table.forward) / static_cast<double>(dense_table.forward);
  if (args.json) {
    ordered_json rows = ordered_json::array();
    for (const lm::FlopRow& row : table.rows) {
      rows.push_back({{"layer", row.layer},
                      {"name", row.name},
                      {"forward", row.forward},
                      {"training", row.training}});
    }
    cli::print_json({{"length", length},
                     {"rows", rows},
                     {"forward", table.forward},
                     {"training", table.training},
                     {"forward_per_token", table.forward_per_token()},
                     {"training_per_token", table.training_per_token()},
                     {"dense_forward", dense_table.forward},
                     {"decode_last_token", decode},
                     {"kv_bytes", kv},
                     {"dense_kv_bytes", dense_kv}});
    return 0;
  }
  std::printf("%-6s %-8s %-14s %18s %18s\n", "layer", "kind", "product", "forward", "training");
  for (const lm::FlopRow& row : table.rows) {
    const bool head = row.layer < 0;
    std::printf("%-6s %-8s %-14s %18lld %18lld\n", head ? "-" : std::to_string(row.layer).c_str(),
                head                           ? ""
                : options.is_routed(row.layer) ? "routed"
                                               : "dense",
                row.name.c_str(), static_cast<long long>(row.forward),
                static_cast<long long>(row.training));
  }
  std::printf("%-30s %18lld %18lld\n", "sequence", static_cast<long long>(table.forward),
              static_cast<long long>(table.training));
  std::printf("%-30s %18.0f %18.0f\n", "token", table.forward_per_token(),
              table.training_per_token());
  std::printf("\n%.4f of the dense model's %lld; decoding the last token takes %.0f\n", ratio,
              static_cast<long long>(dense_table.forward), decode);
  std::printf("keys and values of %lld tokens: %lld bytes, %.4f of the dense model's\n",
              static_cast<long long>(length), static_cast<long long>(kv),
              static_cast<double>(kv) / static_cast<double>(dense_kv));
  return 0;
}

}  // namespace

void add_lm_flops(CLI::App& lm, Action& chosen) {
  auto* command = lm.add_subcommand("flops", "Exact FLOPs and KV bytes of a model");
  auto args = std::make_shared<FlopsArguments>();
  command->add_option("model", args->model, "A training config (.toml), a run or a checkpoint");
  command->add_option("--set", args->overrides, "KEY=VALUE over the config, as model.d_model=128");
  command->add_option("--length", args->length, "Tokens of the sequence; default: seq_len")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--causal", args->causal, "Count only the pairs that the causal mask leaves");
  command->add_flag("--json", args->json, "Machine-readable output");
  command->footer("Example: lagom lm flops configs/lm/demo.toml --set model.routing.capacity=0.25");
  command->callback([args, &chosen] { chosen = [args] { return flops(*args); }; });
}

}  // namespace lagom::learn
