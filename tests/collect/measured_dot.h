#pragma once

#include <string>
#include <utility>

#include "lagom/collect/measured_file.h"

namespace lagom::collect {

/// A kernel as lagom collect writes it.
inline constexpr char kMeasuredDot[] = R"(HloModule kernel
ENTRY main {
  a = f32[64,128]{1,0} parameter(0)
  b = f32[128,32]{1,0} parameter(1)
  ROOT node = f32[64,32]{1,0} dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
)";

/// A row of it, whose default takes 2 ms.
inline Row measured_row(std::string configuration, double seconds) {
  const double ratio = seconds / 2e-3;
  return {.configuration = std::move(configuration),
          .seconds = seconds,
          .default_seconds = 2e-3,
          .ratio = {.median = ratio, .low = ratio * 0.95, .high = ratio * 1.05},
          .error = {}};
}

}  // namespace lagom::collect
