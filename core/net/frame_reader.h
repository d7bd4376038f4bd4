// FrameReader: makes frames of the bytes of one connection, as they come.
//
// Bytes come from a peer that may lie. A frame is refused with InvalidArgumentError before memory is taken for it: its
// kind, its lengths, element types, shapes, and whether the header's count of bytes is that of the tensors. What a
// frame may take at most is limited (`Limits`); descriptors and bodies grow as they arrive. Elements go straight from
// the socket into their tensors.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "net/frame.h"
#include "net/limits.h"
#include "net/socket.h"

namespace thalweg::net {

class FrameReader {
 public:
  // `loans` turns descriptors of shared memory into tensors; null if the peer has none.
  explicit FrameReader(Loans* loans, Limits limits = {}) : loans_(loans), limits_(limits), buffer_(kBuffer) {}

  // Reads what there is, or some megabytes of it, and calls `receive` with each frame that is complete. False when the
  // peer has closed the connection; throws UnavailableError when the connection has failed. Adds to `bytes` how many
  // were read.
  bool read(const Socket& socket, const std::function<void(Frame)>& receive, std::atomic<int64_t>& bytes);

 private:
  static constexpr size_t kBuffer = 64 << 10;
  static constexpr size_t kTurn = 32 << 20;

  bool parse(const std::function<void(Frame)>& receive);
  void begin_frame();
  void begin_elements();
  // The next tensor; one whose elements are still to come is only noted in `elements`.
  Tensor described(class Parser& parser, IncomingElements& elements);
  void finish(const std::function<void(Frame)>& receive);
  size_t available() const { return end_ - begin_; }

  Loans* loans_;
  Limits limits_;
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;
  enum class State { header, head, elements } state_ = State::header;
  FrameHeader header_{};
  std::string head_;
  size_t body_at_ = 0;
  std::vector<Tensor> tensors_;
  std::vector<iovec> missing_;
  size_t next_ = 0;  // of missing_
};

}  // namespace thalweg::net
