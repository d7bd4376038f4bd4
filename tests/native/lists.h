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

inline const TensorList& list_of(const Tensor& variants, int64_t i = 0) {
  return dynamic_cast<TensorList&>(*variants.flat<ResourceHandle>()[i].resource);
}

// A list of numbers, of which every second element is large enough to travel outside of the descriptors.
inline Tensor large_lists(int64_t length = 5) {
  auto list = std::make_shared<TensorList>(DType::int32, PartialShape{true, {-1}});
  for (int64_t i = 0; i < length; ++i) list->push(counting(i % 2 != 0 ? i + 1 : (64 << 10) + i));
  Tensor out(DType::variant, Shape{});
  out.flat<ResourceHandle>()->resource = std::move(list);
  return out;
}

inline std::string bytes_of(const FrameHeader& header, const std::string& head, const std::string& elements = {}) {
  return std::string(reinterpret_cast<const char*>(&header), sizeof header) + head + elements;
}

// The beginning of a list of float32 vectors of which `stored` are announced, as a variant in a frame.
inline std::string list_head(int64_t stored) {
  std::string bytes;
  Writer(bytes).put(DType::variant).put(uint8_t{0}).put(Place::in_descriptor).put(uint8_t{0}).put(uint64_t{1});
  Writer(bytes).put(DType::float32).put(uint8_t{1}).put(uint8_t{1}).put(int64_t{-1});
  Writer(bytes).put(stored).put(int64_t{-1}).put(static_cast<uint64_t>(stored));
  return bytes;
}

// An element of it that is a vector of so many elements.
inline std::string element_head(Place place, int64_t elements) {
  std::string bytes;
  Writer(bytes).put(uint64_t{1}).put(uint8_t{1}).put(place).put(elements);
  return bytes;
}

inline std::string lent_element(int64_t elements, uint64_t offset, uint64_t number = 1) {
  std::string bytes = element_head(Place::shared_memory, elements);
  Writer(bytes).put(number).put(offset);
  return bytes;
}

// A frame of one list, whose descriptor and elements are given.
inline std::string list_frame(const std::string& head, const std::string& elements = {}) {
  const FrameHeader header{
      static_cast<uint32_t>(head.size()), static_cast<uint8_t>(FrameKind::tensor), 0, 1, elements.size(), 1, 2};
  return bytes_of(header, head, elements);
}

}  // namespace native_tests
