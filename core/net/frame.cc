// Writing frames.
#include "net/frame.h"

#include "net/encoding.h"
#include "net/limits.h"
#include "net/list_encoding.h"

namespace thalweg::net {

Unsent::Unsent(Frame frame, Loans* loans) : tensors_(std::move(frame.tensors)), elements_(loans) {
  try {
    write_head(frame);
  } catch (...) {
    // The peer will never hear of these loans, and never give them back.
    elements_.take_back();
    throw;
  }
}

void Unsent::write_head(const Frame& frame) {
  require(tensors_.size() < (1 << 16), "a frame cannot carry ", tensors_.size(), " tensors");
  head_.resize(sizeof(FrameHeader));
  Writer writer(head_);
  for (const Tensor& tensor : tensors_) {
    if (!tensor.defined()) {
      writer.put(DType::invalid).put(uint8_t{0}).put(Place::in_descriptor).put(uint8_t{0});
      continue;
    }
    require(!tensor.on_device(), "a tensor in a device's memory cannot be sent to another task");
    require(tensor.dtype() != DType::resource, "a tensor of type ", tensor.dtype(),
            " belongs to its task and cannot be sent to another one");
    const bool plain = is_plain(tensor.dtype());
    const auto [place, loan] = plain ? elements_.depart(tensor) : OutgoingElements::Departure{Place::in_descriptor, {}};
    writer.put(tensor.dtype()).put(static_cast<uint8_t>(tensor.rank())).put(place).put(uint8_t{0});
    for (int64_t dim : tensor.shape()) writer.put(dim);
    if (tensor.dtype() == DType::variant) {
      put_variants(writer, tensor, elements_);
    } else if (!plain) {
      for (int64_t i = 0; i < tensor.num_elements(); ++i) writer.text(tensor.strings()[i]);
    } else if (place == Place::shared_memory) {
      writer.put(loan.number).put(loan.offset);
    }
  }
  head_ += frame.body;
  const size_t length = head_.size() - sizeof(FrameHeader);
  require(length <= Limits().head, "a message of ", length, " bytes is too long to be sent");
  const FrameHeader header{static_cast<uint32_t>(length),
                           static_cast<uint8_t>(frame.kind),
                           frame.flags,
                           static_cast<uint16_t>(tensors_.size()),
                           elements_.bytes(),
                           frame.step,
                           frame.number};
  std::memcpy(head_.data(), &header, sizeof header);
  size_ = head_.size() + elements_.bytes();
}

iovec Unsent::piece(size_t index) const {
  if (index > 0) return elements_.pieces()[index - 1];
  return {const_cast<char*>(head_.data()), head_.size()};
}

int Unsent::pieces(iovec* out, int count) const {
  int found = 0;
  for (size_t i = next_; i <= elements_.pieces().size() && found < count; ++i) {
    const iovec whole = piece(i);
    const size_t skip = i == next_ ? part_ : 0;
    out[found++] = {static_cast<char*>(whole.iov_base) + skip, whole.iov_len - skip};
  }
  return found;
}

void Unsent::wrote(size_t bytes) {
  written_ += bytes;
  for (part_ += bytes; next_ <= elements_.pieces().size() && part_ >= piece(next_).iov_len; ++next_)
    part_ -= piece(next_).iov_len;
}

}  // namespace thalweg::net
