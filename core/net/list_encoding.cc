// Lists of tensors in the descriptors of frames.
#include "net/list_encoding.h"

#include <limits>

#include "resource/tensor_list.h"

namespace thalweg::net {
namespace {

enum : uint64_t { kNothing, kSomething };

bool is_something(Parser& parser) {
  const auto mark = parser.take<uint64_t>();
  require(mark <= kSomething, "a frame has the unknown mark ", mark, " in a list of tensors");
  return mark == kSomething;
}

// Memory is taken for at most as many things as the rest of the frame has room for.
void check_count(const Parser& parser, uint64_t count, size_t least) {
  require(count <= parser.rest().size() / least, "a frame announces ", count, " elements of a list and is shorter");
}

void put_element(Writer& writer, const Tensor& tensor, OutgoingElements& elements) {
  const bool plain = is_plain(tensor.dtype());
  require(plain || tensor.dtype() == DType::variant || tensor.dtype() == DType::string, "a list of elements of type ",
          tensor.dtype(), " belongs to its task and cannot be sent to another one");
  require(!tensor.on_device(), "a list of elements in a device's memory cannot be sent to another task");
  const auto [place, loan] =
      plain ? elements.depart_from_list(tensor) : OutgoingElements::Departure{Place::in_descriptor, {}};
  writer.put(static_cast<uint8_t>(tensor.rank())).put(place);
  for (int64_t dim : tensor.shape()) writer.put(dim);
  if (tensor.dtype() == DType::variant)
    put_variants(writer, tensor, elements);
  else if (tensor.dtype() == DType::string)
    for (int64_t i = 0; i < tensor.num_elements(); ++i) writer.text(tensor.strings()[i]);
  else if (place == Place::shared_memory)
    writer.put(loan.number).put(loan.offset);
  else if (place == Place::in_descriptor)
    writer.bytes({static_cast<const char*>(tensor.raw()), tensor.bytes()});
}

Tensor take_all(Parser& parser, Shape shape, IncomingElements& elements, int depth);

// Sets an element of a list, or sees to it that it will be set.
void take_element(Parser& parser, const std::shared_ptr<TensorList>& list, size_t index, IncomingElements& elements,
                  int depth) {
  const DType dtype = list->dtype();
  const int rank = parser.take<uint8_t>();
  const auto place = static_cast<Place>(parser.take<uint8_t>());
  require(rank <= Shape::kMaxRank, "a frame has a list with a tensor of rank ", rank);
  require(place == Place::in_descriptor || (is_plain(dtype) && place <= Place::shared_memory),
          "a frame has a list of type ", dtype, " in the wrong place ", static_cast<int>(place));
  Shape shape = take_shape(parser, rank);
  if (place == Place::in_frame) return elements.expect(dtype, std::move(shape), list, index);
  if (place == Place::shared_memory) {
    const auto number = parser.take<uint64_t>();
    const auto offset = parser.take<uint64_t>();
    return elements.copy(dtype, std::move(shape), number, offset, list, index);
  }
  const auto at = static_cast<int64_t>(index);
  if (dtype == DType::variant) return list->set(at, take_all(parser, std::move(shape), elements, depth + 1));
  const bool text = dtype == DType::string;
  check_count(parser, static_cast<uint64_t>(shape.num_elements()), text ? sizeof(uint32_t) : size_of(dtype));
  Tensor out(dtype, std::move(shape));
  if (text)
    for (int64_t i = 0; i < out.num_elements(); ++i) out.strings()[i] = parser.text();
  else if (out.bytes() > 0)
    std::memcpy(out.raw(), parser.bytes(out.bytes()).data(), out.bytes());
  list->set(at, std::move(out));
}

void put_list(Writer& writer, const TensorList& list, OutgoingElements& elements) {
  const PartialShape& shape = list.element_shape();
  writer.put(list.dtype()).put(uint8_t{shape.known_rank}).put(static_cast<uint8_t>(shape.dims.size()));
  for (int64_t dim : shape.dims) writer.put(dim);
  writer.put(list.length()).put(list.most()).put(static_cast<uint64_t>(list.stored().size()));
  for (const Tensor& value : list.stored()) {
    writer.put(value.defined() ? kSomething : kNothing);
    if (value.defined()) put_element(writer, value, elements);
  }
}

std::shared_ptr<TensorList> take_list(Parser& parser, IncomingElements& elements, int depth) {
  const auto type = parser.take<uint8_t>();
  const DType dtype = DType(type);
  require(type <= static_cast<uint8_t>(DType::uint64) && size_of(dtype) > 0 && dtype != DType::resource,
          "a frame has a list of elements of the type ", int{type}, ", which cannot be sent");
  PartialShape shape;
  shape.known_rank = parser.take<uint8_t>() != 0;
  const int rank = parser.take<uint8_t>();
  require(rank <= (shape.known_rank ? Shape::kMaxRank : 0), "a frame has a list of elements of rank ", rank);
  for (int i = 0; i < rank; ++i) {
    shape.dims.push_back(parser.take<int64_t>());
    require(shape.dims.back() >= -1, "a frame has a list of elements of the size ", shape.dims.back());
  }
  const auto length = parser.take<int64_t>();
  const auto most = parser.take<int64_t>();
  const auto stored = parser.take<uint64_t>();
  require(length >= 0 && length <= std::numeric_limits<int32_t>::max() && stored <= static_cast<uint64_t>(length) &&
              stored <= static_cast<uint64_t>(TensorList::kMostElements),
          "a frame has a list of ", length, " elements, of which ", stored, " are set");
  check_count(parser, stored, sizeof(uint64_t));
  auto list = std::make_shared<TensorList>(dtype, std::move(shape), length, most);
  for (uint64_t i = 0; i < stored; ++i)
    if (is_something(parser)) take_element(parser, list, i, elements, depth);
  return list;
}

Tensor take_all(Parser& parser, Shape shape, IncomingElements& elements, int depth) {
  require(depth <= TensorList::kDeepest, "a frame has lists that are nested more than ", TensorList::kDeepest, " deep");
  check_count(parser, static_cast<uint64_t>(shape.num_elements()), sizeof(uint64_t));
  Tensor out(DType::variant, std::move(shape));
  for (int64_t i = 0; i < out.num_elements(); ++i)
    if (is_something(parser)) out.flat<ResourceHandle>()[i].resource = take_list(parser, elements, depth);
  return out;
}

}  // namespace

Shape take_shape(Parser& parser, int rank) {
  int64_t dims[Shape::kMaxRank];
  for (int i = 0; i < rank; ++i) dims[i] = parser.take<int64_t>();
  return Shape(std::span<const int64_t>(dims, static_cast<size_t>(rank)));
}

void put_variants(Writer& writer, const Tensor& variants, OutgoingElements& elements) {
  for (int64_t i = 0; i < variants.num_elements(); ++i) {
    Resource* held = variants.flat<ResourceHandle>()[i].resource.get();
    auto* list = dynamic_cast<TensorList*>(held);
    if (held != nullptr && list == nullptr)
      fail(Code::unimplemented, "a variant that holds ", held->kind(),
           " belongs to its task and cannot be sent to another one");
    writer.put(list != nullptr ? kSomething : kNothing);
    if (list != nullptr) put_list(writer, *list, elements);
  }
}

Tensor take_variants(Parser& parser, Shape shape, IncomingElements& elements) {
  return take_all(parser, std::move(shape), elements, 1);
}

}  // namespace thalweg::net
