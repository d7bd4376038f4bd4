// Lists of tensors in the descriptors of frames: variants that hold lists, or nothing, can leave their task.
//
// Small elements of a list are copied into the message, one after the other, lists inside of lists likewise; large ones
// travel as the elements of tensors do (elements.h). Every variant and every element takes eight bytes at least, so
// that a lie about their number takes little memory. Other variants (datasets, optionals) belong to their task.
#pragma once

#include "net/elements.h"
#include "net/encoding.h"
#include "tensor/tensor.h"

namespace thalweg::net {

// The dimensions of a tensor of this rank.
Shape take_shape(Parser& parser, int rank);

// Throws UnimplementedError for variants that hold something else than lists.
void put_variants(Writer& writer, const Tensor& variants, OutgoingElements& elements);
// Large elements of the lists are set when `elements` are settled.
Tensor take_variants(Parser& parser, Shape shape, IncomingElements& elements);

}  // namespace thalweg::net
