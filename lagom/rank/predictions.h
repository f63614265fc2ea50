#pragma once

#include <filesystem>
#include <string>
#include <vector>

/// Scores from any model, as lines of JSON, and what the competition wants of them.
namespace lagom::rank {

/// One graph's predictions: {"id": "layout:xla:random:resnet50", "scores": [...], "runtimes":
/// [...]}.
struct Predictions {
  std::string id;
  std::vector<double> scores;    ///< Lower = faster.
  std::vector<double> runtimes;  ///< Empty when the line has none.
};

/// Reads a file of JSON lines; blank lines are skipped. Throws FormatError naming the line: no
/// JSON, no such fields, no finite numbers, lengths that differ, an id that came before.
std::vector<Predictions> read_predictions(const std::filesystem::path& path);

/// The competition's CSV: a header `ID,TopConfigs`, then a row per graph: the indices of its
/// configurations, fastest first, joined by ';'. Ids that begin with "tile:" get their first 5, all
/// others the whole order. Throws std::invalid_argument for an id that a CSV field cannot hold as
/// it is.
std::string submission_csv(const std::vector<Predictions>& predictions);

}  // namespace lagom::rank
