#include "lagom/tune/database.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "lagom/util/error.h"
#include "lagom/util/file.h"
#include "lagom/util/hash.h"
#include "lagom/util/json_lines.h"

namespace lagom::tune {
namespace {

using nlohmann::json;

json to_json(const KernelRecord& r) {
  json j = {{"signature", r.signature},
            {"configuration", r.configuration},
            {"opcode", r.opcode},
            {"default_seconds", r.default_seconds},
            {"compile_seconds", r.compile_seconds},
            {"ratio", {r.ratio.median, r.ratio.low, r.ratio.high}},
            {"pairs", r.ratio.pairs}};
  for (const float value : r.node) j["node"].push_back(std::round(value * 1e3) / 1e3);
  if (r.seconds) j["seconds"] = *r.seconds;
  if (r.failure != measure::FailureKind::kNone) {
    j["failure"] = static_cast<int>(r.failure);
    j["error"] = r.error;
  }
  return j;
}

KernelRecord from_json(const json& j) {
  KernelRecord r;
  r.signature = j.at("signature").get<std::string>();
  r.configuration = j.at("configuration").get<std::string>();
  r.opcode = j.value("opcode", "");
  r.default_seconds = j.at("default_seconds").get<double>();
  r.compile_seconds = j.value("compile_seconds", 0.0);
  const auto ratio = j.at("ratio").get<std::vector<double>>();
  if (ratio.size() != 3) throw std::invalid_argument("ratio");
  r.ratio.median = ratio[0];
  r.ratio.low = ratio[1];
  r.ratio.high = ratio[2];
  r.ratio.pairs = j.value("pairs", 0);
  if (j.contains("seconds")) r.seconds = j.at("seconds").get<double>();
  r.failure = static_cast<measure::FailureKind>(j.value("failure", 0));
  // A line edited by hand must not make a form look free.
  const bool ordered =
      0 < r.ratio.low && r.ratio.low <= r.ratio.median && r.ratio.median <= r.ratio.high;
  if (r.seconds && !(*r.seconds > 0 && r.default_seconds > 0 && ordered)) {
    throw std::invalid_argument("times");
  }
  r.error = j.value("error", "");
  r.node = j.value("node", std::vector<float>{});
  return r;
}

std::string key(std::string_view signature, std::string_view configuration) {
  return std::string(signature) + '\n' + std::string(configuration);
}

}  // namespace

struct Database::State {
  std::filesystem::path file;
  std::map<std::string, KernelRecord> records;
  size_t num_skipped = 0;
};

Database::Database(std::filesystem::path folder, std::string_view device)
    : state_(std::make_unique<State>()) {
  if (folder.empty()) return;
  std::error_code ec;
  std::filesystem::create_directories(folder, ec);
  if (ec) throw SystemError(folder.string() + ": cannot be created: " + ec.message());
  state_->file = folder / ("kernels-" + hex64(hash64(device)) + ".jsonl");
  state_->num_skipped = for_each_json_line(state_->file, [&](const json& j) {
    if (j.contains("device")) return;  // the first line says whose measurements these are
    KernelRecord record = from_json(j);
    state_->records[key(record.signature, record.configuration)] = std::move(record);
  });
  if (!std::filesystem::exists(state_->file)) {
    std::ofstream(state_->file) << json{{"device", device}, {"format", 1}}.dump() << '\n';
  }
}

Database::~Database() = default;
Database::Database(Database&&) noexcept = default;

std::optional<KernelRecord> Database::find(std::string_view signature,
                                           std::string_view configuration) const {
  const auto it = state_->records.find(key(signature, configuration));
  if (it == state_->records.end()) return std::nullopt;
  return it->second;
}

void Database::add(const KernelRecord& record) {
  if (record.failure == measure::FailureKind::kStopped ||
      record.failure == measure::FailureKind::kSystem) {
    return;
  }
  state_->records[key(record.signature, record.configuration)] = record;
  if (state_->file.empty()) return;
  // An error may quote bytes of any kind.
  append_line(state_->file, to_json(record).dump(-1, ' ', false, json::error_handler_t::replace));
}

size_t Database::size() const {
  return state_->records.size();
}
std::vector<const KernelRecord*> Database::records() const {
  std::vector<const KernelRecord*> records;
  for (const auto& [key, record] : state_->records) records.push_back(&record);
  return records;
}
size_t Database::num_skipped() const {
  return state_->num_skipped;
}

std::vector<DeviceRecords> read_databases(const std::filesystem::path& folder) {
  std::error_code error;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".jsonl") files.push_back(entry.path());
  }
  if (error) throw SystemError(folder.string() + ": cannot be read: " + error.message());
  if (files.empty()) throw FormatError(folder.string(), "", "holds no kernel measurements (.jsonl)");
  std::sort(files.begin(), files.end());
  std::vector<DeviceRecords> all;
  for (const auto& file : files) {
    DeviceRecords device;
    for_each_json_line(file, [&](const json& j) {
      if (j.contains("device")) {
        device.device = j.at("device").get<std::string>();
      } else {
        device.records.push_back(from_json(j));
      }
    });
    all.push_back(std::move(device));
  }
  return all;
}

void write_database_file(const std::filesystem::path& path, const DeviceRecords& records) {
  std::string text = json{{"device", records.device}, {"format", 1}}.dump() + "\n";
  for (const KernelRecord& record : records.records) {
    text += to_json(record).dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  }
  write_file(path, text);
}

}  // namespace lagom::tune
