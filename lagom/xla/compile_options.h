#pragma once

#include <string>
#include <string_view>

#include "lagom/util/flags.h"

namespace lagom::xla {

struct CompileOptions {
  Flags flags;  ///< The plugin refuses names that it does not know; see unknown_flag.
  /// The program's one parameter is a tuple and the arguments are its elements.
  bool tuple_arguments = false;
};

/// The bytes of XLA's CompileOptionsProto for one device.
std::string encode_compile_options(const CompileOptions& options);

/// The flag's name when the plugin's message says that it has no such option, else "".
std::string unknown_flag(std::string_view message);

}  // namespace lagom::xla
