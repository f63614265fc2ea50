#include "lagom/hlo/cost_analysis.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lagom/hlo/shape_inference.h"

namespace lagom::hlo {
namespace {

using enum Opcode;

constexpr double kFmaFlops = 2;
constexpr double kFlopsPerComplexMultiply = 8;
constexpr double kPointerBytes = 8;

// Bytes in memory, sub-byte types unpacked; tuples sum their elements.
double size_bytes(const Shape& shape) {
  double sum = 0;
  for (const Shape& element : shape.tuple_shapes) sum += size_bytes(element);
  if (!shape.is_array()) return sum;
  return static_cast<double>(shape.num_elements()) * element_bytes(shape.element_type);
}

double num_elements(const Shape& shape) {
  double sum = 0;
  for (const Shape& element : shape.tuple_shapes) sum += num_elements(element);
  return shape.is_array() ? static_cast<double>(shape.num_elements()) : sum;
}

double operand_bytes(const Instruction& instruction, size_t first = 0) {
  double sum = 0;
  for (size_t i = first; i < instruction.operands.size(); ++i) {
    sum += size_bytes(instruction.operand(i).shape);
  }
  return sum;
}

double window_elements(const Window& window) {
  double product = 1;
  for (const WindowDim& dim : window) product *= static_cast<double>(dim.size);
  return product;
}

bool is_transcendental(Opcode opcode) {
  switch (opcode) {
    case kAcos:
    case kAcosh:
    case kAsin:
    case kAsinh:
    case kAtan2:
    case kAtanh:
    case kCbrt:
    case kCosh:
    case kCosine:
    case kErf:
    case kExp:
    case kExpm1:
    case kLog:
    case kLog1p:
    case kLogistic:
    case kPower:
    case kRng:
    case kRngBitGenerator:
    case kRsqrt:
    case kSine:
    case kSinh:
    case kSqrt:
    case kTan:
    case kTanh:
      return true;
    default:
      return false;
  }
}

bool is_arithmetic(Opcode opcode) {
  return (opcode != kCopy && (is_elementwise_unary(opcode) || is_elementwise_binary(opcode))) ||
         opcode == kSelect || opcode == kClamp || opcode == kAllReduce || opcode == kReduceScatter;
}

double dot_flops(const Instruction& dot) {
  double depth = 1;
  for (int64_t d : dot.attributes.dot->lhs_contracting) {
    depth *= static_cast<double>(dot.operand(0).shape.dimensions[d]);
  }
  return kFmaFlops * depth * num_elements(dot.shape);
}

// Output positions at which this tap meets an input element.
int64_t meeting_positions(const WindowDim& dim, int64_t tap, int64_t input_size,
                          int64_t output_size) {
  const int64_t extent = dilated_size(input_size, dim.base_dilation);
  const int64_t offset = tap * dim.window_dilation - dim.pad_low;
  int64_t first = offset >= 0 ? 0 : (-offset + dim.stride - 1) / dim.stride;
  if (offset >= extent) return 0;
  const int64_t last = std::min(output_size - 1, (extent - 1 - offset) / dim.stride);
  // Positions that hit a hole or an element repeat with a period of at most the base dilation.
  const int64_t search_end = std::min(last, first + dim.base_dilation - 1);
  while (first <= search_end && (first * dim.stride + offset) % dim.base_dilation != 0) ++first;
  if (first > search_end) return 0;
  const int64_t period = dim.base_dilation / std::gcd(dim.base_dilation, dim.stride);
  return (last - first) / period + 1;
}

double fft_flops(const Instruction& fft) {
  double factors = 0;
  for (int64_t length : fft.rare().fft_length) {
    factors += std::floor(std::log2(std::max<double>(static_cast<double>(length), 1)));
  }
  const double elements = std::max(num_elements(fft.shape), num_elements(fft.operand(0).shape));
  return kFlopsPerComplexMultiply * factors * elements;
}

// Marks for the compiler's own passes, gone before any code is made.
bool is_marker(const Instruction& custom_call) {
  const std::string& target = custom_call.rare().custom_call_target;
  return target == "Sharding" || target == "SPMDFullToShardShape" ||
         target == "SPMDShardToFullShape" || target == "LayoutConstraint";
}

// The result's layout undoes the permutation: no byte moves.
bool is_bitcast_transpose(const Instruction& transpose) {
  const Dims from = transpose.operand(0).shape.minor_to_major();
  const Dims to = transpose.shape.minor_to_major();
  for (size_t i = 0; i < to.size(); ++i) {
    if (transpose.attributes.dimensions[to[i]] != from[i]) return false;
  }
  return true;
}

// Bytes of a fusion's parameter that are read: slices of it count by themselves, all other readers
// share one pass.
double fused_read_bytes(const Instruction& parameter, const UserIndex& users) {
  const double whole = size_bytes(parameter.shape);
  double sum = 0;
  bool read_whole = false;
  for (const Instruction* user : users.of(&parameter)) {
    const bool is_first = user->operands[0] == &parameter;
    if ((user->opcode == kSlice || user->opcode == kDynamicSlice) && is_first) {
      sum += size_bytes(user->shape);
    } else if (!(user->opcode == kDynamicUpdateSlice && is_first)) {
      read_whole = true;
    }
  }
  return read_whole ? sum + whole : sum;
}

double fused_write_bytes(const Instruction& root) {
  if (root.opcode == kTuple) {
    double sum = 0;
    for (const Instruction* element : root.operands) sum += fused_write_bytes(*element);
    return sum;
  }
  return size_bytes(root.opcode == kDynamicUpdateSlice ? root.operand(1).shape : root.shape);
}

Cost fusion_bytes(const Instruction& fusion) {
  const Computation& fused = *fusion.called[0];
  const UserIndex users(fused);
  Cost cost;
  for (const Instruction* parameter : fused.parameters()) {
    cost.bytes_read += fused_read_bytes(*parameter, users);
  }
  cost.bytes_written = fused_write_bytes(*fused.root());
  return cost;
}

}  // namespace

Cost& Cost::operator+=(const Cost& other) {
  flops += other.flops;
  transcendentals += other.transcendentals;
  bytes_read += other.bytes_read;
  bytes_written += other.bytes_written;
  return *this;
}

Cost Cost::scaled(double factor) const {
  return {.flops = flops * factor,
          .transcendentals = transcendentals * factor,
          .bytes_read = bytes_read * factor,
          .bytes_written = bytes_written * factor};
}

double convolution_products(const Instruction& convolution) {
  const ConvolutionDims& dims = *convolution.attributes.convolution;
  const Dims& input = convolution.operand(0).shape.dimensions;
  const Dims& kernel = convolution.operand(1).shape.dimensions;
  const Dims& output = convolution.shape.dimensions;
  double products = static_cast<double>(kernel[dims.kernel_input_feature]) *
                    static_cast<double>(output[dims.output_feature]) *
                    static_cast<double>(output[dims.output_batch]);
  for (size_t s = 0; s < convolution.attributes.window.size(); ++s) {
    const WindowDim& dim = convolution.attributes.window[s];
    const int64_t size = output[dims.output_spatial[s]];
    // Past this size no real kernel is found: count every tap rather than visit it.
    constexpr int64_t kMaxVisited = 1 << 20;
    if (dim.size > kMaxVisited || dim.base_dilation > kMaxVisited) {
      products *= static_cast<double>(dim.size) * static_cast<double>(size);
      continue;
    }
    double meetings = 0;
    for (int64_t tap = 0; tap < dim.size; ++tap) {
      meetings +=
          static_cast<double>(meeting_positions(dim, tap, input[dims.input_spatial[s]], size));
    }
    products *= meetings;
  }
  return products;
}

CostAnalysis::CostAnalysis(const Module& module, const CostOptions& options)
    : module_(module), options_(options) {}

Cost CostAnalysis::total() {
  return of(*module_.entry());
}

Cost CostAnalysis::of(const Computation& computation) {
  const auto it = computations_.find(&computation);
  if (it != computations_.end()) return it->second;
  Cost sum;
  for (const auto& instruction : computation.instructions()) sum += of(*instruction);
  computations_[&computation] = sum;
  return sum;
}

Cost CostAnalysis::of(const Instruction& instruction) {
  switch (instruction.opcode) {
    case kCall:
    case kAsyncStart:
      return called(instruction, 0);
    case kWhile: {
      Cost iteration = called(instruction, 0);
      iteration += called(instruction, 1);
      if (!options_.multiply_trip_counts) return iteration;
      const auto count = trip_count(instruction);
      return iteration.scaled(count ? static_cast<double>(*count) : options_.unknown_trip_count);
    }
    case kConditional: {
      Cost dearest;
      for (size_t i = 0; i < instruction.called.size(); ++i) {
        const Cost branch = called(instruction, i);
        dearest.flops = std::max(dearest.flops, branch.flops);
        dearest.transcendentals = std::max(dearest.transcendentals, branch.transcendentals);
        dearest.bytes_read = std::max(dearest.bytes_read, branch.bytes_read);
        dearest.bytes_written = std::max(dearest.bytes_written, branch.bytes_written);
      }
      return dearest;
    }
    default: {
      Cost cost = arithmetic(instruction);
      cost += bytes(instruction);
      return cost;
    }
  }
}

Cost CostAnalysis::called(const Instruction& instruction, size_t index) {
  return index < instruction.called.size() ? of(*instruction.called[index]) : Cost{};
}

// Flops and transcendentals; bytes stay 0.
Cost CostAnalysis::arithmetic(const Instruction& instruction) {
  const auto applied = [&](size_t index, double times) {
    Cost cost = called(instruction, index).scaled(times);
    cost.bytes_read = cost.bytes_written = 0;
    return cost;
  };
  const double elements = num_elements(instruction.shape);
  switch (instruction.opcode) {
    case kDot:
    case kRaggedDot:
      return {.flops = dot_flops(instruction)};
    case kConvolution:
      return {.flops = kFmaFlops * convolution_products(instruction)};
    case kFft:
      return {.flops = fft_flops(instruction)};
    case kCholesky:
      return {.flops = elements * static_cast<double>(instruction.shape.dimensions.back()) / 3};
    case kTriangularSolve:
      return {.flops = kFmaFlops * elements *
                       static_cast<double>(instruction.operand(0).shape.dimensions.back())};
    case kReduce: {
      const Shape& result =
          instruction.shape.is_tuple() ? instruction.shape.tuple_shapes[0] : instruction.shape;
      return applied(0, num_elements(instruction.operand(0).shape) - num_elements(result));
    }
    case kReduceWindow: {
      const Shape& result =
          instruction.shape.is_tuple() ? instruction.shape.tuple_shapes[0] : instruction.shape;
      return applied(0,
                     num_elements(result) * (window_elements(instruction.attributes.window) - 1));
    }
    case kSelectAndScatter: {
      const double source = num_elements(instruction.operand(1).shape);
      Cost cost = applied(0, source * (window_elements(instruction.attributes.window) - 1));
      cost += applied(1, source);
      return cost;
    }
    case kScatter:
      return applied(0, num_elements(instruction.operands.back()->shape));
    case kMap:
      return applied(0, elements);
    case kFusion:
      return applied(0, 1);
    case kSort: {
      const double n = num_elements(instruction.operand(0).shape);
      return {.flops = n * std::ceil(std::log2(std::max(n, 1.0)))};
    }
    default:
      if (is_transcendental(instruction.opcode)) return {.transcendentals = elements};
      if (is_arithmetic(instruction.opcode)) return {.flops = elements};
      return {};
  }
}

Cost CostAnalysis::bytes(const Instruction& instruction) {
  const double result = size_bytes(instruction.shape);
  switch (instruction.opcode) {
    case kAddDependency:
    case kAfterAll:
    case kAllGatherDone:
    case kAllReduceDone:
    case kAsyncDone:
    case kAsyncUpdate:
    case kBitcast:
    case kCollectivePermuteDone:
    case kConstant:
    case kCopyDone:
    case kDomain:
    case kGetTupleElement:
    case kParameter:
    case kRecvDone:
    case kSendDone:
      return {};
    case kTuple:
      return {.bytes_written = kPointerBytes * static_cast<double>(instruction.operands.size())};
    case kSlice:
      return {.bytes_read = result, .bytes_written = result};
    case kDynamicSlice:
    case kGather:
      return {.bytes_read = result + operand_bytes(instruction, 1), .bytes_written = result};
    case kDynamicUpdateSlice:
      return {.bytes_read = operand_bytes(instruction, 1),
              .bytes_written = size_bytes(instruction.operand(1).shape)};
    case kScatter: {
      const size_t n = instruction.operands.size() / 2;
      const double updates = operand_bytes(instruction, n + 1);
      return {.bytes_read = operand_bytes(instruction, n) + updates, .bytes_written = updates};
    }
    case kCholesky:
      return {.bytes_read = operand_bytes(instruction) / 2, .bytes_written = result / 2};
    case kTriangularSolve:
      return {.bytes_read = size_bytes(instruction.operand(0).shape) / 2 +
                            size_bytes(instruction.operand(1).shape),
              .bytes_written = result};
    case kFusion:
      return fusion_bytes(instruction);
    case kTranspose:
      if (is_bitcast_transpose(instruction)) return {};
      break;
    case kCustomCall:
      if (is_marker(instruction)) return {};
      break;
    default:
      break;
  }
  return {.bytes_read = operand_bytes(instruction), .bytes_written = result};
}

}  // namespace lagom::hlo
