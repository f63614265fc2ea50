#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "lagom/graph/random_families.h"
#include "lagom/util/random_stream.h"

namespace lagom::cli {
namespace {

struct GenerateArguments {
  std::string out;
  int64_t graphs = 200, least = 1000, most = 5000, seed = 1;
  double purity = 0.4;
};

int generate(const GenerateArguments& args) {
  const auto families = graph::option_names(graph::GrowthLaw{});
  for (int64_t i = 0; i < args.graphs; ++i) {
    const auto family = static_cast<size_t>(i) % families.size();
    Random random = random_stream(args.seed, i, /*purpose=*/7);
    const graph::EdgeListGraph made = graph::random_family_graph(
        {.family = static_cast<graph::GrowthLaw>(family),
         .num_nodes = args.least + random.below(args.most - args.least + 1),
         .purity = args.purity,
         .seed = random.next()});
    const std::string name(families[family]);
    char number[16];
    std::snprintf(number, sizeof number, "%05ld", static_cast<long>(i));
    // One graph in five is for validation and one for test, of each family alike.
    const int64_t turn = i / static_cast<int64_t>(families.size()) % 5;
    const std::string split = turn == 3 ? "valid" : turn == 4 ? "test" : "train";
    graph::write_edge_list(args.out + "/" + split + "/" + name + "/" + number + ".edgelist", made,
                           "generated, family " + name + ", purity " + std::to_string(args.purity));
  }
  std::printf("%ld graphs of %zu families in %s\n", static_cast<long>(args.graphs), families.size(),
              args.out.c_str());
  return 0;
}

}  // namespace

void add_generate(CLI::App& app, Action& chosen) {
  auto* command =
      app.add_subcommand("generate", "Make graphs of known families, to try classification on");
  auto args = std::make_shared<GenerateArguments>();
  command->add_option("out", args->out, "Folder; SPLIT/FAMILY/NUMBER.edgelist are written below it")
      ->required();
  command->add_option("--graphs", args->graphs, "How many, shared out among five families")
      ->check(CLI::Range(int64_t{5}, int64_t{1'000'000}))
      ->capture_default_str();
  command->add_option("--min-nodes", args->least, "Of a graph")
      ->check(CLI::Range(int64_t{2}, int64_t{10'000'000}))
      ->capture_default_str();
  command->add_option("--max-nodes", args->most, "Of a graph")
      ->check(CLI::Range(int64_t{2}, int64_t{10'000'000}))
      ->capture_default_str();
  command->add_option("--purity", args->purity, "Share of a graph that follows its family's law")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command->add_option("--seed", args->seed)->capture_default_str();
  command->footer(
      "Sizes of MalNet-Tiny are --max-nodes 5000, those of MalNet-Large --max-nodes 500000.\n"
      "Example: lagom generate families --graphs 500 --min-nodes 1000 --max-nodes 5000");
  command->callback([args, &chosen] {
    if (args->least > args->most) {
      throw CLI::ValidationError("--min-nodes", "is larger than --max-nodes");
    }
    chosen = [args] { return generate(*args); };
  });
}

}  // namespace lagom::cli
