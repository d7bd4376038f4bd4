// Lists of tensors as kernels see them: in variants, with element shapes as tensors, and changed in place if the
// kernel holds the only reference.
#pragma once

#include "kernel/kernel.h"
#include "resource/tensor_list.h"

namespace thalweg {

Tensor tensor_from_list(std::shared_ptr<TensorList> list);
// The list in a variant; null if the variant holds something else, or nothing.
TensorList* list_in(const ResourceHandle& variant);
// What a variant holds, for error messages.
const char* kind_of(const ResourceHandle& variant);

// Input `i`, a scalar that holds a list (of elements of type `dtype`).
const TensorList& list_input(Context& ctx, int i);
const TensorList& list_input(Context& ctx, int i, DType dtype);
// A tensor of lists that the caller may change: lists that other variants refer to as well are copied. All elements
// must hold lists.
Tensor own_lists(Tensor lists);
// Makes the list of input 0 the output 0, and returns it for changing.
TensorList& change_list(Context& ctx);

// Input `i`, an element shape: -1 if the rank is unknown, or a vector in which -1 is an unknown size.
PartialShape shape_input(Context& ctx, int i);
// Input `i`, a size or an index. TensorFlow takes any shape with one element for some of them.
int64_t number_input(Context& ctx, int i, const char* what);

// Fails if a list does not accept an element of this shape; `what` was tried.
void check_element(const TensorList& list, const Shape& shape, const char* what);

// The zeros that an unset element of a list reads as. `shape`, the list's merged with the node's, must be complete.
Tensor unset_element(const PartialShape& shape, DType dtype);

}  // namespace thalweg
