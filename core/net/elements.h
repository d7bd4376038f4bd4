// The elements of plain tensors that leave or arrive with a frame, outside of its descriptors.
//
// They are in memory of the sender that the receiver can map (a loan), or come after the head of the frame: written
// from the sender's buffers and read into the receiver's final ones. Large elements of lists of tensors travel in the
// same way; a list keeps its elements beyond the step, so that the receiver copies what it was lent and gives it back
// at once.
#pragma once

#include <sys/uio.h>

#include <memory>
#include <vector>

#include "net/limits.h"
#include "net/loans.h"
#include "resource/tensor_list.h"
#include "tensor/tensor.h"

namespace thalweg::net {

// Where the elements of a tensor are.
enum class Place : uint8_t { in_frame, in_descriptor, shared_memory };

// What a frame sends. Keeps the tensors of lists; those of the frame itself are the caller's to keep.
class OutgoingElements {
 public:
  struct Departure {
    Place place;
    Loan loan;  // in shared memory
  };

  explicit OutgoingElements(Loans* loans) : loans_(loans) {}
  // A plain tensor of the frame: lent if possible, else written after the head.
  Departure depart(const Tensor& tensor);
  // A plain tensor of a list: the same, unless it is so small that it is better off in the descriptor.
  Departure depart_from_list(const Tensor& tensor);
  // The frame will not be sent: ends its loans.
  void take_back();

  size_t bytes() const { return bytes_; }
  const std::vector<iovec>& pieces() const { return pieces_; }

 private:
  Departure after_head(const Tensor& tensor);

  Loans* loans_;
  std::vector<uint64_t> lent_;
  size_t lent_by_lists_ = 0;  // bytes
  std::vector<Tensor> kept_;
  std::vector<iovec> pieces_;
  size_t bytes_ = 0;  // of pieces_
};

// What a frame announces. Its sender may lie: functions throw InvalidArgumentError for what cannot be true, and no
// memory is taken before `settle`.
class IncomingElements {
 public:
  // `loans` is null if the peer shares no memory. `bytes` come after the head.
  IncomingElements(Loans* loans, const Limits& limits, uint64_t bytes)
      : loans_(loans), limits_(limits), announced_(bytes), left_(bytes) {}

  // A tensor whose elements come after the head: element `index` of a list, or of the frame's tensors if it is null.
  void expect(DType dtype, Shape shape, std::shared_ptr<TensorList> list, size_t index);
  // A tensor that the peer has lent.
  Tensor borrow(DType dtype, Shape shape, uint64_t number, uint64_t offset);
  // Element `index` of a list, which the peer has lent, and `settle` will copy.
  void copy(DType dtype, Shape shape, uint64_t number, uint64_t offset, std::shared_ptr<TensorList> list, size_t index);

  // All descriptors were read, and are true: copies, and takes memory for what comes after the head; where to read it.
  std::vector<iovec> settle(std::vector<Tensor>& tensors);

 private:
  struct Expected {
    DType dtype;
    Shape shape;
    std::shared_ptr<TensorList> list;
    size_t index;
  };
  struct Copied {
    Tensor lent;
    std::shared_ptr<TensorList> list;
    size_t index;
  };
  Loans* loans_;
  Limits limits_;
  uint64_t announced_, left_;  // bytes after the head, and those that no descriptor has accounted for
  size_t copied_ = 0;          // bytes that `settle` will copy
  std::vector<Expected> expected_;
  std::vector<Copied> copies_;
};

}  // namespace thalweg::net
