#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lagom::rank {

/// Regression by boosted trees that LightGBM trained, read from its text form (Booster.save_model,
/// versions 3 and 4). It predicts what LightGBM does, to the last bits of a sum.
class BoostedTrees {
 public:
  /// True when the bytes may begin such a file.
  static bool is_boosted_trees(std::string_view bytes);
  /// Throws SystemError; FormatError with the tree for a file that is cut off, trees that do not
  /// fit together, linear leaves, several outputs, or an objective whose output is transformed.
  static BoostedTrees load(const std::filesystem::path& path);

  const std::vector<std::string>& feature_names() const { return feature_names_; }
  /// features: by feature_names, NaN where one is missing; of a categorical one the category's
  /// number.
  double predict(std::span<const double> features) const;

 private:
  struct Node {
    int32_t feature = 0;
    uint8_t decision = 0;         ///< LightGBM's bits: categorical, default left, missing type.
    double threshold = 0;         ///< Of a categorical node: which of the sets.
    int32_t left = 0, right = 0;  ///< Below 0: leaf -1 - value.
  };
  struct Tree {
    std::vector<Node> nodes;
    std::vector<double> leaves;
    std::vector<uint32_t> set_begins, sets;  ///< Categories that go left, as bits.
  };

  static bool goes_left(const Tree& tree, const Node& node, double value);
  static Tree read_tree(std::string_view section, size_t num_features);

  std::vector<std::string> feature_names_;
  std::vector<Tree> trees_;
};

}  // namespace lagom::rank
