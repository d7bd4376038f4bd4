// ByteSource: a stream of bytes; FileSource: the bytes of a file.
//
// A source belongs to one thread at a time. Files are read, not mapped: a mapped file that another process shortens
// ends this process with a bus error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace thalweg {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Reads at most `size` bytes; returns how many there were, 0 only at the end. Throws Error.
  virtual size_t read(char* to, size_t size) = 0;
  // Goes on at `position`, counted in the bytes that `read` gives; reading behind the end finds nothing.
  virtual void seek(uint64_t position) = 0;
  // About how many bytes there are in all; 0 if that is not known. For reserving memory only.
  virtual uint64_t size_hint() const { return 0; }
};

// What stands before "://" in a path, if it can be the scheme of a file system; else nothing.
std::string_view scheme_of(std::string_view path);
// The path of a local file: `file://` is taken off; other schemes are refused.
std::string local_path(const std::string& path);

class FileSource : public ByteSource {
 public:
  // Opens a regular file; errors name `path`.
  explicit FileSource(std::string path);
  ~FileSource() override;
  FileSource(const FileSource&) = delete;
  size_t read(char* to, size_t size) override;
  void seek(uint64_t position) override { position_ = position; }
  uint64_t size_hint() const override;

 private:
  std::string path_;
  int fd_;
  uint64_t position_ = 0;
};

}  // namespace thalweg
