// RecordReader: the records of a TFRecord file in order, each checked against its checksums.
//
// One record is: length (8 bytes), masked CRC-32C of the length (4), the content, masked CRC-32C of the content (4),
// all little-endian. A record that is damaged or cut off is a DataLoss error naming the file and the record's offset;
// the position stays at its beginning. A reader belongs to one thread at a time.
#pragma once

#include <string>
#include <string_view>

#include "io/input_stream.h"

namespace thalweg {

class RecordReader {
 public:
  static constexpr size_t kHeader = 12, kFooter = 4;

  explicit RecordReader(std::string path, Compression compression = Compression::none, size_t buffer_bytes = 0)
      : input_(std::move(path), compression, buffer_bytes) {}

  const std::string& path() const { return input_.path(); }
  // The next record, replacing the content of `record`; false at the end of the file.
  bool next(std::string& record);
  // The same, valid until the next call.
  bool next(std::string_view& record);
  // Whether the next record is in memory, so that `next` will not wait for the disk.
  bool ready() const;

  // Where the next record begins, counted in decompressed bytes; `seek` goes on from such a place.
  uint64_t position() const { return input_.position(); }
  void seek(uint64_t position) { input_.seek(position); }

 private:
  bool read_length(uint64_t* length);
  bool next_in_buffer(uint64_t length, std::string_view& record);
  void next_in_pieces(uint64_t length, std::string& record);
  [[noreturn]] void lost(uint64_t position, const char* what);

  InputStream input_;
  std::string large_;  // a record that does not fit into the buffer
};

}  // namespace thalweg
