#include "tests/testing/plugins.h"

#include <cstdlib>
#include <sstream>

#include "lagom/xla/plugin.h"

namespace lagom::testing {

std::vector<std::string> test_plugins() {
  std::vector<std::string> paths;
  if (const char* list = std::getenv("LAGOM_TEST_PLUGINS")) {
    std::istringstream in(list);
    for (std::string path; std::getline(in, path, ':');) {
      if (!path.empty()) paths.push_back(path);
    }
  }
  if (paths.empty()) paths.push_back("default");
  return paths;
}

std::string plugin_path(const std::string& plugin) {
  return xla::find_plugin(plugin == "default" ? "" : plugin).string();
}

}  // namespace lagom::testing
