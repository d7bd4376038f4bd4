// FixedLengthReader: records of one size, between a header and a footer that are passed over.
//
// A record begins `hop_bytes` after the one before (0: right behind it), so that records may overlap or have gaps.
// Bytes between the last whole record and the footer are ignored; `remainder` counts them, for callers that treat them
// as an error. A reader belongs to one thread at a time.
#pragma once

#include <string>
#include <string_view>

#include "io/input_stream.h"

namespace thalweg {

struct FixedLengthFormat {
  int64_t record_bytes = 0;
  int64_t header_bytes = 0;
  int64_t footer_bytes = 0;
  int64_t hop_bytes = 0;

  // Throws InvalidArgument for invalid sizes.
  void check() const;
};

class FixedLengthReader {
 public:
  FixedLengthReader(std::string path, const FixedLengthFormat& format, Compression compression = Compression::none,
                    size_t buffer_bytes = 0);

  const std::string& path() const { return input_.path(); }
  // The next record, replacing the content of `record`; false at the end of the file.
  bool next(std::string& record);
  // The same, valid until the next call.
  bool next(std::string_view& record);
  // At the end of the file: how many bytes before the footer belong to no record.
  uint64_t remainder() const { return remainder_; }

  // Where the next record begins, counted in decompressed bytes; `seek` goes on from such a place.
  uint64_t position() const { return position_; }
  void seek(uint64_t position) { position_ = position; }

 private:
  FixedLengthFormat format_;
  InputStream input_;
  uint64_t position_;  // that of the input, except before a hop and at the beginning
  uint64_t remainder_ = 0;
};

}  // namespace thalweg
