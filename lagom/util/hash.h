#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lagom {

/// A 64-bit hash (FNV-1a with a final mix), stable across machines and versions: it names
/// programs, kernels and configurations in files.
uint64_t hash64(std::string_view bytes);

/// 16 lower-case hexadecimal digits.
std::string hex64(uint64_t value);

}  // namespace lagom
