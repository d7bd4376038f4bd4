// Reading and writing files in one go.
#include "io/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "checkpoint/files.h"
#include "io/byte_source.h"

namespace thalweg {
namespace {

void make_directories(const std::string& directory) {
  if (directory.empty() || mkdir(directory.c_str(), 0777) == 0 || errno != ENOENT) return;
  size_t slash = directory.rfind('/');
  if (slash == std::string::npos || slash == 0) return;
  make_directories(directory.substr(0, slash));
  mkdir(directory.c_str(), 0777);  // What goes wrong here is reported when the file is opened.
}

}  // namespace

std::string read_whole_file(const std::string& path) {
  FileSource file(path);
  std::string out;
  size_t size = 0;
  // One byte more than is expected, so that a file of the expected size ends with the second read.
  for (size_t more = static_cast<size_t>(file.size_hint()) + 1;; more = std::max<size_t>(size / 2, 4096)) {
    out.resize(size + more);
    while (size < out.size()) {
      size_t count = file.read(out.data() + size, out.size() - size);
      size += count;
      if (count == 0) {
        out.resize(size);
        return out;
      }
    }
  }
}

void write_whole_file(const std::string& path, std::string_view content) {
  std::string local = local_path(path);
  make_directories(directory_of(local));
  int fd;
  do fd = open(local.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0666);
  while (fd < 0 && errno == EINTR);
  if (fd < 0) fail_with_errno(errno, "create", path);
  int failed = 0;
  while (!content.empty() && failed == 0) {
    ssize_t count = write(fd, content.data(), std::min<size_t>(content.size(), 1 << 30));
    if (count >= 0)
      content.remove_prefix(static_cast<size_t>(count));
    else if (errno != EINTR)
      failed = errno;
  }
  if (close(fd) != 0 && failed == 0 && errno != EINTR)
    failed = errno;  // Some file systems tell of a full disk only now.
  if (failed != 0) fail_with_errno(failed, "write", path);
}

}  // namespace thalweg
