// Lists of tensors, for native tests of the network.
#pragma once

#include "resource/tensor_list.h"
#include "sockets.h"

namespace native_tests {

// Two variants: a list of a list of numbers, most of them unset, and of a list of strings; and nothing.
inline Tensor nested_lists() {
  auto variant = [](std::shared_ptr<TensorList> list) {
    Tensor out(DType::variant, Shape{});
    out.flat<ResourceHandle>()->resource = std::move(list);
    return out;
  };
  auto numbers = std::make_shared<TensorList>(DType::int32, PartialShape{true, {2, -1}}, 1000000, 2000000);
  numbers->set(1, counting(6, Shape{2, 3}));
  auto strings = std::make_shared<TensorList>(DType::string, PartialShape{});
  strings->push(Tensor::scalar<std::string>("text"));
  auto outer = std::make_shared<TensorList>(DType::variant, PartialShape{true, {}});
  outer->push(variant(numbers));
  outer->push(variant(strings));
  Tensor both(DType::variant, Shape{2});
  both.flat<ResourceHandle>()[0].resource = outer;
  return both;
}

}  // namespace native_tests
