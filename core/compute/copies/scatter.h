// Scattering rows: the functions shared by the scatter ops on tensors and on variables.
//
// First the indices become offsets (`row_offsets`, `tuple_offsets` of gather.h, which check them), then `combine_rows`
// merges one row of updates into the target at each offset, in the order of the offsets: of several assignments to one
// row the last one wins, and sums of duplicates are the same on every run and for any number of threads.
#pragma once

#include <span>

#include "compute/copies/gather.h"

namespace thalweg {

enum class Combine { assign, add, sub, mul, div, min, max };

// `updates` holds one row of `row_size` elements per offset, or a single element for all of them. The caller may write
// `target`. Throws for element types that the operation does not know, and for integer division by zero.
void combine_rows(Combine how, Tensor& target, std::span<const int64_t> offsets, const Tensor& updates,
                  int64_t row_size);

// target[indices[i...], ...] op= updates[i..., ...]: the whole of ScatterUpdate, ScatterAdd, ... `updates` may be a
// scalar.
void scatter_rows(Combine how, Tensor& target, const Tensor& indices, const Tensor& updates);

// The same with index tuples: ScatterNdUpdate, ScatterNdAdd, ...
void scatter_nd(Combine how, Tensor& target, const Tensor& indices, const Tensor& updates);

}  // namespace thalweg
