#pragma once

#include <string>
#include <vector>

#include "lagom/hlo/module.h"

namespace lagom::hlo {

/// A serialised HloModuleProto that XLA accepts. Ids are given anew, in order.
///
/// Attributes that only text has (num_partitions in the header, attributes kept as raw text) have
/// no place in the proto: their names are appended to `dropped` when given. Throws
/// std::invalid_argument for a constant whose text was elided ("{...}"), which has no values.
std::string write_hlo_proto(const Module& module, std::vector<std::string>* dropped = nullptr);

/// A serialised ShapeProto.
std::string write_shape_proto(const Shape& shape);

}  // namespace lagom::hlo
