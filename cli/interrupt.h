#pragma once

namespace lagom::cli {

/// From now on Ctrl-C (SIGINT) and SIGTERM only set a flag; a second one ends the program at once.
void catch_interrupts();
/// Whether one came.
bool interrupted();

}  // namespace lagom::cli
