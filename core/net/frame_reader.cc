// Reading frames: header, descriptors and body, elements.
#include "net/frame_reader.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "net/encoding.h"
#include "net/list_encoding.h"

namespace thalweg::net {

bool FrameReader::read(const Socket& socket, const std::function<void(Frame)>& receive, std::atomic<int64_t>& bytes) {
  for (size_t total = 0; total < kTurn;) {
    // Into the tensors that wait for their elements, and what comes after them into the buffer.
    iovec into[16];
    int count = 0;
    size_t direct = 0;
    if (state_ == State::elements)
      for (size_t i = next_; i < missing_.size() && count < 15; ++i) {
        into[count++] = missing_[i];
        direct += missing_[i].iov_len;
      }
    if (begin_ == end_) begin_ = end_ = 0;
    if (end_ == buffer_.size()) {
      std::copy(buffer_.begin() + static_cast<ptrdiff_t>(begin_), buffer_.end(), buffer_.begin());
      end_ -= begin_;
      begin_ = 0;
    }
    if (state_ != State::elements || next_ + static_cast<size_t>(count) == missing_.size())
      into[count++] = {buffer_.data() + end_, buffer_.size() - end_};
    size_t space = 0;
    for (int i = 0; i < count; ++i) space += into[i].iov_len;
    const ssize_t got = readv(socket.fd(), into, count);
    if (got == 0) return false;
    if (got < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return true;
      fail(Code::unavailable, "the connection failed: ", std::strerror(errno));
    }
    size_t left = static_cast<size_t>(got);
    total += left;
    bytes.fetch_add(got, std::memory_order_relaxed);
    while (left > 0 && next_ < missing_.size() && direct > 0) {
      iovec& piece = missing_[next_];
      const size_t taken = std::min(left, piece.iov_len);
      piece = {static_cast<char*>(piece.iov_base) + taken, piece.iov_len - taken};
      left -= taken;
      direct -= taken;
      if (piece.iov_len == 0) ++next_;
    }
    end_ += left;
    while (parse(receive)) {
    }
    if (static_cast<size_t>(got) < space) return true;  // The socket is empty.
  }
  return true;
}

// One step further; false if it needs more bytes.
bool FrameReader::parse(const std::function<void(Frame)>& receive) {
  switch (state_) {
    case State::header:
      if (available() < sizeof header_) return false;
      std::memcpy(&header_, buffer_.data() + begin_, sizeof header_);
      begin_ += sizeof header_;
      begin_frame();
      return true;
    case State::head: {
      const size_t taken = std::min(available(), header_.length - head_.size());
      head_.append(buffer_.data() + begin_, taken);
      begin_ += taken;
      if (head_.size() < header_.length) return false;
      begin_elements();
      return true;
    }
    case State::elements:
      while (next_ < missing_.size() && available() > 0) {
        iovec& piece = missing_[next_];
        const size_t taken = std::min(available(), piece.iov_len);
        std::memcpy(piece.iov_base, buffer_.data() + begin_, taken);
        begin_ += taken;
        piece = {static_cast<char*>(piece.iov_base) + taken, piece.iov_len - taken};
        if (piece.iov_len == 0) ++next_;
      }
      if (next_ < missing_.size()) return false;
      finish(receive);
      return true;
  }
  return false;
}

void FrameReader::begin_frame() {
  const auto kind = header_.kind;
  require(kind >= static_cast<uint8_t>(FrameKind::call) && kind <= static_cast<uint8_t>(FrameKind::collective),
          "a frame has the unknown kind ", int{kind});
  require(header_.length <= limits_.head, "a frame with a body of ", header_.length, " bytes is larger than allowed");
  require(header_.elements <= limits_.elements, "a frame with tensors of ", header_.elements,
          " bytes is larger than allowed");
  head_.clear();
  state_ = State::head;
}

void FrameReader::begin_elements() {
  Parser parser(head_);
  IncomingElements elements(loans_, limits_, header_.elements);
  tensors_.clear();
  for (int i = 0; i < header_.tensors; ++i) tensors_.push_back(described(parser, elements));
  body_at_ = head_.size() - parser.rest().size();
  missing_ = elements.settle(tensors_);
  next_ = 0;
  state_ = State::elements;
}

Tensor FrameReader::described(Parser& parser, IncomingElements& elements) {
  const auto type = parser.take<uint8_t>();
  const int rank = parser.take<uint8_t>();
  const auto place = static_cast<Place>(parser.take<uint8_t>());
  parser.take<uint8_t>();
  if (type == 0) return Tensor();
  const DType dtype = DType(type);
  require(type <= static_cast<uint8_t>(DType::uint64) && size_of(dtype) > 0 && dtype != DType::resource,
          "a frame has a tensor of the type ", int{type}, ", which cannot be sent");
  require(rank <= Shape::kMaxRank, "a frame has a tensor of rank ", rank);
  Shape shape = take_shape(parser, rank);
  require(is_plain(dtype) || place == Place::in_descriptor, "a frame has elements of type ", dtype,
          " in the wrong place");
  if (dtype == DType::variant) return take_variants(parser, std::move(shape), elements);
  if (dtype == DType::string) {
    // Each has a length of four bytes at least: a lie about their number takes no memory.
    require(static_cast<uint64_t>(shape.num_elements()) <= parser.rest().size() / 4, "a frame announces ",
            shape.num_elements(), " strings and is shorter than that");
    Tensor tensor(dtype, std::move(shape));
    for (int64_t i = 0; i < tensor.num_elements(); ++i) tensor.strings()[i] = parser.text();
    return tensor;
  }
  if (place == Place::shared_memory) {
    const auto number = parser.take<uint64_t>();
    const auto offset = parser.take<uint64_t>();
    return elements.borrow(dtype, std::move(shape), number, offset);
  }
  require(place == Place::in_frame, "a frame has a tensor in the unknown place ", static_cast<int>(place));
  elements.expect(dtype, std::move(shape), nullptr, tensors_.size());
  return Tensor();
}

void FrameReader::finish(const std::function<void(Frame)>& receive) {
  state_ = State::header;
  Frame frame{
      static_cast<FrameKind>(header_.kind), header_.flags, header_.step, header_.number, {}, std::move(tensors_)};
  frame.body = body_at_ == 0 ? std::move(head_) : head_.substr(body_at_);
  tensors_.clear();
  missing_.clear();
  next_ = 0;
  head_.clear();
  receive(std::move(frame));
}

}  // namespace thalweg::net
