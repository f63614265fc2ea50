#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lagom/tune/database.h"

namespace lagom::tune {

/// What is believed of a number: a Gaussian.
struct Belief {
  double mean = 0, deviation = 0;
};

/// Of two independent beliefs about one number: their product, which leans on the surer one.
Belief combine(const Belief& a, const Belief& b);

/// How much more doubt, as a deviation of log(ratio), there is about what was measured on `other`
/// than about what was measured on `device` (measure::device_key): little where only the CPUs
/// differ, much for other compilers (docs/results.md).
double doubt_of_device(std::string_view other, std::string_view device);

/// What forms brought on similar nodes: kernel regression over what was measured of nodes of the
/// same opcode, whichever program, device or version they come from.
class Neighbours {
 public:
  /// Measurements without a node's description, or that failed, are left out; `extra_deviation` is
  /// added to the doubt: 0 for the device at hand, more for others.
  void add(const KernelRecord& record, double extra_deviation = 0);

  /// Of log(seconds in the form / seconds as it is). The deviation comes from how far the
  /// neighbours are and how much they disagree; without any it is infinite. `but` is a signature
  /// to leave out: for tests of the method on its own data.
  Belief log_ratio(std::string_view opcode, const std::vector<float>& node,
                   const std::string& configuration, std::string_view but = {}) const;

  size_t size() const { return size_; }

 private:
  struct Point {
    std::vector<float> node;
    double log_ratio = 0, extra_deviation = 0;
    std::string signature;
  };
  std::map<std::string, std::vector<Point>> points_;  // by opcode and configuration
  size_t size_ = 0;
};

}  // namespace lagom::tune
