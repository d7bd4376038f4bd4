// The buffer of an input stream: filling, growing, seeking.
#include "io/input_stream.h"

#include <algorithm>
#include <cstring>

#include "io/inflate.h"
#include "io/remote_files.h"

namespace thalweg {

InputStream::InputStream(std::string path, Compression compression, size_t buffer_bytes)
    : path_(std::move(path)), compressed_(compression != Compression::none) {
  source_ = open_source(path_);
  if (compressed_) source_ = std::make_unique<Inflate>(path_, std::move(source_), compression);
  capacity_ = std::clamp<size_t>(buffer_bytes == 0 ? kBufferBytes : buffer_bytes, 16, size_t{1} << 30);
  buffer_ = std::make_unique_for_overwrite<char[]>(capacity_);
}

void InputStream::fill(size_t wanted) {
  while (end_ - begin_ < wanted) {
    if (end_ == capacity_ || begin_ == end_) {
      size_t unread = end_ - begin_;
      if (unread == capacity_) {
        // Doubling as bytes come: a length that a damaged file claims reserves nothing.
        size_t larger = std::min(std::max(wanted, capacity_), capacity_ * 2);
        auto buffer = std::make_unique_for_overwrite<char[]>(larger);
        std::memcpy(buffer.get(), buffer_.get() + begin_, unread);
        buffer_ = std::move(buffer);
        capacity_ = larger;
      } else if (begin_ > 0) {
        std::memmove(buffer_.get(), buffer_.get() + begin_, unread);
      }
      begin_ = 0;
      end_ = unread;
    }
    size_t count = source_->read(buffer_.get() + end_, capacity_ - end_);
    if (count == 0) return;
    end_ += count;
  }
}

void InputStream::seek(uint64_t position) {
  uint64_t buffer_start = position_ - begin_;
  if (position >= buffer_start && position <= buffer_start + end_) {
    begin_ = static_cast<size_t>(position - buffer_start);
    position_ = position;
    return;
  }
  begin_ = end_ = 0;
  source_->seek(position);
  position_ = position;
}

uint64_t InputStream::skip(uint64_t size) {
  uint64_t left = size;
  while (left > 0) {
    size_t there = available().size();
    if (there == 0) break;
    size_t step = static_cast<size_t>(std::min<uint64_t>(left, there));
    advance(step);
    left -= step;
  }
  return size - left;
}

void InputStream::reserve(std::string& out, uint64_t size) const {
  uint64_t hint = source_->size_hint();
  uint64_t left = compressed_ ? buffered().size() : hint > position_ ? hint - position_ : 0;
  out.reserve(out.size() + static_cast<size_t>(std::min(size, std::max<uint64_t>(left, buffered().size()))));
}

}  // namespace thalweg
