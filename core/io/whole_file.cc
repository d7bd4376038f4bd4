// Reading and writing files in one go.
#include "io/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "error.h"
#include "io/files.h"
#include "io/remote_files.h"

namespace thalweg {
namespace {

void make_directories(const std::string& directory) {
  if (directory.empty() || mkdir(directory.c_str(), 0777) == 0 || errno != ENOENT) return;
  size_t slash = directory.rfind('/');
  if (slash == std::string::npos || slash == 0) return;
  make_directories(directory.substr(0, slash));
  mkdir(directory.c_str(), 0777);  // An error here is reported when the file is opened.
}

}  // namespace

std::string read_whole_file(const std::string& path) {
  std::unique_ptr<ByteSource> file = open_source(path);
  std::string out;
  size_t size = 0;
  // One byte more than is expected, so that a file of the expected size ends with the second read.
  for (size_t more = static_cast<size_t>(file->size_hint()) + 1;; more = std::max<size_t>(size / 2, 4096)) {
    out.resize(size + more);
    while (size < out.size()) {
      size_t count = file->read(out.data() + size, out.size() - size);
      size += count;
      if (count == 0) {
        out.resize(size);
        return out;
      }
    }
  }
}

void write_whole_file(const std::string& path, std::string_view content) {
  if (const RemoteFiles* remote = remote_files_of(path)) return remote->write(path, content);
  make_directories(directory_of(local_path(path)));
  int fd = create_file(path);
  try {
    write_all(fd, content, path);
  } catch (const Error&) {
    close(fd);
    throw;
  }
  close_file(fd, path);
}

int create_file(const std::string& path) {
  std::string local = local_path(path);
  if (local.find('\0') != std::string::npos) fail(Code::invalid_argument, path, "; a path cannot contain a zero byte");
  int fd;
  // Not blocking: a pipe under this name must not hang the program.
  do fd = open(local.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0666);
  while (fd < 0 && errno == EINTR);
  if (fd < 0) fail_with_errno(errno, "create", path);
  return fd;
}

void write_all(int fd, std::string_view content, const std::string& path) {
  while (!content.empty()) {
    ssize_t count = write(fd, content.data(), std::min<size_t>(content.size(), 1 << 30));
    if (count >= 0)
      content.remove_prefix(static_cast<size_t>(count));
    else if (errno != EINTR)
      fail_with_errno(errno, "write", path);
  }
}

void close_file(int fd, const std::string& path) {
  // Some file systems tell of a full disk only now.
  if (close(fd) != 0 && errno != EINTR) fail_with_errno(errno, "write", path);
}

}  // namespace thalweg
