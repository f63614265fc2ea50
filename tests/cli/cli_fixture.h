#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/testing/command.h"
#include "tests/testing/data.h"
#include "tests/testing/plugins.h"

namespace lagom::cli {

/// Runs the built command line as a user would, in a folder and with a cache of its own.
class CliTest : public ::testing::Test {
 protected:
  testing::Command::Environment environment() const {
    return {{"LAGOM_PJRT_PLUGIN", testing::plugin_path()},
            {"LAGOM_CACHE", folder_ / "cache"},
            // Timings of other tests on this machine are not waited for.
            {"LAGOM_LOCK_DIR", folder_ / "locks"}};
  }

  testing::CommandResult lagom(const std::vector<std::string>& arguments) const {
    return testing::run_command("lagom", arguments, environment());
  }
  testing::CommandResult lagom(const std::vector<std::string>& arguments,
                               testing::Command::Environment changed) const {
    changed.merge(environment());
    return testing::run_command("lagom", arguments, changed);
  }

  /// A small element-wise program.
  std::string add_program() const {
    return folder_.write(
        "add.hlo",
        "HloModule add\n"
        "ENTRY e { a = f32[64]{0} parameter(0)  ROOT s = f32[64]{0} add(a, a) }\n");
  }

  /// A depthwise convolution, which XLA's CPU compiler runs slowly as it is.
  std::string depthwise_program() const {
    return folder_.write("depthwise.hlo", R"(HloModule depthwise
ENTRY e {
  x = f32[1,32,32,64]{3,2,1,0} parameter(0)
  k = f32[3,3,1,64]{3,2,1,0} parameter(1)
  ROOT c = f32[1,32,32,64]{3,2,1,0} convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=64, metadata={op_name="model/depthwise" source_file="model.py" source_line=12}
}
)");
  }

  testing::TemporaryFolder folder_;
};

/// One line on stderr, and nothing on stdout.
MATCHER_P(FailsWith, line, "") {
  *result_listener << "status " << arg.status << ", stderr: " << arg.err;
  return arg.status == 1 && arg.out.empty() &&
         std::count(arg.err.begin(), arg.err.end(), '\n') == 1 && arg.err.starts_with("lagom: ") &&
         ::testing::Matches(::testing::HasSubstr(line))(arg.err);
}

}  // namespace lagom::cli
