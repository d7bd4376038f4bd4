// LineReader: the lines of a text file in order, without the characters that end them ("\n" or "\r\n").
//
// The last line may lack its end; an empty rest is no line. A reader belongs to one thread at a time.
#pragma once

#include <string>
#include <string_view>

#include "io/input_stream.h"

namespace thalweg {

class LineReader {
 public:
  explicit LineReader(std::string path, Compression compression = Compression::none, size_t buffer_bytes = 0)
      : input_(std::move(path), compression, buffer_bytes) {}

  const std::string& path() const { return input_.path(); }
  // The next line, replacing the content of `line`; false at the end of the file.
  bool next(std::string& line);
  // The same, valid until the next call.
  bool next(std::string_view& line);

  // Where the next line begins, counted in decompressed bytes; `seek` goes on from such a place.
  uint64_t position() const { return input_.position(); }
  void seek(uint64_t position) { input_.seek(position); }

 private:
  bool next_in_pieces(std::string& line);

  InputStream input_;
  std::string large_;  // a line that is not in the buffer as a whole
};

}  // namespace thalweg
