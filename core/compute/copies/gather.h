// Gathering rows: the functions shared by Gather, GatherV2, GatherNd and their relatives on variables.
//
// All functions check every index before they read, and report the first bad one with its position and its bounds.
#pragma once

#include "tensor/tensor.h"

namespace thalweg {

// Entries of `params` along `axis`, chosen by `indices`; the first `batch_dims` dimensions of both go together.
Tensor gather(const Tensor& params, const Tensor& indices, int64_t axis, int64_t batch_dims);

// Slices of `params`, each chosen by a tuple of indices: the last dimension of `indices`.
Tensor gather_nd(const Tensor& params, const Tensor& indices);

// Where in a tensor of `rows` rows, each of `row_size` elements, the rows named by `indices` begin.
std::vector<int64_t> row_offsets(const Tensor& indices, int64_t rows, int64_t row_size);

// Where in a tensor of this shape the slices named by the index tuples begin. `what` names the tensor in messages.
std::vector<int64_t> tuple_offsets(const Tensor& indices, const Shape& shape, const char* what);

// The position of element `flat` in a tensor, as "[1,2]"; nothing for a scalar.
std::string position_of(const Shape& shape, int64_t flat);

}  // namespace thalweg
