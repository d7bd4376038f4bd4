// handle_tensor: a resource handle as a scalar tensor, the way in which resources travel along edges.
#pragma once

#include "tensor/resource_handle.h"
#include "tensor/tensor.h"

namespace thalweg {

inline Tensor handle_tensor(ResourceHandle handle) {
  Tensor out(DType::resource, Shape{});
  *out.flat<ResourceHandle>() = std::move(handle);
  return out;
}

}  // namespace thalweg
