// Filling the rows of a batch.
#include "data/batch_buffer.h"

namespace thalweg {
namespace {

// A batch size is not to be trusted: this much memory is allocated for rows at first, and grows as elements come.
constexpr size_t kFirstBytes = size_t{64} << 20;

}  // namespace

void put_elements(const Tensor& from, void* to) {
  int64_t n = from.num_elements();
  if (from.dtype() == DType::string && from.writable()) {
    auto* strings = static_cast<std::string*>(from.raw());
    std::move(strings, strings + n, static_cast<std::string*>(to));
  } else if (is_plain(from.dtype()) && from.bytes() == 4) {
    std::memcpy(to, from.raw(), 4);
  } else if (is_plain(from.dtype()) && from.bytes() == 8) {
    std::memcpy(to, from.raw(), 8);
  } else {
    copy_elements(from.dtype(), to, from.raw(), n);
  }
}

void BatchBuffer::begin(const Element& element) {
  size_t bytes = 1;
  for (const Tensor& component : element) bytes = std::max(bytes, component.bytes());
  allocated_ = std::min<int64_t>(capacity_, std::max<int64_t>(1, static_cast<int64_t>(kFirstBytes / bytes)));
  rows_.clear();
  shapes_.clear();
  for (const Tensor& component : element) {
    shapes_.push_back(component.shape());
    rows_.emplace_back(component.dtype(), component.shape().inserted(0, allocated_));
  }
}

void BatchBuffer::add(Element& element) {
  if (size_ == 0) {
    begin(element);
  } else {
    for (size_t i = 0; i < element.size(); ++i)
      require(element[i].shape() == shapes_[i], "Cannot batch tensors with different shapes in component ", i,
              ". First element had shape ", shapes_[i], " and element ", size_, " had shape ", element[i].shape(), ".");
  }
  if (size_ == allocated_) {
    int64_t more = std::min(capacity_, 2 * allocated_);
    for (Tensor& rows : rows_) {
      Tensor larger(rows.dtype(), rows.shape().with_dim(0, more));
      put_elements(rows, larger.raw());
      rows = std::move(larger);
    }
    allocated_ = more;
  }
  for (size_t i = 0; i < element.size(); ++i) {
    size_t stride = static_cast<size_t>(shapes_[i].num_elements()) * size_of(rows_[i].dtype());
    put_elements(element[i], static_cast<char*>(rows_[i].raw()) + static_cast<size_t>(size_) * stride);
  }
  ++size_;
}

void BatchBuffer::take(Element& out) {
  out.resize(rows_.size());
  for (size_t i = 0; i < rows_.size(); ++i)
    out[i] = size_ == allocated_ ? std::move(rows_[i]) : rows_[i].rows(0, size_);
  clear();
}

void BatchBuffer::save(StateWriter& out) const {
  out.integer(size_);
  if (size_ == 0) return;
  Element filled;
  for (const Tensor& rows : rows_) filled.push_back(rows.rows(0, size_));
  out.element(filled);
}

void BatchBuffer::restore(StateReader& in) {
  clear();
  int64_t size = in.integer();
  if (size == 0) return;
  Element filled = in.element();
  for (const Tensor& rows : filled)
    if (rows.rank() == 0 || rows.dim(0) != size || size > capacity_)
      fail(Code::data_loss, "the saved position of an iterator is damaged: a batch that cannot be");
  for (int64_t k = 0; k < size; ++k) {
    Element row;
    for (const Tensor& rows : filled) row.push_back(rows.rows(k, 1).reshaped(rows.shape().removed(0)));
    add(row);
  }
}

}  // namespace thalweg
