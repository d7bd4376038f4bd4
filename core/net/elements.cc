// Elements beside the head of a frame, and in shared memory.
#include "net/elements.h"

namespace thalweg::net {

OutgoingElements::Departure OutgoingElements::depart(const Tensor& tensor) {
  const Loan loan = loans_ != nullptr ? loans_->lend(tensor) : Loan();
  if (loan.number == 0) return after_head(tensor);
  lent_.push_back(loan.number);
  return {Place::shared_memory, loan};
}

OutgoingElements::Departure OutgoingElements::depart_from_list(const Tensor& tensor) {
  if (tensor.bytes() < Loans::kLeast) return {Place::in_descriptor, {}};
  kept_.push_back(tensor);
  // A tensor may be in lists many times. The receiver copies no more of them than the arena can hold.
  if (loans_ == nullptr || tensor.bytes() > loans_->own_size() - lent_by_lists_) return after_head(tensor);
  const Departure departure = depart(tensor);
  if (departure.place == Place::shared_memory) lent_by_lists_ += tensor.bytes();
  return departure;
}

OutgoingElements::Departure OutgoingElements::after_head(const Tensor& tensor) {
  if (tensor.bytes() > 0) {
    pieces_.push_back({tensor.raw(), tensor.bytes()});
    bytes_ += tensor.bytes();
  }
  return {Place::in_frame, {}};
}

void OutgoingElements::take_back() {
  for (uint64_t number : lent_) loans_->returned(number);
  lent_.clear();
}

void IncomingElements::expect(DType dtype, Shape shape, std::shared_ptr<TensorList> list, size_t index) {
  size_t bytes;
  require(!__builtin_mul_overflow(static_cast<size_t>(shape.num_elements()), size_of(dtype), &bytes) && bytes <= left_,
          "a frame has a tensor of shape ", shape, " and announces ", announced_, " bytes in all");
  left_ -= bytes;
  expected_.push_back({dtype, std::move(shape), std::move(list), index});
}

Tensor IncomingElements::borrow(DType dtype, Shape shape, uint64_t number, uint64_t offset) {
  require(loans_ != nullptr, "a frame has a tensor in shared memory, and this connection shares none");
  return loans_->borrow(dtype, std::move(shape), number, offset);
}

void IncomingElements::copy(DType dtype, Shape shape, uint64_t number, uint64_t offset,
                            std::shared_ptr<TensorList> list, size_t index) {
  Tensor lent = borrow(dtype, std::move(shape), number, offset);
  // Many elements may be at one place: a small frame must not make this task copy without end.
  const size_t most = std::min(limits_.elements, loans_->peer_size());
  require(lent.bytes() <= most - copied_, "a frame has lists in shared memory of more than ", most, " bytes");
  copied_ += lent.bytes();
  copies_.push_back({std::move(lent), std::move(list), index});
}

std::vector<iovec> IncomingElements::settle(std::vector<Tensor>& tensors) {
  require(left_ == 0, "a frame announces ", announced_, " bytes, ", left_, " more than its tensors have");
  for (Copied& each : copies_) each.list->set(static_cast<int64_t>(each.index), std::move(each.lent));
  copies_.clear();
  std::vector<iovec> missing;
  for (Expected& each : expected_) {
    Tensor tensor(each.dtype, std::move(each.shape));
    if (tensor.bytes() > 0) missing.push_back({tensor.raw(), tensor.bytes()});
    if (each.list != nullptr)
      each.list->set(static_cast<int64_t>(each.index), std::move(tensor));
    else
      tensors[each.index] = std::move(tensor);
  }
  expected_.clear();
  return missing;
}

}  // namespace thalweg::net
