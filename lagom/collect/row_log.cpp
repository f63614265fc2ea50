#include "lagom/collect/row_log.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lagom/util/file.h"
#include "lagom/util/json_lines.h"

namespace lagom::collect {
namespace {

using nlohmann::json;

json to_json(const Row& row) {
  json j = {{"configuration", row.configuration},
            {"seconds", row.seconds},
            {"default_seconds", row.default_seconds},
            {"ratio", {row.ratio.median, row.ratio.low, row.ratio.high}},
            {"pairs", row.ratio.pairs},
            {"compile_seconds", row.compile_seconds}};
  if (!row.ok()) {
    j["failure"] = static_cast<int>(row.failure);
    j["error"] = row.error;
  }
  return j;
}

Row from_json(const json& j) {
  Row row;
  j.at("configuration").get_to(row.configuration);
  j.at("seconds").get_to(row.seconds);
  j.at("default_seconds").get_to(row.default_seconds);
  j.at("compile_seconds").get_to(row.compile_seconds);
  row.ratio.median = j.at("ratio").at(0).get<double>();
  row.ratio.low = j.at("ratio").at(1).get<double>();
  row.ratio.high = j.at("ratio").at(2).get<double>();
  row.ratio.pairs = j.at("pairs").get<int>();
  row.failure = static_cast<measure::FailureKind>(j.value("failure", 0));
  row.error = j.value("error", "");
  return row;
}

}  // namespace

RowLog::RowLog(std::filesystem::path path) : path_(std::move(path)) {
  for_each_json_line(path_, [&](const json& j) { rows_.push_back(from_json(j)); });
}

bool RowLog::contains(const std::string& configuration) const {
  return std::any_of(rows_.begin(), rows_.end(),
                     [&](const Row& row) { return row.configuration == configuration; });
}

void RowLog::add(const Row& row) {
  rows_.push_back(row);
  append_line(path_, to_json(row).dump(-1, ' ', false, json::error_handler_t::replace));
}

}  // namespace lagom::collect
