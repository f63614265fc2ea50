#pragma once

namespace CLI {
class App;
}

namespace lagom::cli {

/// Adds the names of the commands that need tensors, for `lagom --help`. They are in a program of
/// their own, lagom-learn: loading LibTorch takes a quarter of a second and 120 MB.
void add_learned_commands(CLI::App& app);

/// Whether the arguments name one of them. `lagom eval` is one only when its first argument is no
/// option: it then names a model.
bool is_learned_command(int argc, char** argv);

/// Whether lagom-learn is there.
bool has_learned_program();

/// Becomes lagom-learn, which lies beside this program. Returns only when that fails: the exit
/// status, after a message.
int run_learned_program(char** argv);

}  // namespace lagom::cli
