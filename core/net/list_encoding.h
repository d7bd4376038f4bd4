// Lists of tensors in the descriptors of frames: variants that hold lists, or nothing, can leave their task.
//
// A list is copied into the message, its elements one after the other, lists inside of lists likewise. Every variant
// and every element takes eight bytes at least, so that a lie about their number takes little memory. Other variants
// (datasets, optionals) belong to their task.
#pragma once

#include "net/encoding.h"
#include "tensor/tensor.h"

namespace thalweg::net {

// The dimensions of a tensor of this rank.
Shape take_shape(Parser& parser, int rank);

// Throws UnimplementedError for variants that hold something else than lists.
void put_variants(Writer& writer, const Tensor& variants);
Tensor take_variants(Parser& parser, Shape shape);

}  // namespace thalweg::net
