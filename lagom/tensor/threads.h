#pragma once

namespace lagom::tensor {

/// Sets how many threads tensor operations and our own kernels use; 0 takes one per CPU that this
/// process may run on.
void set_num_threads(int num_threads);

}  // namespace lagom::tensor
