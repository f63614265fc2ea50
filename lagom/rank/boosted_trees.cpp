#include "lagom/rank/boosted_trees.h"

#include <charconv>
#include <cmath>
#include <map>
#include <stdexcept>

#include "lagom/util/error.h"
#include "lagom/util/file.h"

namespace lagom::rank {
namespace {

constexpr uint8_t kCategorical = 1, kDefaultLeft = 2;
enum class Missing { kNone = 0, kZero = 1, kNan = 2 };
constexpr double kZero = 1e-35;  // up to here LightGBM takes a value for 0

using Fields = std::map<std::string_view, std::string_view>;

/// Lines of KEY=VALUE up to an empty line; a line without '=' has an empty value.
Fields read_fields(std::string_view& text) {
  Fields fields;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) break;
    const size_t equals = std::min(line.find('='), line.size());
    fields[line.substr(0, equals)] = line.substr(std::min(equals + 1, line.size()));
  }
  return fields;
}

std::string_view field(const Fields& fields, std::string_view name) {
  const auto it = fields.find(name);
  if (it == fields.end()) throw std::invalid_argument("has no " + std::string(name));
  return it->second;
}

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> found;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    if (end > 0) found.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return found;
}

template <typename T>
std::vector<T> numbers(const Fields& fields, std::string_view name, size_t count) {
  std::vector<T> values;
  for (const std::string_view word : words(field(fields, name))) {
    T value{};
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size()) {
      throw std::invalid_argument(std::string(name) + ": expected a number, found '" +
                                  std::string(word) + "'");
    }
    values.push_back(value);
  }
  if (values.size() != count) {
    throw std::invalid_argument(std::string(name) + ": expected " + std::to_string(count) +
                                " numbers, found " + std::to_string(values.size()));
  }
  return values;
}

void require_field(const Fields& fields, std::string_view name, std::string_view expected) {
  const std::string_view found = field(fields, name);
  if (found != expected) {
    throw std::invalid_argument(std::string(name) + " is " + std::string(found) + ", expected " +
                                std::string(expected));
  }
}

/// The objectives whose trees' sum is the prediction.
void require_plain_objective(const Fields& fields) {
  const std::string_view text = field(fields, "objective");
  for (const std::string_view known :
       {"regression", "regression_l1", "huber", "fair", "quantile", "mape"}) {
    if (text == known || text.starts_with(std::string(known) + " alpha")) return;
  }
  throw std::invalid_argument("objective is '" + std::string(text) + "', expected a regression");
}

}  // namespace

bool BoostedTrees::is_boosted_trees(std::string_view bytes) {
  return bytes.starts_with("tree\nversion=");
}

BoostedTrees::Tree BoostedTrees::read_tree(std::string_view section, size_t num_features) {
  const Fields fields = read_fields(section);
  require_field(fields, "is_linear", "0");
  const auto num_leaves = static_cast<size_t>(numbers<uint32_t>(fields, "num_leaves", 1)[0]);
  const auto num_sets = static_cast<size_t>(numbers<uint32_t>(fields, "num_cat", 1)[0]);
  if (num_leaves == 0) throw std::invalid_argument("has no leaves");
  Tree tree{.nodes = std::vector<Node>(num_leaves - 1),
            .leaves = numbers<double>(fields, "leaf_value", num_leaves),
            .set_begins = {},
            .sets = {}};
  const size_t count = tree.nodes.size();
  if (count == 0) return tree;
  if (num_sets > 0) {
    tree.set_begins = numbers<uint32_t>(fields, "cat_boundaries", num_sets + 1);
    for (size_t i = 0; i < num_sets; ++i) {
      if (tree.set_begins[i] > tree.set_begins[i + 1]) {
        throw std::invalid_argument("cat_boundaries are not ascending");
      }
    }
    tree.sets = numbers<uint32_t>(fields, "cat_threshold", tree.set_begins.back());
  }
  const auto features = numbers<int32_t>(fields, "split_feature", count);
  const auto thresholds = numbers<double>(fields, "threshold", count);
  const auto decisions = numbers<uint8_t>(fields, "decision_type", count);
  const auto left = numbers<int32_t>(fields, "left_child", count);
  const auto right = numbers<int32_t>(fields, "right_child", count);
  for (size_t i = 0; i < count; ++i) {
    for (const int32_t child : {left[i], right[i]}) {
      // Children stand behind their parents, so that no walk goes round.
      const bool is_node = child > static_cast<int32_t>(i) && child < static_cast<int32_t>(count);
      if (!is_node && (child >= 0 || -1 - child >= static_cast<int32_t>(num_leaves))) {
        throw std::invalid_argument("node " + std::to_string(i) + " has no child " +
                                    std::to_string(child));
      }
    }
    if (features[i] < 0 || static_cast<size_t>(features[i]) >= num_features) {
      throw std::invalid_argument("there is no feature " + std::to_string(features[i]));
    }
    if ((decisions[i] & kCategorical) != 0 &&
        !(thresholds[i] >= 0 && thresholds[i] < static_cast<double>(num_sets))) {
      throw std::invalid_argument("node " + std::to_string(i) + " has no set of categories");
    }
    tree.nodes[i] = {.feature = features[i],
                     .decision = decisions[i],
                     .threshold = thresholds[i],
                     .left = left[i],
                     .right = right[i]};
  }
  return tree;
}

