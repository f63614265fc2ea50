#pragma once

#include <string_view>

#include "lagom/hlo/module.h"

namespace lagom::hlo {

/// Reads a serialised HloModuleProto, or one of the messages that wrap it: HloProto, HloSnapshot,
/// HloUnoptimizedSnapshot, TpuGraphs' ModuleTuningData.
///
/// Lists may be packed or not, ids are 64-bit, fields that are not decoded are kept as bytes and
/// written back. `path` names the bytes in errors. Throws FormatError naming the computation and
/// instruction at fault.
Module read_hlo_proto(std::string_view bytes, std::string_view path);

/// True when the bytes look like one of these messages.
bool looks_like_hlo_proto(std::string_view bytes);
/// True when they look like a HloModuleProto itself.
bool is_hlo_module_proto(std::string_view bytes);

}  // namespace lagom::hlo
