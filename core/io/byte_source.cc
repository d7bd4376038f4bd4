// Reading a file in order, on POSIX.
#include "io/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>

#include "error.h"
#include "io/files.h"

namespace thalweg {

std::string_view scheme_of(std::string_view path) {
  const size_t separator = path.find("://");
  if (separator == std::string_view::npos) return {};
  const std::string_view scheme = path.substr(0, separator);
  const bool fits = std::all_of(scheme.begin(), scheme.end(),
                                [](unsigned char c) { return std::isalnum(c) || c == '+' || c == '-'; });
  return fits ? scheme : std::string_view();
}

std::string local_path(const std::string& path) {
  const std::string_view scheme = scheme_of(path);
  if (scheme.empty()) return path;
  if (scheme == "file") return path.substr(scheme.size() + 3);
  fail(Code::unimplemented, "File system scheme '", scheme, "' not implemented (file: '", path,
       "'): copy the file to a local disk.");
}

FileSource::FileSource(std::string path) : path_(std::move(path)) {
  std::string local = local_path(path_);
  if (local.find('\0') != std::string::npos) fail(Code::invalid_argument, path_, "; a path cannot contain a zero byte");
  // Not blocking: a pipe under this name must not hang the program.
  do fd_ = open(local.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  while (fd_ < 0 && errno == EINTR);
  if (fd_ < 0) fail_with_errno(errno, "open", path_);
  struct stat info;
  if (fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) {
    bool directory = S_ISDIR(info.st_mode);
    close(fd_);
    if (directory) fail_with_errno(EISDIR, "read", path_);
    fail(Code::failed_precondition, path_, "; not a regular file");
  }
  posix_fadvise(fd_, 0, 0, POSIX_FADV_SEQUENTIAL);
}

FileSource::~FileSource() { close(fd_); }

size_t FileSource::read(char* to, size_t size) {
  constexpr uint64_t kFarthest = INT64_MAX;
  if (position_ > kFarthest - size) return 0;
  for (;;) {
    ssize_t count = pread(fd_, to, std::min<size_t>(size, 1 << 30), static_cast<off_t>(position_));
    if (count >= 0) {
      position_ += static_cast<uint64_t>(count);
      return static_cast<size_t>(count);
    }
    if (errno != EINTR) fail_with_errno(errno, cat("read at ", position_), path_);
  }
}

uint64_t FileSource::size_hint() const {
  struct stat info;
  return fstat(fd_, &info) == 0 && info.st_size > 0 ? static_cast<uint64_t>(info.st_size) : 0;
}

}  // namespace thalweg
