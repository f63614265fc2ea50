#pragma once

#include "lagom/rewrite/rule.h"

// The rules by name, one source per family. `all_rules` lists them.
namespace lagom::rewrite {

/// "depthwise_taps": a depthwise convolution (one input feature per group, any number of output
/// features per group) as the sum, over the taps of its kernel, of a shifted slice of the padded
/// input times a broadcast weight. 1 to 64 taps that meet any input. Floating point; types narrower
/// than f32 are computed in f32. Any labels, stride, padding, dilations, reversal.
const Rule& depthwise_taps_rule();

/// "depthwise_weight_gradient": the gradient by a depthwise kernel, which is a convolution with
/// batch_group_count = its input batch, as one product and sum of the overlapping parts for each of
/// up to 64 output positions.
const Rule& depthwise_weight_gradient_rule();

/// "im2col_dot": a convolution without groups as columns [positions, taps * features] times the
/// kernel [taps * features, output features]; the kernel is reshaped in place when its labels are
/// spatial, input, output (01io) and transposed otherwise.
const Rule& im2col_dot_rule();

/// "im2col_dot_weights_first": the same with the kernel [output features, features * taps] on the
/// left and the columns [features * taps, positions] on the right; for kernels labelled oi01, which
/// keep their place in memory.
const Rule& im2col_dot_weights_first_rule();

/// "position_dots": a convolution without groups as one dot per output position, over the parts of
/// input and kernel that meet there. For up to 64 positions: weight gradients, whose positions are
/// the kernel's elements (a 1x1 kernel's is a single dot).
const Rule& position_dots_rule();

/// "tap_dots": a convolution without groups as one dot per tap of the kernel, added up. 2 to 64
/// taps.
const Rule& tap_dots_rule();

/// "phases": a convolution whose input has holes (lhs_dilate), as one convolution without holes for
/// each residue of the output position, interleaved. Stride 1 and no window dilation in those
/// dimensions; up to 16 phases. Groups are kept.
const Rule& phases_rule();

/// "phases_im2col": the same with every phase as im2col_dot where it can be. No groups.
const Rule& phases_im2col_rule();

/// "col2im": a convolution whose input has holes, without groups, stride 1, as one dot of the input
/// with all the kernel, whose parts are then placed by padding and added. Up to 64 taps.
const Rule& col2im_rule();

/// "trimmed_convolution": a convolution without the outer taps of its kernel that meet only padding
/// or holes: a 3x3 kernel on a 1x1 map becomes a 1x1 kernel.
const Rule& trimmed_convolution_rule();

/// "padded_convolution": a convolution of the input with its padding and holes written out, behind
/// a barrier so that the compiler does not fold them back; outer taps that meet nothing are
/// dropped. For kernels larger than their input. At most 256 MiB of padded input.
const Rule& padded_convolution_rule();

/// "float32_convolution": a convolution of operands narrower than f32, computed in f32.
const Rule& float32_convolution_rule();

/// "grouped_taps": a grouped convolution of several input features per group as depthwise_taps: a
/// product for every tap and input feature of a group, 1 to 64 together.
const Rule& grouped_taps_rule();

/// "pool_slices": a pooling window (maximum, minimum or sum of one floating array, starting from
/// the value that changes nothing) as that operation over shifted slices. 2 to 64 window elements.
const Rule& pool_slices_rule();

/// "pool_separable": the same one dimension after the other, for windows of two dimensions or more
/// whose sizes add up to 64 at most.
const Rule& pool_separable_rule();

/// "max_pool_gradient_slices": select-and-scatter with >= and + as, for every window element, the
/// gradient where that element is the first that equals the window's maximum, placed by padding and
/// added. 2 to 64 window elements. Differs from the original where a window holds a NaN, or nothing
/// but -inf beside padding. (XLA's CPU backend does not always pick the first of equals itself where
/// windows have padding.)
const Rule& max_pool_gradient_slices_rule();

/// "row_dots": a dot without batch dimensions whose smaller side has 1 to 16 rows, as one
/// matrix-vector dot for each.
const Rule& row_dots_rule();

/// "swapped_dot": a dot with its sides the other way round, transposed back.
const Rule& swapped_dot_rule();

/// "ordered_dot": a dot whose operands are first brought into the order [batch, rows, depth] and
/// [batch, depth, columns], behind a barrier so that the compiler does not fold that back.
const Rule& ordered_dot_rule();

/// "swapped_ordered_dot": both of these.
const Rule& swapped_ordered_dot_rule();

/// "outer_product": a dot of depth 1 to 4 as broadcasts, multiplied and added.
const Rule& outer_product_rule();

/// "float32_dot": a dot of operands narrower than f32, computed in f32.
const Rule& float32_dot_rule();

/// "merged_dots": dots of one computation that read the same left side (or right side) in the same
/// way, as one dot with their other sides concatenated, whose result is sliced. A group: the first
/// dot leads those behind it whose other side stands in front of it.
const Rule& merged_dots_rule();

/// "ones_dot": a floating-point sum over some dimensions as a dot with ones; types narrower than
/// f32 in f32.
const Rule& ones_dot_rule();

/// "arg_select": the largest or smallest value and its index along one dimension, written as one
/// reduction of pairs by a comparator (the first of equals, NaN before any number), as two
/// reductions of one array each: the value, then the least index that holds it. Exact, NaNs
/// included. Emits a tuple. A pattern.
const Rule& arg_select_rule();

/// "unmasked_gather": a gather whose results are replaced where an index is out of bounds, without
/// that choice, where the indices are proven to be valid from how they are made (RangeAnalysis).
/// Exact. A pattern.
const Rule& unmasked_gather_rule();

/// "bf16_dot": an f32 dot with its operands rounded to bf16, summed in f32. Relaxes. Leaves dots
/// alone that ask for a precision or an algorithm.
const Rule& bf16_dot_rule();

/// "bf16_convolution": the same for convolutions.
const Rule& bf16_convolution_rule();

/// "normalization_affine": three or more additions, subtractions, multiplications and divisions of
/// an array by values that vary along some dimensions only, as one multiplication and one addition
/// by vectors worked out first. Relaxes: differences of near-equal numbers lose digits. A pattern.
const Rule& normalization_affine_rule();

/// "folded_scale": such operations on the output features of a convolution or dot, with the factor
/// moved into its weights. Relaxes. A pattern.
const Rule& folded_scale_rule();

}  // namespace lagom::rewrite
