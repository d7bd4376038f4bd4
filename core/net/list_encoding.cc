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

void put_element(Writer& writer, const Tensor& tensor) {
  writer.put(static_cast<uint8_t>(tensor.rank()));
  for (int64_t dim : tensor.shape()) writer.put(dim);
  if (tensor.dtype() == DType::variant) return put_variants(writer, tensor);
  if (tensor.dtype() == DType::string) {
    for (int64_t i = 0; i < tensor.num_elements(); ++i) writer.text(tensor.strings()[i]);
    return;
  }
  require(is_plain(tensor.dtype()) && !tensor.on_device(), "a list of elements of type ", tensor.dtype(),
          " belongs to its task and cannot be sent to another one");
  writer.bytes({static_cast<const char*>(tensor.raw()), tensor.bytes()});
}

Tensor take_all(Parser& parser, Shape shape, int depth);

Tensor take_element(Parser& parser, DType dtype, int depth) {
  const int rank = parser.take<uint8_t>();
  require(rank <= Shape::kMaxRank, "a frame has a list with a tensor of rank ", rank);
  Shape shape = take_shape(parser, rank);
  if (dtype == DType::variant) return take_all(parser, std::move(shape), depth + 1);
  const bool text = dtype == DType::string;
  check_count(parser, static_cast<uint64_t>(shape.num_elements()), text ? sizeof(uint32_t) : size_of(dtype));
  Tensor out(dtype, std::move(shape));
  if (text)
    for (int64_t i = 0; i < out.num_elements(); ++i) out.strings()[i] = parser.text();
  else if (out.bytes() > 0)
    std::memcpy(out.raw(), parser.bytes(out.bytes()).data(), out.bytes());
  return out;
}

void put_list(Writer& writer, const TensorList& list) {
  const PartialShape& shape = list.element_shape();
  writer.put(list.dtype()).put(uint8_t{shape.known_rank}).put(static_cast<uint8_t>(shape.dims.size()));
  for (int64_t dim : shape.dims) writer.put(dim);
  writer.put(list.length()).put(list.most()).put(static_cast<uint64_t>(list.stored().size()));
  for (const Tensor& value : list.stored()) {
    writer.put(value.defined() ? kSomething : kNothing);
    if (value.defined()) put_element(writer, value);
  }
}

std::shared_ptr<TensorList> take_list(Parser& parser, int depth) {
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
  require(length >= 0 && length <= std::numeric_limits<int32_t>::max() && stored <= static_cast<uint64_t>(length),
          "a frame has a list of ", length, " elements, of which ", stored, " are set");
  check_count(parser, stored, sizeof(uint64_t));
  auto list = std::make_shared<TensorList>(dtype, std::move(shape), length, most);
  for (uint64_t i = 0; i < stored; ++i)
    if (is_something(parser)) list->set(static_cast<int64_t>(i), take_element(parser, dtype, depth));
  return list;
}

Tensor take_all(Parser& parser, Shape shape, int depth) {
  require(depth <= TensorList::kDeepest, "a frame has lists that are nested more than ", TensorList::kDeepest, " deep");
  check_count(parser, static_cast<uint64_t>(shape.num_elements()), sizeof(uint64_t));
  Tensor out(DType::variant, std::move(shape));
  for (int64_t i = 0; i < out.num_elements(); ++i)
    if (is_something(parser)) out.flat<ResourceHandle>()[i].resource = take_list(parser, depth);
  return out;
}

}  // namespace

Shape take_shape(Parser& parser, int rank) {
  int64_t dims[Shape::kMaxRank];
  for (int i = 0; i < rank; ++i) dims[i] = parser.take<int64_t>();
  return Shape(std::span<const int64_t>(dims, static_cast<size_t>(rank)));
}

void put_variants(Writer& writer, const Tensor& variants) {
  for (int64_t i = 0; i < variants.num_elements(); ++i) {
    Resource* held = variants.flat<ResourceHandle>()[i].resource.get();
    auto* list = dynamic_cast<TensorList*>(held);
    if (held != nullptr && list == nullptr)
      fail(Code::unimplemented, "a variant that holds ", held->kind(),
           " belongs to its task and cannot be sent to another one");
    writer.put(list != nullptr ? kSomething : kNothing);
    if (list != nullptr) put_list(writer, *list);
  }
}

Tensor take_variants(Parser& parser, Shape shape) { return take_all(parser, std::move(shape), 1); }

}  // namespace thalweg::net
