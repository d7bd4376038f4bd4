// Writing frames.
#include "net/frame.h"

#include "net/encoding.h"
#include "net/limits.h"
#include "net/list_encoding.h"
#include "net/loans.h"

namespace thalweg::net {

Unsent::Unsent(Frame frame, Loans* loans) : tensors_(std::move(frame.tensors)) {
  std::vector<uint64_t> lent;
  try {
    write_head(frame, loans, lent);
  } catch (...) {
    // The peer will never hear of these loans, and never give them back.
    for (uint64_t number : lent) loans->returned(number);
    throw;
  }
}

void Unsent::write_head(const Frame& frame, Loans* loans, std::vector<uint64_t>& lent) {
  require(tensors_.size() < (1 << 16), "a frame cannot carry ", tensors_.size(), " tensors");
  head_.resize(sizeof(FrameHeader));
  Writer writer(head_);
  uint64_t bytes = 0;
  for (const Tensor& tensor : tensors_) {
    if (!tensor.defined()) {
      writer.put(DType::invalid).put(uint8_t{0}).put(Place::in_descriptor).put(uint8_t{0});
      continue;
    }
    require(!tensor.on_device(), "a tensor in a device's memory cannot be sent to another task");
    require(tensor.dtype() != DType::resource, "a tensor of type ", tensor.dtype(),
            " belongs to its task and cannot be sent to another one");
    const bool plain = is_plain(tensor.dtype());
    const auto loan = loans != nullptr ? loans->lend(tensor) : Loan();
    if (loan.number != 0) lent.push_back(loan.number);
    const Place place = !plain ? Place::in_descriptor : loan.number != 0 ? Place::shared_memory : Place::in_frame;
    writer.put(tensor.dtype()).put(static_cast<uint8_t>(tensor.rank())).put(place).put(uint8_t{0});
    for (int64_t dim : tensor.shape()) writer.put(dim);
    if (tensor.dtype() == DType::variant) {
      put_variants(writer, tensor);
    } else if (!plain) {
      for (int64_t i = 0; i < tensor.num_elements(); ++i) writer.text(tensor.strings()[i]);
    } else if (place == Place::shared_memory) {
      writer.put(loan.number).put(loan.offset);
    } else if (tensor.bytes() > 0) {
      elements_.push_back({tensor.raw(), tensor.bytes()});
      bytes += tensor.bytes();
    }
  }
  head_ += frame.body;
  const size_t length = head_.size() - sizeof(FrameHeader);
  require(length <= Limits().head, "a message of ", length, " bytes is too long to be sent");
  const FrameHeader header{static_cast<uint32_t>(length),
                           static_cast<uint8_t>(frame.kind),
                           frame.flags,
                           static_cast<uint16_t>(tensors_.size()),
                           bytes,
                           frame.step,
                           frame.number};
  std::memcpy(head_.data(), &header, sizeof header);
  size_ = head_.size() + bytes;
}

int Unsent::pieces(iovec* out, int count) const {
  int found = 0;
  size_t skip = written_;
  auto add = [&](void* data, size_t size) {
    if (skip >= size) {
      skip -= size;
    } else if (found < count) {
      out[found++] = {static_cast<char*>(data) + skip, size - skip};
      skip = 0;
    }
  };
  add(const_cast<char*>(head_.data()), head_.size());
  for (const iovec& piece : elements_) add(piece.iov_base, piece.iov_len);
  return found;
}

}  // namespace thalweg::net
