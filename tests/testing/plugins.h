#pragma once

#include <string>
#include <vector>

namespace lagom::testing {

/// Paths of the PJRT plugins that tests run against: LAGOM_TEST_PLUGINS (separated by ':'), else
/// "default". Never empty: a test that needs a plugin fails where there is none.
std::vector<std::string> test_plugins();

/// The path of a plugin of test_plugins(); "default" gives the one that find_plugin finds.
/// Throws SystemError when there is none.
std::string plugin_path(const std::string& plugin = "default");

}  // namespace lagom::testing
