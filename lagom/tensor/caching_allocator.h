#pragma once

#include <cstdint>

namespace lagom::tensor {

/// From now on large tensors (1 MB and more) get memory that earlier ones gave back, up to
/// `max_cached_bytes` of it, in huge pages where the system has them: a training step allocates the
/// same sizes over and over, and page faults were a quarter of its time. What is in use and what is
/// kept stay together within 5/4 of the most that was ever in use: the block that was longest
/// without use goes. For a program's main, once, before threads start.
void use_caching_allocator(int64_t max_cached_bytes = int64_t{4} << 30);

}  // namespace lagom::tensor
