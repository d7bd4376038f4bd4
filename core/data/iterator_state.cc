// Numbers, strings and tensors as bytes.
#include "data/iterator_state.h"

#include "data/boxed_tensor.h"
#include "data/element_list.h"

namespace thalweg {
namespace {

constexpr int64_t kBoxed = 0, kKept = 1;
constexpr int kDeepest = 16;

[[noreturn]] void corrupt(const char* what) {
  fail(Code::data_loss, "the saved position of an iterator is damaged: ", what);
}

}  // namespace

void StateWriter::integer(int64_t value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof value); }

void StateWriter::text(std::string_view value) {
  integer(static_cast<int64_t>(value.size()));
  bytes_.append(value);
}

void StateWriter::tensor(const Tensor& value) {
  integer(static_cast<int64_t>(value.dtype()));
  integer(value.rank());
  for (int64_t size : value.shape()) integer(size);
  if (is_plain(value.dtype())) {
    bytes_.append(static_cast<const char*>(value.raw()), value.bytes());
  } else if (value.dtype() == DType::string) {
    for (int64_t i = 0; i < value.num_elements(); ++i) text(value.strings()[i]);
  } else {
    for (int64_t i = 0; i < value.num_elements(); ++i) variant(value.flat<ResourceHandle>()[i]);
  }
}

void StateWriter::variant(const ResourceHandle& value) {
  if (const auto* boxed = dynamic_cast<const BoxedTensor*>(value.resource.get())) {
    integer(kBoxed);
    tensor(boxed->value());
    return;
  }
  const auto* list = dynamic_cast<const ElementList*>(value.resource.get());
  if (list == nullptr)
    fail(Code::failed_precondition, "an element that holds ", value.resource ? value.resource->kind() : "nothing",
         " cannot be saved");
  integer(kKept);
  const Signature& signature = list->signature();
  integer(static_cast<int64_t>(signature.types.size()));
  for (size_t i = 0; i < signature.types.size(); ++i) {
    integer(static_cast<int64_t>(signature.types[i]));
    const PartialShape& shape = signature.shapes[i];
    integer(shape.known_rank ? static_cast<int64_t>(shape.dims.size()) : -1);
    for (int64_t size : shape.dims) integer(size);
  }
  integer(list->cardinality());
  for (const std::vector<Tensor>& each : list->elements()) element(each);
}

void StateWriter::element(const std::vector<Tensor>& value) {
  integer(static_cast<int64_t>(value.size()));
  for (const Tensor& component : value) tensor(component);
}

std::string_view StateReader::take(size_t size) {
  if (size > rest_.size()) corrupt("it ends too early");
  std::string_view taken = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return taken;
}

int64_t StateReader::integer() {
  int64_t value;
  std::memcpy(&value, take(sizeof value).data(), sizeof value);
  return value;
}

int64_t StateReader::count() {
  int64_t value = integer();
  if (value < 0 || static_cast<size_t>(value) > rest_.size()) corrupt("a length that cannot be");
  return value;
}

std::string StateReader::text() {
  auto size = static_cast<size_t>(count());
  return std::string(take(size));
}

void StateReader::tag(std::string_view kind) {
  std::string found = text();
  if (found != kind)
    fail(Code::invalid_argument, "the saved position belongs to another pipeline: it has ", found,
         " where this one has ", kind);
}

Tensor StateReader::tensor() {
  auto dtype = static_cast<DType>(integer());
  if (size_of(dtype) == 0 || dtype == DType::resource) corrupt("a type that cannot be");
  int64_t rank = integer();
  if (rank < 0 || rank > Shape::kMaxRank) corrupt("a rank that cannot be");
  std::vector<int64_t> dims(static_cast<size_t>(rank));
  for (int64_t& size : dims) size = integer();
  Shape shape(dims);
  bool plain = is_plain(dtype);
  size_t least = plain ? size_of(dtype) : sizeof(int64_t);
  if (shape.num_elements() > 0 && static_cast<size_t>(shape.num_elements()) > rest_.size() / least)
    corrupt("a tensor larger than all of it");
  Tensor out(dtype, std::move(shape));
  if (plain) {
    if (out.bytes() > 0) std::memcpy(out.raw(), take(out.bytes()).data(), out.bytes());
  } else if (dtype == DType::string) {
    for (int64_t i = 0; i < out.num_elements(); ++i) out.strings()[i] = text();
  } else {
    for (int64_t i = 0; i < out.num_elements(); ++i) variant(out.flat<ResourceHandle>()[i]);
  }
  return out;
}

void StateReader::variant(ResourceHandle& out) {
  if (++depth_ > kDeepest) corrupt("variants within variants");
  int64_t kind = integer();
  if (kind == kBoxed) {
    out.resource = std::make_shared<BoxedTensor>(tensor());
  } else if (kind == kKept) {
    Signature signature;
    for (int64_t n = count(); n > 0; --n) {
      signature.types.push_back(static_cast<DType>(integer()));
      int64_t rank = integer();
      if (rank > Shape::kMaxRank) corrupt("a rank that cannot be");
      PartialShape shape{rank >= 0, {}};
      for (int64_t d = 0; d < rank; ++d) shape.dims.push_back(integer());
      signature.shapes.push_back(std::move(shape));
    }
    std::vector<std::vector<Tensor>> elements;
    for (int64_t n = count(); n > 0; --n) {
      elements.push_back(element());
      if (elements.back().size() != signature.types.size()) corrupt("an element of another size");
      for (size_t i = 0; i < signature.types.size(); ++i)
        if (elements.back()[i].dtype() != signature.types[i]) corrupt("an element of another type");
    }
    out.resource = std::make_shared<ElementList>(std::move(signature), std::move(elements));
  } else {
    corrupt("a variant of no kind");
  }
  --depth_;
}

std::vector<Tensor> StateReader::element() {
  std::vector<Tensor> out(static_cast<size_t>(count()));
  for (Tensor& component : out) component = tensor();
  return out;
}

}  // namespace thalweg
