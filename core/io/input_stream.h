// InputStream: the bytes of a file in order, decompressed, through a buffer that can be read without a copy.
//
// Views from `peek` and `available` stay valid until the next call that is not const. A stream belongs to one thread at
// a time. The end of the file is no error, and a file that has grown meanwhile can be read on.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

#include "io/byte_source.h"
#include "io/compression.h"

namespace thalweg {

class InputStream {
 public:
  // Fits into the last-level private cache: bytes are checked and copied while they are cached.
  static constexpr size_t kBufferBytes = 256 * 1024;

  explicit InputStream(std::string path, Compression compression = Compression::none, size_t buffer_bytes = 0);

  const std::string& path() const { return path_; }
  // Where the next byte is, counted in decompressed bytes.
  uint64_t position() const { return position_; }
  // Goes on elsewhere; in a compressed file, by decompressing all that is before.
  void seek(uint64_t position);

  // The next `size` bytes; fewer only if the file ends before. Memory grows with the bytes of the file, not with
  // `size`.
  std::string_view peek(size_t size) {
    if (end_ - begin_ < size) [[unlikely]]
      fill(size);
    return {buffer_.get() + begin_, std::min(size, end_ - begin_)};
  }
  // The bytes in the buffer, at least one; empty at the end of the file.
  std::string_view available() {
    if (begin_ == end_) fill(1);
    return {buffer_.get() + begin_, end_ - begin_};
  }
  // The bytes in the buffer, without reading more.
  std::string_view buffered() const { return {buffer_.get() + begin_, end_ - begin_}; }
  size_t capacity() const { return capacity_; }
  // Consumes bytes that `peek` or `available` has returned.
  void advance(size_t size) {
    begin_ += size;
    position_ += size;
  }
  // Consumes any number of bytes; returns how many there were.
  uint64_t skip(uint64_t size);
  // Appends the next `size` bytes, or those that are left; returns how many. Calls `seen(view)` on each piece.
  template <typename Seen>
  uint64_t append_to(std::string& out, uint64_t size, const Seen& seen) {
    reserve(out, size);
    uint64_t left = size;
    while (left > 0) {
      std::string_view piece = available();
      if (piece.empty()) break;
      piece = piece.substr(0, left);
      out.append(piece);
      seen(piece);
      advance(piece.size());
      left -= piece.size();
    }
    return size - left;
  }

 private:
  void fill(size_t wanted);
  void reserve(std::string& out, uint64_t size) const;

  std::string path_;
  bool compressed_;
  std::unique_ptr<ByteSource> source_;
  std::unique_ptr<char[]> buffer_;
  size_t capacity_;
  size_t begin_ = 0, end_ = 0;  // the part of the buffer that is filled and not yet consumed
  uint64_t position_ = 0;
};

}  // namespace thalweg
