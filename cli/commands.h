#pragma once

// One function per subcommand: declares its options on the parser and says what to do when it was
// chosen. The work itself is in the library.

#include <functional>

namespace CLI {
class App;
}

namespace lagom::cli {

/// Exit status of a command: 0, or 1 when it found something wrong that is no exception.
using Action = std::function<int()>;

/// Adds the subcommand; `chosen` receives its action when the user picked it.
void add_inspect(CLI::App& app, Action& chosen);
void add_convert(CLI::App& app, Action& chosen);
void add_run(CLI::App& app, Action& chosen);
void add_profile(CLI::App& app, Action& chosen);
void add_collect(CLI::App& app, Action& chosen);
void add_eval(CLI::App& app, Action& chosen);
void add_submit(CLI::App& app, Action& chosen);
void add_generate(CLI::App& app, Action& chosen);

}  // namespace lagom::cli
