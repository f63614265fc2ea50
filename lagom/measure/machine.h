#pragma once

#include <cstdint>
#include <string>
#include <vector>

/// What the operating system says about this machine and its processes.
namespace lagom::measure {

/// Memory that a new process could take now: the kernel's estimate, limited by the control group.
int64_t available_memory_bytes();

/// Private resident memory of a process (without shared file pages); 0 when it is gone.
int64_t private_memory_bytes(int pid);

/// The largest resident memory of this process since the last reset_peak_memory.
int64_t peak_memory_bytes();
void reset_peak_memory();

/// The one-minute load average; 0 when unknown.
double load_average();

/// The CPUs that this process may run on, ascending.
std::vector<int> allowed_cpus();

/// "512 MiB", "31.2 GiB".
std::string memory_to_string(int64_t bytes);

}  // namespace lagom::measure
