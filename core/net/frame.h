// Frame: one message between two tasks, and its form as bytes.
//
//     header (32 bytes) | descriptors of the tensors | body | elements of the tensors
//
// All numbers are little-endian. The header says how long descriptors and body are together, how many tensors there
// are, and how many bytes their elements take. Elements come last, so that a reader knows where they belong before
// they arrive: they are written from the sender's buffers and read into the receiver's final ones, without a copy in
// between. A descriptor is the element type, the rank, where the elements are (elements.h), and the dimensions;
// strings, which are no plain bytes, and lists of tensors (list_encoding.h) are inside of it. A tensor without a type
// is the dead token.
#pragma once

#include <string>
#include <vector>

#include "net/elements.h"
#include "tensor/tensor.h"

namespace thalweg::net {

enum class FrameKind : uint8_t {
  call = 1,    // asks for a method; `number` is the caller's
  answer,      // to a call with this number
  run,         // starts the registered step `number` as step `step`, with the feeds
  done,        // step `step` has ended here: fetches or an error
  cancel,      // step `step` shall end with an error
  tensor,      // tensors of step `step`: the first for the Recv whose key has the hash `number`, then as the body says
  give_back,   // shared memory that is no longer read; `number` is the loan's
  heartbeat,   // the sender lives
  collective,  // a message between members of collective group `number`, in its generation `step`
};

inline constexpr uint8_t kFailed = 1;  // flag of `done` and `answer`: the body has an error

struct Frame {
  FrameKind kind{};
  uint8_t flags = 0;
  uint64_t step = 0;
  uint64_t number = 0;
  std::string body;
  std::vector<Tensor> tensors;
};

struct FrameHeader {
  uint32_t length;  // of descriptors and body
  uint8_t kind;
  uint8_t flags;
  uint16_t tensors;
  uint64_t elements;  // bytes
  uint64_t step;
  uint64_t number;
};
static_assert(sizeof(FrameHeader) == 32);

// What is still to be written of a frame. Keeps the tensors until then.
class Unsent {
 public:
  // Throws InvalidArgumentError or UnimplementedError for a tensor that cannot leave its process. Large elements that
  // are in memory which the peer can map are lent to it, if there are loans.
  Unsent(Frame frame, Loans* loans);
  bool empty() const { return written_ == size_; }
  bool has_tensors() const { return !tensors_.empty(); }
  size_t left() const { return size_ - written_; }
  // The next pieces to write, at most `count` of them; how many there are.
  int pieces(iovec* out, int count) const;
  void wrote(size_t bytes);

 private:
  void write_head(const Frame& frame);
  // The head, or one of the elements.
  iovec piece(size_t index) const;

  std::string head_;
  std::vector<Tensor> tensors_;
  OutgoingElements elements_;
  size_t size_ = 0;
  size_t written_ = 0;
  size_t next_ = 0;  // the first piece that has not been written whole
  size_t part_ = 0;  // bytes of it that have been written
};

}  // namespace thalweg::net
