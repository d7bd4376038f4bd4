// Buffers and tensors: construction, destruction, views and copies.
#include "tensor/tensor.h"

#include <algorithm>
#include <new>

#include "tensor/resource_handle.h"

namespace thalweg {
namespace {

constexpr size_t kHeader = 64;
static_assert(sizeof(Buffer) <= kHeader);

template <typename T>
void construct(void* data, int64_t count) {
  for (int64_t i = 0; i < count; ++i) new (static_cast<T*>(data) + i) T();
}

template <typename T>
void destruct(void* data, int64_t count) {
  for (int64_t i = 0; i < count; ++i) (static_cast<T*>(data) + i)->~T();
}

}  // namespace

Buffer* Buffer::allocate(DType dtype, int64_t count) {
  size_t width = size_of(dtype);
  if (width == 0) fail(Code::unimplemented, "tensors of type ", dtype, " are not supported");
  size_t bytes;
  if (count < 0 || __builtin_mul_overflow(static_cast<size_t>(count), width, &bytes) || bytes > (size_t{1} << 60))
    fail(Code::resource_exhausted, "a tensor of ", count, " elements of type ", dtype, " is too large");
  Account* account;
  void* block = Allocator::cpu().allocate(kHeader + bytes, account);
  Buffer* buffer = new (block) Buffer;
  buffer->account_ = account;
  buffer->dtype_ = dtype;
  buffer->count_ = count;
  buffer->bytes_ = bytes;
  buffer->data_ = static_cast<char*>(block) + kHeader;
  if (!is_plain(dtype)) {
    if (dtype == DType::string)
      construct<std::string>(buffer->data_, count);
    else
      construct<ResourceHandle>(buffer->data_, count);
  }
  return buffer;
}

Buffer* Buffer::borrow(void* data, size_t bytes, void* owner, void (*release)(void*), Kind kind) {
  Account* account;
  void* block = Allocator::cpu().allocate(kHeader, account);
  Buffer* buffer = new (block) Buffer;
  buffer->account_ = account;
  buffer->kind_ = kind;
  buffer->bytes_ = bytes;
  buffer->data_ = data;
  buffer->owner_ = owner;
  buffer->release_ = release;
  return buffer;
}

uint64_t Buffer::stamp() {
  static std::atomic<uint64_t> last{0};
  uint64_t known = stamp_.load(std::memory_order_relaxed);
  if (known != 0) return known;
  const uint64_t fresh = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return stamp_.compare_exchange_strong(known, fresh, std::memory_order_relaxed) ? fresh : known;
}

void Buffer::destroy() {
  size_t block_bytes = kHeader;
  if (kind_ != Kind::own) {
    if (release_ != nullptr) release_(owner_);
  } else {
    block_bytes += bytes_;
    if (dtype_ == DType::string)
      destruct<std::string>(data_, count_);
    else if (!is_plain(dtype_))
      destruct<ResourceHandle>(data_, count_);
  }
  Account* account = account_;
  this->~Buffer();
  Allocator::cpu().release(this, block_bytes, account);
}

Tensor::Tensor(DType dtype, Shape shape) : shape_(std::move(shape)), dtype_(dtype) {
  buffer_ = Buffer::allocate(dtype, shape_.num_elements());
  data_ = buffer_->data();
}

Tensor Tensor::reshaped(Shape shape) const {
  require(shape.num_elements() == num_elements(), "cannot reshape a tensor with ", num_elements(), " elements (shape ",
          shape_, ") to shape ", shape, " (", shape.num_elements(), " elements)");
  if (buffer_) buffer_->ref();
  return Tensor(dtype_, std::move(shape), buffer_, data_);
}

Tensor Tensor::viewed_as(DType dtype) const {
  require(size_of(dtype) == size_of(dtype_) && is_plain(dtype) && is_plain(dtype_), "cannot view elements of type ",
          dtype_, " as ", dtype);
  if (buffer_) buffer_->ref();
  return Tensor(dtype, shape_, buffer_, data_);
}

Tensor Tensor::rows(int64_t first, int64_t count) const {
  require(rank() > 0 && first >= 0 && count >= 0 && first + count <= dim(0), "rows [", first, ", ", first + count,
          ") are outside a tensor of shape ", shape_);
  int64_t row = shape_.product(1, rank());
  if (buffer_) buffer_->ref();
  return Tensor(dtype_, shape_.with_dim(0, count), buffer_,
                static_cast<char*>(data_) + static_cast<size_t>(first * row) * size_of(dtype_));
}

Tensor Tensor::clone() const {
  Tensor copy(dtype_, shape_);
  copy_elements(dtype_, copy.data_, data_, num_elements());
  return copy;
}

void copy_elements(DType dtype, void* to, const void* from, int64_t count) {
  if (count == 0) return;
  if (is_plain(dtype)) {
    std::memcpy(to, from, static_cast<size_t>(count) * size_of(dtype));
  } else if (dtype == DType::string) {
    std::copy_n(static_cast<const std::string*>(from), count, static_cast<std::string*>(to));
  } else {
    std::copy_n(static_cast<const ResourceHandle*>(from), count, static_cast<ResourceHandle*>(to));
  }
}

std::vector<int64_t> to_int64s(const Tensor& t) {
  std::vector<int64_t> out(t.num_elements());
  dispatch(t.dtype(), Join<Indices, Types<DType::int16, DType::int8, DType::uint8, DType::uint16>>{},
           [&]<typename T>() { std::copy_n(t.flat<T>(), out.size(), out.begin()); });
  return out;
}

int64_t to_int64(const Tensor& t) {
  require(t.num_elements() == 1, "expected a scalar, got shape ", t.shape());
  return to_int64s(t)[0];
}

}  // namespace thalweg
