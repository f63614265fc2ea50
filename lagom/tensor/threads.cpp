#include "lagom/tensor/threads.h"

#include <ATen/Parallel.h>
#include <sched.h>

namespace lagom::tensor {

void set_num_threads(int num_threads) {
  cpu_set_t allowed;
  if (num_threads == 0 && sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
    num_threads = CPU_COUNT(&allowed);
  }
  if (num_threads > 0) at::set_num_threads(num_threads);
}

}  // namespace lagom::tensor
