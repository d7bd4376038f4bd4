// BoxedTensor: a tensor inside a variant. Sparse values travel through datasets as rows of three of them: indices,
// values and shape, so that they can be batched although they differ in size.
#pragma once

#include "tensor/resource_handle.h"
#include "tensor/tensor.h"

namespace thalweg {

class BoxedTensor : public Resource {
 public:
  explicit BoxedTensor(Tensor value) : value_(std::move(value)) {}
  const char* kind() const override { return "a tensor"; }
  const Tensor& value() const { return value_; }

 private:
  const Tensor value_;
};

}  // namespace thalweg
