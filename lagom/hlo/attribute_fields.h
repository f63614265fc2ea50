#pragma once

// The one table of attributes whose text and wire forms are single values. Text reader, text
// writer, proto reader and proto writer each walk it with a visitor of their own, so that a name or
// field number stands once. Private to lagom/hlo.
//
// A visitor has these members, called with (text name, field number in HloInstructionProto, value):
//   integer(int64_t&, default)  boolean(bool&)  real(double&, float32 on the wire)
//   word(std::string&)          an identifier in text, a string on the wire
//   quoted(std::string&)        a quoted string in text, bytes on the wire
//   enumeration(std::string&, names)  an identifier in text, an index into `names` on the wire
//   integers(Dims&)             {1,2,3} in text, a packed list on the wire
// Members of messages inside the instruction go through `message(number, fields)`, which text
// visitors flatten.

#include <array>
#include <string_view>

#include "lagom/hlo/attributes.h"
#include "lagom/hlo/opcode.h"

namespace lagom::hlo::detail {

inline constexpr std::string_view kDistributions[] = {"", "rng_uniform", "rng_normal"};
inline constexpr std::string_view kFftTypes[] = {"FFT", "IFFT", "RFFT", "IRFFT"};
inline constexpr std::string_view kSchedules[] = {"", "SCHEDULE_LATEST", "SCHEDULE_EARLIEST"};
/// What a custom call's text means that names no version; the proto's absent field is "unspecified".
inline constexpr std::string_view kImpliedApiVersion = "API_VERSION_ORIGINAL";
inline constexpr std::string_view kApiVersions[] = {
    "API_VERSION_UNSPECIFIED", kImpliedApiVersion, "API_VERSION_STATUS_RETURNING",
    "API_VERSION_STATUS_RETURNING_UNIFIED", "API_VERSION_TYPED_FFI"};
inline constexpr std::string_view kRngAlgorithms[] = {"rng_default", "rng_three_fry", "rng_philox"};
inline constexpr std::string_view kPaddingTypes[] = {"", "PADDING_VALID", "PADDING_SAME"};
inline constexpr std::string_view kTransposes[] = {"", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"};
/// PrecisionConfig.Precision.
inline constexpr std::string_view kPrecisions[] = {"default", "high", "highest", "packed_nibble"};
/// PrecisionConfig.Algorithm.
inline constexpr std::string_view kDotAlgorithms[] = {
    "",
    "dot_any_f8_any_f8_f32",
    "dot_any_f8_any_f8_f32_fast_accum",
    "dot_f16_f16_f16",
    "dot_f16_f16_f32",
    "dot_bf16_bf16_bf16",
    "dot_bf16_bf16_f32",
    "dot_bf16_bf16_f32_x3",
    "dot_bf16_bf16_f32_x6",
    "dot_tf32_tf32_f32",
    "dot_tf32_tf32_f32_x3",
    "dot_f32_f32_f32",
    "dot_f64_f64_f64",
    "dot_bf16_bf16_f32_x9",
};

template <typename A, typename Visitor>
void visit_dot(A& d, Visitor& visit) {
  visit.integers("lhs_batch_dims", 3, d.lhs_batch);
  visit.integers("lhs_contracting_dims", 1, d.lhs_contracting);
  visit.integers("rhs_batch_dims", 4, d.rhs_batch);
  visit.integers("rhs_contracting_dims", 2, d.rhs_contracting);
}

template <typename A, typename Visitor>
void visit_gather(A& g, Visitor& visit) {
  visit.integers("offset_dims", 1, g.offset_dims);
  visit.integers("collapsed_slice_dims", 2, g.collapsed_slice_dims);
  visit.integers("start_index_map", 3, g.start_index_map);
  visit.integers("operand_batching_dims", 5, g.operand_batching_dims);
  visit.integers("start_indices_batching_dims", 6, g.start_indices_batching_dims);
  visit.integer("index_vector_dim", 4, g.index_vector_dim, 0);
}

template <typename A, typename Visitor>
void visit_scatter(A& s, Visitor& visit) {
  visit.integers("update_window_dims", 1, s.update_window_dims);
  visit.integers("inserted_window_dims", 2, s.inserted_window_dims);
  visit.integers("scatter_dims_to_operand_dims", 3, s.scatter_dims_to_operand_dims);
  visit.integers("input_batching_dims", 5, s.input_batching_dims);
  visit.integers("scatter_indices_batching_dims", 6, s.scatter_indices_batching_dims);
  visit.integer("index_vector_dim", 4, s.index_vector_dim, 0);
}

/// The members that many instructions have.
template <typename A, typename Visitor>
void visit_common(A& a, Opcode opcode, Visitor& visit) {
  visit.integer("index", 13, a.tuple_index, 0);
  visit.integers(opcode == Opcode::kIota ? "iota_dimension" : "dimensions", 14, a.dimensions);
  visit.integer("feature_group_count", 50, a.feature_group_count, 1);
  visit.integer("batch_group_count", 58, a.batch_group_count, 1);
  visit.word("direction", 63, a.comparison_direction);
  visit.word("type", 72, a.comparison_type);
}

/// The members of RareAttributes with plain values.
template <typename R, typename Visitor>
void visit_rare(R& r, Opcode opcode, Visitor& visit) {
  visit.word("kind", 11, r.fusion_kind);
  visit.integer("exponent_bits", 18, r.exponent_bits, 0);
  visit.integer("mantissa_bits", 19, r.mantissa_bits, 0);
  visit.integers("dynamic_slice_sizes", 20, r.dynamic_slice_sizes);
  visit.quoted("outfeed_config", 22, r.outfeed_config);
  visit.enumeration("distribution", 23, r.distribution, kDistributions);
  visit.real("epsilon", 24, r.epsilon);
  visit.integer("feature_index", 25, r.feature_index, 0);
  visit.integer("channel_id", 26, r.channel_id, 0);
  visit.quoted("infeed_config", 27, r.infeed_config);
  visit.quoted("custom_call_target", 28, r.custom_call_target);
  visit.enumeration("fft_type", 31, r.fft_type, kFftTypes);
  visit.integers("fft_length", 32, r.fft_length);
  visit.boolean("use_global_device_ids", 71, r.use_global_device_ids);
  visit.boolean("is_host_transfer", 47, r.is_host_transfer);
  visit.boolean("is_stable", 60, r.is_stable);
  visit.boolean("constrain_layout", 56, r.constrain_layout);
  visit.boolean("custom_call_has_side_effect", 65, r.custom_call_has_side_effect);
  visit.enumeration("schedule", 76, r.custom_call_schedule, kSchedules);
  visit.enumeration("api_version", 77, r.api_version, kApiVersions);
  visit.integer("delta", 66, r.delta, 0);
  visit.boolean("indices_are_sorted", 67, r.indices_are_sorted);
  visit.boolean("unique_indices", 69, r.unique_indices);
  if (opcode == Opcode::kRngBitGenerator) {
    visit.enumeration("algorithm", 70, r.rng_algorithm, kRngAlgorithms);
  }
  visit.enumeration("padding_type", 75, r.padding_type, kPaddingTypes);
  visit.quoted("async_execution_thread", 79, r.async_execution_thread);
  visit.integer("k", 81, r.k, 0);
  visit.boolean("largest", 85, r.largest);
  visit.boolean("is_composite", 89, r.is_composite);
}

/// Attributes that the text form always shows for an opcode, even at their default.
inline bool is_required(Opcode opcode, std::string_view name) {
  switch (opcode) {
    case Opcode::kGetTupleElement:
      return name == "index";
    case Opcode::kBroadcast:
    case Opcode::kConcatenate:
    case Opcode::kReduce:
    case Opcode::kReverse:
    case Opcode::kSort:
    case Opcode::kTranspose:
    case Opcode::kMap:
    case Opcode::kAllGather:
    case Opcode::kAllGatherStart:
    case Opcode::kReduceScatter:
    case Opcode::kGetDimensionSize:
    case Opcode::kSetDimensionSize:
      return name == "dimensions";
    case Opcode::kIota:
      return name == "iota_dimension";
    case Opcode::kGather:
      return name == "offset_dims" || name == "collapsed_slice_dims" ||
             name == "start_index_map" || name == "index_vector_dim";
    case Opcode::kScatter:
      return name == "update_window_dims" || name == "inserted_window_dims" ||
             name == "scatter_dims_to_operand_dims" || name == "index_vector_dim";
    case Opcode::kBatchNormGrad:
    case Opcode::kBatchNormInference:
    case Opcode::kBatchNormTraining:
      return name == "epsilon" || name == "feature_index";
    case Opcode::kDynamicSlice:
      return name == "dynamic_slice_sizes";
    case Opcode::kReducePrecision:
      return name == "exponent_bits" || name == "mantissa_bits";
    case Opcode::kRngGetAndUpdateState:
      return name == "delta";
    case Opcode::kTopK:
      return name == "k" || name == "largest";
    default:
      return false;
  }
}

/// What an absent attribute means for opcodes whose zero value says something (FFT, rng_default):
/// proto and text readers both fill it in, so that absent and zero are one.
inline void fill_defaults(Opcode opcode, Attributes& attributes,
                          std::string_view absent_api_version) {
  if (opcode == Opcode::kCustomCall && attributes.rare.ensure().api_version.empty()) {
    attributes.rare->api_version = absent_api_version;
  }
  if (opcode == Opcode::kFft && attributes.rare.ensure().fft_type.empty()) {
    attributes.rare->fft_type = "FFT";
  }
  if (opcode == Opcode::kRngBitGenerator && attributes.rare.ensure().rng_algorithm.empty()) {
    attributes.rare->rng_algorithm = "rng_default";
  }
  if (opcode == Opcode::kDot || opcode == Opcode::kRaggedDot) attributes.dot.ensure();
  if (opcode == Opcode::kGather) attributes.gather.ensure();
  if (opcode == Opcode::kScatter) attributes.scatter.ensure();
}

}  // namespace lagom::hlo::detail
