#pragma once

#include <string>

namespace lagom::worker {

/// Misbehaves on purpose, for the tests of what the parent makes of it; see encode_debug_request.
/// `descriptor` is the worker's end of the socket.
void misbehave(const std::string& action, int descriptor);

}  // namespace lagom::worker
