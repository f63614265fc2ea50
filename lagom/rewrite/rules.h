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

/// "pool_slices": a pooling window (maximum, minimum or sum of one floating array, starting from
/// the value that changes nothing) as that operation over shifted slices. 2 to 64 window elements.
const Rule& pool_slices_rule();

/// "max_pool_gradient_slices": select-and-scatter with >= and + as, for every window element, the
/// gradient where that element is the first that equals the window's maximum, placed by padding and
/// added. 2 to 64 window elements. Differs from the original where a window holds a NaN, or nothing
/// but -inf beside padding.
const Rule& max_pool_gradient_slices_rule();

}  // namespace lagom::rewrite
