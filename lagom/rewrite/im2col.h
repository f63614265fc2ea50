#pragma once

#include "lagom/rewrite/convolution_view.h"

namespace lagom::rewrite {

/// Whether the convolution has no groups and 1 to 64 taps that meet input, and its columns take at
/// most 256 MiB.
bool can_be_columns(const ConvolutionView& view);

/// The convolution as columns times kernel, or kernel times columns; see the rules of these names.
/// The view's instruction need not be in a computation: only its operands are used.
hlo::Instruction* emit_im2col_dot(hlo::Builder& builder, const ConvolutionView& view);
hlo::Instruction* emit_im2col_dot_weights_first(hlo::Builder& builder, const ConvolutionView& view);

}  // namespace lagom::rewrite
