// TensorArrays: the rules of writing and reading.
#include "resource/tensor_array.h"

#include <algorithm>

#include "resource/tensor_sum.h"

namespace thalweg {
namespace {

// More elements than any loop keeps, and few enough that a wrong index cannot exhaust the memory.
constexpr int64_t kMostElements = int64_t{1} << 25;

PartialShape known(const Shape& shape) { return {true, shape.to_vector()}; }

Shape prepend(std::span<const int64_t> dims, std::span<const int64_t> shape) {
  std::vector<int64_t> all(dims.begin(), dims.end());
  all.insert(all.end(), shape.begin(), shape.end());
  return Shape(all);
}

}  // namespace

TensorArray::TensorArray(std::string name, Options options, int64_t size)
    : name_(std::move(name)), options_(std::move(options)), size_(size) {
  require(size >= 0, "TensorArray ", name_, ": the size must not be negative, got ", size);
}

void TensorArray::check_open() const { require(!closed_, "TensorArray ", name_, " has already been closed."); }

int64_t TensorArray::size() {
  std::lock_guard lock(mutex_);
  check_open();
  return size_;
}

PartialShape TensorArray::element_shape() {
  std::lock_guard lock(mutex_);
  return options_.element_shape;
}

void TensorArray::separate() {
  if (!has_whole_) return;
  has_whole_ = false;
  elements_.resize(static_cast<size_t>(size_));
  const Shape shape = whole_shape_.removed(0);
  for (int64_t i = 0; i < size_; ++i) {
    Element& at = elements_[static_cast<size_t>(i)];
    at.shape = shape;
    at.has_shape = at.written = true;
    at.read = whole_is_read_;
    if (whole_.defined()) at.value = whole_.rows(i, 1).reshaped(shape);
  }
  whole_.reset();
}

bool TensorArray::write_whole(const Tensor& rows) {
  std::lock_guard lock(mutex_);
  if (closed_ || has_whole_ || !elements_.empty() || options_.is_gradient || rows.dtype() != options_.dtype ||
      rows.rank() == 0 || rows.dim(0) == 0 || rows.dim(0) > kMostElements || !is_plain(rows.dtype()))
    return false;
  if (rows.dim(0) != size_ && !(options_.dynamic_size && rows.dim(0) > size_)) return false;
  const Shape element = rows.shape().removed(0);
  if (!options_.element_shape.accepts(element)) return false;
  if (options_.identical_element_shapes && !options_.element_shape.fully_defined())
    options_.element_shape = known(element);
  size_ = rows.dim(0);
  whole_ = rows.owned();
  whole_shape_ = whole_.shape();
  has_whole_ = true;
  whole_is_read_ = false;
  return true;
}

std::optional<Tensor> TensorArray::read_whole(int64_t count) {
  std::lock_guard lock(mutex_);
  if (closed_ || !has_whole_ || count != size_ || !whole_.defined()) return std::nullopt;
  whole_is_read_ = true;
  return options_.clear_after_read ? std::move(whole_) : whole_;
}

std::optional<Tensor> TensorArray::unread_rows() {
  std::lock_guard lock(mutex_);
  if (closed_ || !has_whole_ || !whole_.defined()) return std::nullopt;
  return whole_;
}

bool TensorArray::awaits(DType dtype, const Shape& element) {
  std::lock_guard lock(mutex_);
  return !closed_ && !has_whole_ && elements_.empty() && !options_.is_gradient && dtype == options_.dtype &&
         options_.element_shape.accepts(element);
}

void TensorArray::mark_read(std::span<const int64_t> indices) {
  if (indices.empty()) return;
  std::lock_guard lock(mutex_);
  // With clear_after_read none was read twice.
  if (has_whole_ && (!options_.clear_after_read || static_cast<int64_t>(indices.size()) == size_)) {
    whole_is_read_ = true;
    if (options_.clear_after_read) whole_.reset();
    return;
  }
  separate();
  for (int64_t index : indices) {
    Element& at = element(index);
    at.read = true;
    if (options_.clear_after_read) at.value.reset();
  }
}

void TensorArray::write_rows(std::span<const int64_t> indices, const Tensor& rows) {
  if (static_cast<int64_t>(indices.size()) == rows.dim(0) && write_whole(rows)) return;
  const Shape shape = rows.shape().removed(0);
  std::lock_guard lock(mutex_);
  check_open();
  separate();
  for (int64_t index : indices) write_one(index, rows.rows(index, 1).reshaped(shape));
}

TensorArray::Element& TensorArray::element(int64_t index) {
  if (index >= static_cast<int64_t>(elements_.size())) {
    if (index >= kMostElements)
      fail(Code::resource_exhausted, "TensorArray ", name_, ": index ", index, " is beyond the ", kMostElements,
           " elements that an array can hold");
    int64_t target = std::max<int64_t>(index + 1, static_cast<int64_t>(elements_.size()) * 2);
    elements_.resize(std::min(target, std::max(size_, index + 1)));
  }
  return elements_[index];
}

void TensorArray::write(std::span<const int64_t> indices, std::span<Tensor> values) {
  std::lock_guard lock(mutex_);
  check_open();
  separate();
  for (size_t i = 0; i < indices.size(); ++i) write_one(indices[i], std::move(values[i]));
}

void TensorArray::write_one(int64_t index, Tensor value) {
  require(value.dtype() == options_.dtype, "TensorArray ", name_, ": Could not write to TensorArray index ", index,
          " because the value dtype is ", value.dtype(), " but TensorArray dtype is ", options_.dtype, ".");
  require(index >= 0 && (index < size_ || options_.dynamic_size), "TensorArray ", name_, ": Tried to write to index ",
          index, " but array is not resizeable and size is: ", size_);
  require(options_.element_shape.accepts(value.shape()), "TensorArray ", name_,
          ": Could not write to TensorArray index ", index, " because the value shape is ", value.shape(),
          " which is incompatible with the TensorArray's inferred element shape: ", options_.element_shape,
          " (consider setting infer_shape=False).");
  Element& at = element(index);
  require(!at.read, "TensorArray ", name_, ": Could not write to TensorArray index ", index,
          " because it has already been read.");
  require(!at.written || options_.is_gradient, "TensorArray ", name_, ": Could not write to TensorArray index ", index,
          " because it has already been written to.");
  size_ = std::max(size_, index + 1);
  if (options_.identical_element_shapes && !options_.element_shape.fully_defined())
    options_.element_shape = known(value.shape());
  if (at.written) {
    require(at.value.shape() == value.shape(), "TensorArray ", name_, ": Could not aggregate to TensorArray index ",
            index, " because the existing shape is ", at.value.shape(), " but the new input shape is ", value.shape(),
            ".");
    at.value = sum(std::move(at.value), value);
    return;
  }
  at.shape = value.shape();
  at.has_shape = true;
  at.written = true;
  at.value = value.owned();
}

std::vector<Tensor> TensorArray::read(std::span<const int64_t> indices) {
  std::lock_guard lock(mutex_);
  check_open();
  separate();
  std::vector<Tensor> out;
  out.reserve(indices.size());
  for (int64_t index : indices) out.push_back(read_one(index));
  return out;
}

std::vector<Tensor> TensorArray::read_all() {
  std::lock_guard lock(mutex_);
  check_open();
  if (size_ > kMostElements)
    fail(Code::resource_exhausted, "TensorArray ", name_, ": ", size_, " elements are too many to read at once");
  separate();
  int64_t count = concat_size_ >= 0 ? concat_size_ : size_;
  std::vector<Tensor> out;
  out.reserve(count);
  for (int64_t i = 0; i < count; ++i) out.push_back(read_one(i));
  return out;
}

Tensor TensorArray::read_one(int64_t index) {
  require(index >= 0 && index < size_, "TensorArray ", name_, ": Tried to read from index ", index,
          " but array size is: ", size_);
  Element& at = element(index);
  if (at.read && options_.clear_after_read)
    fail(Code::invalid_argument, "TensorArray ", name_, ": Could not read index ", index,
         " twice because it was cleared after a previous read (perhaps try setting clear_after_read = false?)");
  if (!at.written) {
    if (!at.has_shape && options_.element_shape.fully_defined()) {
      at.shape = Shape(options_.element_shape.dims);
      at.has_shape = true;
    }
    require(at.has_shape && is_plain(options_.dtype), "TensorArray ", name_, ": Could not read from TensorArray index ",
            index, ": nothing was written there, and the element shape is not fully defined: ", options_.element_shape,
            ". If this is a gradient, set the full element_shape property on the forward TensorArray to get zeros.");
    at.value = zeros(options_.dtype, at.shape);
    at.written = true;
  }
  at.read = true;
  return options_.clear_after_read ? std::move(at.value) : at.value;
}

void TensorArray::close() {
  std::vector<Element> gone;
  std::map<std::string, std::shared_ptr<TensorArray>> gradients;
  std::lock_guard lock(mutex_);
  closed_ = true;
  has_whole_ = false;
  whole_.reset();
  gone.swap(elements_);
  gradients.swap(gradients_);
}

std::shared_ptr<TensorArray> TensorArray::gradient(const std::string& source, std::span<const int64_t> prepended) {
  std::lock_guard lock(mutex_);
  check_open();
  std::shared_ptr<TensorArray>& found = gradients_[source];
  if (found) return found;
  separate();
  // The gradients have as many elements as the array now has: it must not grow any more.
  options_.dynamic_size = false;
  Options options = options_;
  // Values written to one index of a gradient array were added up: each of those writes reads the one gradient of the
  // sum.
  options.clear_after_read = !options_.is_gradient;
  options.is_gradient = true;
  options.identical_element_shapes = false;
  if (options.element_shape.known_rank)
    options.element_shape.dims.insert(options.element_shape.dims.begin(), prepended.begin(), prepended.end());
  auto made = std::make_shared<TensorArray>(name_ + "@" + source, std::move(options), size_);
  made->concat_size_ = split_size_;
  made->gradient_split_size_ = concat_size_;
  made->elements_.resize(elements_.size());
  for (size_t i = 0; i < elements_.size(); ++i) {
    if (!elements_[i].has_shape) continue;
    made->elements_[i].shape = prepend(prepended, elements_[i].shape.dims());
    made->elements_[i].has_shape = true;
  }
  found = made;
  return made;
}

void TensorArray::begin_split(int64_t size) {
  std::lock_guard lock(mutex_);
  check_open();
  separate();
  if (size > size_ && options_.dynamic_size) size_ = size;
  int64_t expected = gradient_split_size_ >= 0 ? gradient_split_size_ : size_;
  require(size == expected, "TensorArray ", name_, ": TensorArray's size is not equal to the size of lengths (",
          expected, " vs. ", size, "), and the TensorArray is not marked as dynamically resizeable");
  split_size_ = size;
}

}  // namespace thalweg
