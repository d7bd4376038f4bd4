// RecordWriter: writes a TFRecord file through a large buffer (record_reader.h has the format).
//
// Records reach the file when the buffer is full, and with `flush` and `close`; the destructor closes, and drops
// errors. Not thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace thalweg {

// Appends a record with its length and checksums.
void append_record(std::string& out, std::string_view content);

class RecordWriter {
 public:
  // Creates the file, or empties it.
  explicit RecordWriter(std::string path);
  ~RecordWriter();
  RecordWriter(const RecordWriter&) = delete;

  void write(std::string_view content);
  // Writes the buffer to the file.
  void flush();
  // Nothing can be written after this; closing again does nothing.
  void close();

 private:
  void require_open() const;

  std::string path_;
  std::string buffer_;
  int fd_;
};

}  // namespace thalweg
