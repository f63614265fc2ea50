#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lagom/hlo/shape.h"
#include "lagom/util/box.h"

namespace lagom::hlo {

/// One dimension of a window that slides over a base area (convolution, reduce-window).
struct WindowDim {
  int64_t size = 1;
  int64_t stride = 1;
  int64_t pad_low = 0;   ///< Negative: elements cut off.
  int64_t pad_high = 0;
  int64_t window_dilation = 1;  ///< rhs_dilate in text: holes between kernel elements.
  int64_t base_dilation = 1;    ///< lhs_dilate in text: holes between base elements.
  bool reversal = false;        ///< rhs_reversal in text: the kernel is flipped.
  friend bool operator==(const WindowDim&, const WindowDim&) = default;
};
using Window = std::vector<WindowDim>;

/// Which dimension of each array of a convolution plays which part (dim_labels in text, for
/// instance b01f_01io->b01f).
struct ConvolutionDims {
  int64_t input_batch = 0, input_feature = 0;
  Dims input_spatial;
  int64_t kernel_input_feature = 0, kernel_output_feature = 0;
  Dims kernel_spatial;
  int64_t output_batch = 0, output_feature = 0;
  Dims output_spatial;
  friend bool operator==(const ConvolutionDims&, const ConvolutionDims&) = default;
};

struct DotDims {
  Dims lhs_contracting, rhs_contracting, lhs_batch, rhs_batch;
  Dims lhs_ragged, rhs_group;  ///< ragged-dot only.
  friend bool operator==(const DotDims&, const DotDims&) = default;
};

struct GatherDims {
  Dims offset_dims, collapsed_slice_dims, start_index_map;
  int64_t index_vector_dim = 0;
  Dims operand_batching_dims, start_indices_batching_dims;
  Dims slice_sizes;
  friend bool operator==(const GatherDims&, const GatherDims&) = default;
};

struct ScatterDims {
  Dims update_window_dims, inserted_window_dims, scatter_dims_to_operand_dims;
  int64_t index_vector_dim = 0;
  Dims input_batching_dims, scatter_indices_batching_dims;
  friend bool operator==(const ScatterDims&, const ScatterDims&) = default;
};

struct SliceDim {
  int64_t start = 0, limit = 0, stride = 1;
  friend bool operator==(const SliceDim&, const SliceDim&) = default;
};

struct PadDim {
  int64_t low = 0, high = 0, interior = 0;  ///< low and high may be negative.
  friend bool operator==(const PadDim&, const PadDim&) = default;
};

/// Devices taking part in a collective: explicit groups, or the compact iota form
/// `[groups,size]<=[reshape]T(perm)`.
struct ReplicaGroups {
  std::vector<Dims> groups;
  Dims iota_shape, iota_reshape, iota_perm;  ///< iota_shape = {groups, devices per group}.
  friend bool operator==(const ReplicaGroups&, const ReplicaGroups&) = default;
};

/// How a value is divided over devices.
struct Sharding {
  enum class Type { kReplicated, kMaximal, kTuple, kOther, kManual, kUnknown, kUnreduced };
  Type type = Type::kReplicated;
  Dims tile_dims;      ///< devices=[2,1,...].
  Dims devices;        ///< Explicit device list; or the iota form below. Maximal: one device.
  Dims iota_reshape, iota_perm;
  bool replicate_on_last_dim = false;
  std::vector<Type> last_tile_dims;
  std::vector<Sharding> tuple;
  std::optional<int64_t> shard_group;
  bool shard_like = false;  ///< shard_like rather than shard_as.
  std::string metadata_text;  ///< Text of metadata={...} inside a sharding, kept for printing.
  std::string unknown_fields;  ///< Wire bytes of fields not decoded here.
  friend bool operator==(const Sharding&, const Sharding&) = default;
};

/// Where an instruction comes from in the user's program.
struct Metadata {
  std::string op_type, op_name, source_file;
  int64_t source_line = 0, source_end_line = 0, source_column = 0, source_end_column = 0;
  int64_t stack_frame_id = 0;
  std::string deduplicated_name, scheduling_name;
  int64_t size_of_generated_code_in_bytes = 0, size_of_memory_working_set_in_bytes = 0;
  std::string other_text;      ///< Fields of the text form not decoded here, as written.
  std::string unknown_fields;  ///< Wire bytes of fields not decoded here.
  friend bool operator==(const Metadata&, const Metadata&) = default;
};

/// An attribute kept as it was written: `name=text`.
struct RawAttribute {
  std::string name, text;
  friend bool operator==(const RawAttribute&, const RawAttribute&) = default;
};

using StringMap = std::vector<std::pair<std::string, std::string>>;  ///< Sorted by key.

struct OutputAlias {
  Dims output_index;
  int64_t operand = 0;
  Dims operand_index;
  friend bool operator==(const OutputAlias&, const OutputAlias&) = default;
};

/// Attributes that few instructions have.
struct RareAttributes {
  std::string fusion_kind;           ///< kLoop, kInput, kOutput, kCustom.
  int64_t exponent_bits = 0, mantissa_bits = 0;
  Dims dynamic_slice_sizes;
  std::string outfeed_config, infeed_config;
  std::string distribution;          ///< rng_uniform, rng_normal.
  double epsilon = 0;                ///< float in the proto.
  int64_t feature_index = 0;
  int64_t channel_id = 0;
  std::string custom_call_target;
  Box<Shape> outfeed_shape;
  std::string fft_type;              ///< FFT, IFFT, RFFT, IRFFT.
  Dims fft_length;
  std::string backend_config;
  ReplicaGroups replica_groups;
  bool use_global_device_ids = false;
  bool is_host_transfer = false;
  bool is_stable = false;
  std::vector<std::string> operand_precision;  ///< default, high, highest, packed_nibble; empty = all default.
  std::string dot_algorithm;                   ///< Empty = unset.
  std::vector<Dims> source_target_pairs;       ///< Pairs {source, target}.
  bool constrain_layout = false;
  std::vector<Shape> operand_layouts;          ///< operand_layout_constraints.
  bool left_side = false, lower = false, unit_diagonal = false;  ///< triangular-solve, cholesky.
  std::string transpose_a;                     ///< NO_TRANSPOSE, TRANSPOSE, ADJOINT.
  std::vector<bool> parameter_replication;
  bool custom_call_has_side_effect = false;
  std::vector<OutputAlias> output_aliases;
  std::string custom_call_schedule;            ///< SCHEDULE_LATEST...; empty = none.
  std::string api_version;                     ///< API_VERSION_...; set for custom calls only.
  int64_t delta = 0;
  bool indices_are_sorted = false, unique_indices = false;
  std::string rng_algorithm;                   ///< rng_default, rng_three_fry, rng_philox.
  std::string padding_type;                    ///< PADDING_VALID, PADDING_SAME; empty = none.
  std::string async_execution_thread;
  std::optional<int64_t> cross_program_prefetch_index;
  int64_t k = 0;
  bool largest = false;
  bool is_composite = false;
  StringMap frontend_attributes;
  Box<Sharding> sharding;
  std::vector<RawAttribute> raw;   ///< Attributes of the text form not decoded here.
  std::string unknown_fields;      ///< Wire bytes of instruction fields not decoded here.
  friend bool operator==(const RareAttributes&, const RareAttributes&) = default;
};

/// All that an instruction carries besides opcode, shape, operands and called computations.
/// Which members matter depends on the opcode; the others keep their defaults.
struct Attributes {
  int64_t parameter_number = 0;   ///< parameter
  int64_t tuple_index = 0;        ///< get-tuple-element
  int64_t feature_group_count = 1, batch_group_count = 1;  ///< convolution
  Dims dimensions;                ///< broadcast, reduce, transpose, concatenate, iota (one), ...
  Window window;                  ///< convolution, reduce-window, select-and-scatter
  Box<ConvolutionDims> convolution;
  Box<DotDims> dot;
  Box<GatherDims> gather;
  Box<ScatterDims> scatter;
  std::vector<SliceDim> slice;
  std::vector<PadDim> padding;
  std::string comparison_direction;  ///< EQ NE GE GT LE LT.
  std::string comparison_type;       ///< TOTALORDER...; empty = the element type's default.
  Box<RareAttributes> rare;

  friend bool operator==(const Attributes&, const Attributes&) = default;
};

}  // namespace lagom::hlo
