// Writing TFRecord files.
#include "io/record_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "error.h"
#include "io/crc32c.h"
#include "io/whole_file.h"

namespace thalweg {
namespace {

constexpr size_t kRecordBuffer = 256 * 1024;

}  // namespace

void append_record(std::string& out, std::string_view content) {
  const uint64_t length = content.size();
  const uint32_t length_crc = mask_crc(crc32c(&length, sizeof(length)));
  const uint32_t content_crc = mask_crc(crc32c(content.data(), content.size()));
  out.append(reinterpret_cast<const char*>(&length), sizeof(length));
  out.append(reinterpret_cast<const char*>(&length_crc), sizeof(length_crc));
  out.append(content);
  out.append(reinterpret_cast<const char*>(&content_crc), sizeof(content_crc));
}

RecordWriter::RecordWriter(std::string path) : path_(std::move(path)), fd_(create_file(path_)) {
  buffer_.reserve(kRecordBuffer + kRecordBuffer / 4);
}

RecordWriter::~RecordWriter() {
  try {
    close();
  } catch (const Error&) {
  }
}

void RecordWriter::require_open() const {
  if (fd_ < 0) fail(Code::failed_precondition, path_, "; the writer was closed before");
}

void RecordWriter::write(std::string_view content) {
  require_open();
  append_record(buffer_, content);
  if (buffer_.size() >= kRecordBuffer) flush();
}

void RecordWriter::flush() {
  require_open();
  write_all(fd_, buffer_, path_);
  if (buffer_.capacity() > 4 * kRecordBuffer) std::string().swap(buffer_);  // A large record has passed.
  buffer_.clear();
}

void RecordWriter::close() {
  if (fd_ < 0) return;
  std::string rest;
  rest.swap(buffer_);
  int fd = std::exchange(fd_, -1);
  try {
    write_all(fd, rest, path_);
  } catch (const Error&) {
    ::close(fd);
    throw;
  }
  close_file(fd, path_);
}

}  // namespace thalweg