BoostedTrees BoostedTrees::load(const std::filesystem::path& path) {
  const std::string bytes = read_file(path);
  if (!is_boosted_trees(bytes)) {
    throw FormatError(path.string(), "", "is no text form of LightGBM's trees");
  }
  BoostedTrees model;
  std::string place = "header";
  try {
    std::string_view text = bytes;
    const Fields header = read_fields(text);
    require_field(header, "num_class", "1");
    require_field(header, "num_tree_per_iteration", "1");
    require_plain_objective(header);
    for (const std::string_view name : words(field(header, "feature_names"))) {
      model.feature_names_.emplace_back(name);
    }
    const size_t num_trees = words(field(header, "tree_sizes")).size();
    for (size_t i = 0; i < num_trees; ++i) {
      place = "Tree=" + std::to_string(i);
      const size_t begin = text.find(place + "\n");
      if (begin == std::string_view::npos) throw std::invalid_argument("is missing");
      text.remove_prefix(begin + place.size() + 1);
      model.trees_.push_back(read_tree(text, model.feature_names_.size()));
    }
    place = "end of trees";
    if (text.find("\nend of trees\n") == std::string_view::npos) {
      throw std::invalid_argument("is missing");
    }
  } catch (const std::invalid_argument& e) {
    throw FormatError(path.string(), place, e.what());
  }
  return model;
}

bool BoostedTrees::goes_left(const Tree& tree, const Node& node, double value) {
  const auto missing = static_cast<Missing>((node.decision >> 2) & 3);
  if ((node.decision & kCategorical) != 0) {
    if (!(value > -1) || value >= 2147483648.0) return false;  // also where it is not a number
    const auto category = static_cast<uint32_t>(value);
    const auto set = static_cast<size_t>(node.threshold);
    const uint32_t begin = tree.set_begins[set], word = category / 32;
    return word < tree.set_begins[set + 1] - begin &&
           ((tree.sets[begin + word] >> (category % 32)) & 1) != 0;
  }
  if (std::isnan(value) && missing != Missing::kNan) value = 0;
  const bool is_missing = (missing == Missing::kZero && std::abs(value) <= kZero) ||
                          (missing == Missing::kNan && std::isnan(value));
  return is_missing ? (node.decision & kDefaultLeft) != 0 : value <= node.threshold;
}

double BoostedTrees::predict(std::span<const double> features) const {
  if (features.size() != feature_names_.size()) {
    throw std::invalid_argument("expected " + std::to_string(feature_names_.size()) +
                                " features, found " + std::to_string(features.size()));
  }
  double sum = 0;
  for (const Tree& tree : trees_) {
    int32_t place = tree.nodes.empty() ? -1 : 0;
    while (place >= 0) {
      const Node& node = tree.nodes[static_cast<size_t>(place)];
      place = goes_left(tree, node, features[static_cast<size_t>(node.feature)]) ? node.left
                                                                                 : node.right;
    }
    sum += tree.leaves[static_cast<size_t>(-1 - place)];
  }
  return sum;
}

}  // namespace lagom::rank
