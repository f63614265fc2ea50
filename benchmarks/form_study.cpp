// What can be foreseen of a form before it is measured, as a table for the predictors of
// benchmarks/peers/form_predictors.py:
//
//   form_study MEASURED_TRAIN_FOLDER... --test MEASURED_TEST_FOLDER... > forms.tsv
//
// A line per measured form that stands alone. `prior` is what lagom tune believes without any
// measurement, `neighbours` and its `deviation` with those of the training folders; of log(seconds
// in the form / as it is). The columns from `node_0` on are tune::describe_node, empty past its
// end.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "lagom/collect/configuration_features.h"
#include "lagom/collect/measured_kernels.h"
#include "lagom/graph/op_graph.h"
#include "lagom/tune/form_beliefs.h"
#include "lagom/tune/kernel_search.h"

namespace lagom {
namespace {

constexpr size_t kNodeColumns = 24;

struct StudiedKernel {
  tune::SearchSpace space;
  std::string signature;
  std::vector<tune::KernelRecord> records;
  bool is_test = false;

  /// nullptr where no rule fits any more.
  const tune::Kernel* kernel() const {
    const auto& kernels = space.kernels();
    const auto it = std::find_if(kernels.begin(), kernels.end(), [&](const tune::Kernel& k) {
      return k.cut_out.signature == signature;
    });
    return it == kernels.end() ? nullptr : &*it;
  }
};

void print_header() {
  std::printf(
      "split\tsignature\topcode\tform\topcode_number\tform_number\t"
      "log_ratio\tis_promising\tprior\tneighbours\tdeviation");
  for (size_t i = 0; i < kNodeColumns; ++i) std::printf("\tnode_%zu", i);
  std::printf("\n");
}

void print_forms(const StudiedKernel& studied, tune::FormBeliefs& prior,
                 tune::FormBeliefs& informed) {
  const tune::Kernel* kernel = studied.kernel();
  if (kernel == nullptr) return;
  const auto without = prior.of(*kernel), with = informed.of(*kernel);
  for (const tune::KernelRecord& record : studied.records) {
    for (size_t i = 0; i < kernel->rules.size(); ++i) {
      const rewrite::Rule* rule = kernel->rules[i];
      if (tune::form_configuration(*rule) != record.configuration) continue;
      const bool is_promising = std::find(kernel->promising.begin(), kernel->promising.end(),
                                          rule) != kernel->promising.end();
      std::printf("%s\t%s\t%s\t%s\t%d\t%d\t%.6g\t%d\t%.6g\t%.6g\t%.6g",
                  studied.is_test ? "test" : "train", record.signature.c_str(),
                  record.opcode.c_str(), std::string(rule->name()).c_str(),
                  graph::opcode_number(kernel->opcode, 2), collect::form_number(rule->name()),
                  std::log(record.ratio.median), is_promising, without[i].mean, with[i].mean,
                  with[i].deviation);
      for (size_t k = 0; k < kNodeColumns; ++k) {
        if (k < record.node.size()) {
          std::printf("\t%.6g", static_cast<double>(record.node[k]));
        } else {
          std::printf("\t");
        }
      }
      std::printf("\n");
    }
  }
}

int run(int argc, char** argv) {
  std::vector<StudiedKernel> kernels;
  tune::Neighbours neighbours;
  bool is_test = false, has_test = false;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--test") {
      is_test = true;
      continue;
    }
    has_test = is_test;
    collect::read_measured_kernels(argv[i], [&](collect::MeasuredKernel measured) {
      StudiedKernel studied{.space = tune::SearchSpace(measured.module, tune::SpaceOptions{}),
                            .signature = measured.records.at(0).signature,
                            .records = std::move(measured.records),
                            .is_test = is_test};
      for (const auto& record : studied.records) {
        if (!is_test) neighbours.add(record);
      }
      kernels.push_back(std::move(studied));
    });
  }
  if (!has_test) {
    std::fprintf(stderr, "usage: form_study TRAIN_FOLDER... --test TEST_FOLDER... > forms.tsv\n");
    return 2;
  }
  tune::FormBeliefs prior({}, {}, ""), informed(std::move(neighbours), {}, "");
  print_header();
  for (const StudiedKernel& studied : kernels) print_forms(studied, prior, informed);
  return 0;
}

}  // namespace
}  // namespace lagom

int main(int argc, char** argv) {
  try {
    return lagom::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "form_study: %s\n", error.what());
    return 1;
  }
}
