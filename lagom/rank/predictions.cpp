#include "lagom/rank/predictions.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <unordered_set>

#include "lagom/rank/metrics.h"
#include "lagom/util/error.h"

namespace lagom::rank {
namespace {

using nlohmann::json;

constexpr size_t kTopTiles = 5;

std::vector<double> numbers(const json& line, const char* field) {
  const json& list = line.at(field);
  if (!list.is_array()) throw std::invalid_argument(std::string(field) + " is no list");
  std::vector<double> values;
  values.reserve(list.size());
  for (const json& value : list) {
    if (!value.is_number()) {
      throw std::invalid_argument(std::string(field) + ": value " + std::to_string(values.size()) +
                                  " is " + value.dump() + ", expected a number");
    }
    values.push_back(value.get<double>());
  }
  return values;
}

Predictions parse(const std::string& text) {
  const json line = json::parse(text);
  if (!line.is_object())
    throw std::invalid_argument("expected an object {\"id\", \"scores\", ...}");
  Predictions p{
      .id = line.at("id").get<std::string>(), .scores = numbers(line, "scores"), .runtimes = {}};
  if (line.contains("runtimes")) {
    p.runtimes = numbers(line, "runtimes");
    if (p.runtimes.size() != p.scores.size()) {
      throw std::invalid_argument(std::to_string(p.scores.size()) + " scores and " +
                                  std::to_string(p.runtimes.size()) + " runtimes");
    }
  }
  if (p.scores.empty()) throw std::invalid_argument("no scores");
  return p;
}

}  // namespace

std::vector<Predictions> read_predictions(const std::filesystem::path& path) {
  std::ifstream in(path);
  if (!in || std::filesystem::is_directory(path)) {
    throw SystemError(path.string() + ": cannot be opened");
  }
  std::vector<Predictions> all;
  std::unordered_set<std::string> ids;
  std::string text;
  for (size_t number = 1; std::getline(in, text); ++number) {
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      Predictions p = parse(text);
      if (!ids.insert(p.id).second) throw std::invalid_argument("a second line for '" + p.id + "'");
      all.push_back(std::move(p));
    } catch (const std::exception& e) {
      throw FormatError(path.string(), "line " + std::to_string(number), e.what());
    }
  }
  if (all.empty()) throw FormatError(path.string(), "", "holds no predictions");
  return all;
}

std::string submission_csv(const std::vector<Predictions>& predictions) {
  std::string csv = "ID,TopConfigs\n";
  for (const Predictions& p : predictions) {
    if (p.id.empty() || p.id.find_first_of(",\"\r\n") != std::string::npos) {
      throw std::invalid_argument("'" + p.id + "' cannot be an ID of a CSV file");
    }
    std::vector<int64_t> order = order_by_score(p.scores);
    if (p.id.starts_with("tile:")) order.resize(std::min(order.size(), kTopTiles));
    csv += p.id + ",";
    for (size_t i = 0; i < order.size(); ++i) csv += (i > 0 ? ";" : "") + std::to_string(order[i]);
    csv += '\n';
  }
  return csv;
}

}  // namespace lagom::rank
