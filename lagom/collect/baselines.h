#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "lagom/hlo/module.h"
#include "lagom/rank/ranker.h"
#include "lagom/rewrite/configuration.h"

/// Rankers that need no training: what a learned one has to beat.
namespace lagom::collect {

enum class BaselineKind {
  kRandom,         ///< A random order.
  kAnalytic,       ///< analytic_cost of the program with the configuration's forms.
  kDisagreements,  ///< layout_disagreements.
};
/// "random", "analytic", "disagreements".
std::span<const std::string_view> option_names(BaselineKind);

/// FLOPs that take as long as one byte moved, for analytic_cost: about what a CPU core with vector
/// units does.
inline constexpr double kFlopsPerByte = 10;

/// Over the instructions of the entry computation, what takes longer of arithmetic and memory, in
/// FLOPs (the roofline of Williams, Waterman and Patterson 2009; transcendentals count as 10). By
/// shapes alone and as if nothing were fused; layouts, barriers and flags do not change it. Throws
/// as rewrite::apply.
double analytic_cost(const hlo::Module& module, const rewrite::Configuration& configuration);

/// Number of uses whose tensor is made in another layout than it is read in, so that a copy stands
/// between: an operand-layout decision against the operand's output-layout decision. Where one side
/// has no decision, the layout of the module holds for parameters and for the computation's root;
/// elsewhere the compiler chooses and nothing disagrees. Throws std::invalid_argument for a
/// decision that names no instruction or operand.
int64_t layout_disagreements(const hlo::Module& module,
                             const rewrite::Configuration& configuration);

/// One baseline of one program and its configurations.
class BaselineRanker : public rank::Ranker {
 public:
  /// Throws as the functions above.
  BaselineRanker(BaselineKind kind, const hlo::Module& module,
                 const std::vector<rewrite::Configuration>& configurations, uint64_t seed);

  /// Costs of the constructor's configurations. Throws std::invalid_argument for a graph with
  /// another number of them.
  std::vector<double> costs(const rank::ConfiguredGraph& graph) override;

 private:
  std::vector<double> costs_;
};

/// Of a measured file (measured_file.h): reads the program and its configurations from the JSON
/// beside the npz. Throws SystemError when that cannot be read and FormatError when it has no
/// program, as files of whole programs have none. Random orders differ between files, too.
BaselineRanker baseline_of_file(BaselineKind kind, const std::filesystem::path& npz, uint64_t seed);

}  // namespace lagom::collect
