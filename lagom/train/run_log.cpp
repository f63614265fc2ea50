#include "lagom/train/run_log.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "lagom/util/file.h"
#include "lagom/util/json_lines.h"

namespace lagom::train {
namespace {

std::filesystem::path trimmed_log(const std::filesystem::path& folder, int64_t first_step) {
  std::error_code ec;
  std::filesystem::create_directories(folder, ec);
  const std::filesystem::path path = folder / "log.jsonl";
  std::string kept;
  for_each_json_line<nlohmann::ordered_json>(path, [&](const nlohmann::ordered_json& line) {
    if (line.at("step").get<int64_t>() < first_step) kept += line.dump() + "\n";
  });
  write_file(path, kept);
  return path;
}

}  // namespace

RunLog::RunLog(const std::filesystem::path& folder, int64_t first_step)
    : path_(trimmed_log(folder, first_step)), events_(folder, first_step) {}

void RunLog::add(int64_t step, std::span<const formats::Scalar> scalars) {
  nlohmann::ordered_json line = {{"step", step}};
  for (const formats::Scalar& scalar : scalars) {
    line[std::string(scalar.name)] = scalar.value;  // dump() prints NaN and infinities as null
  }
  append_line(path_, line.dump());
  events_.add(step, scalars);
}

Progress::Progress(int64_t first_step, int64_t num_steps)
    : first_step_(first_step),
      num_steps_(num_steps),
      is_terminal_(::isatty(STDERR_FILENO) == 1),
      start_(Clock::now()),
      last_(start_) {}

Progress::~Progress() {
  end_line();
}

void Progress::update(int64_t step, const std::string& text) {
  const auto now = Clock::now();
  const std::chrono::duration<double> pause(is_terminal_ ? 0.25 : 30.0);
  if (step < num_steps_ && now - last_ < pause && last_ != start_) return;
  last_ = now;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const double rate = static_cast<double>(step - first_step_) / std::max(elapsed, 1e-9);
  const double left = rate > 0 ? static_cast<double>(num_steps_ - step) / rate : 0;
  const std::string line = fmt::format(
      "step {}/{} ({:.0f} %)  {}  {:.3g} steps/s  {} left", step, num_steps_,
      100.0 * static_cast<double>(step) / static_cast<double>(std::max<int64_t>(num_steps_, 1)),
      text, rate, duration_to_string(left));
  std::fprintf(stderr, is_terminal_ ? "\r\x1b[K%s" : "%s\n", line.c_str());
  has_open_line_ = is_terminal_;
}

void Progress::note(const std::string& text) {
  end_line();
  std::fprintf(stderr, "%s\n", text.c_str());
}

void Progress::end_line() {
  if (has_open_line_) std::fputc('\n', stderr);
  has_open_line_ = false;
}

std::string duration_to_string(double seconds) {
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole >= 3600) return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
  if (whole >= 60) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} s", whole);
}

}  // namespace lagom::train
