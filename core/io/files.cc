// Files that appear whole or not at all, on POSIX.
#include "io/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <optional>
#include <set>
#include <system_error>
#include <thread>

#include "error.h"

namespace thalweg {
namespace {

constexpr size_t kWriteBuffer = 256 * 1024;
constexpr uint64_t kWriteBehind = 32 << 20;
constexpr std::string_view kMark = ".writing-";
constexpr size_t kMarkDigits = 16;

Code code_of(int number) {
  switch (number) {
    case ENOENT:
      return Code::not_found;
    case EACCES:
    case EPERM:
    case EROFS:
      return Code::permission_denied;
    case EISDIR:
    case ENOTDIR:
    case ENOTEMPTY:
      return Code::failed_precondition;
    case EINVAL:
    case ENAMETOOLONG:
    case ELOOP:
      return Code::invalid_argument;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return Code::resource_exhausted;
    case EIO:
      return Code::data_loss;
    default:
      return Code::unknown;
  }
}

template <typename Call>
auto retried(const Call& call) {
  for (;;) {
    auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

bool is_temporary(std::string_view name) {
  size_t at = name.rfind(kMark);
  return at != std::string_view::npos && name.size() == at + kMark.size() + kMarkDigits &&
         name.find_first_not_of("0123456789abcdef", at + kMark.size()) == std::string_view::npos;
}

// Removes files of killed processes; the lock of the directory is held, so that no file is just being created.
void remove_abandoned(const std::string& directory) {
  static std::mutex mutex;
  static std::set<std::string> seen;  // Once per directory: listing it is not free.
  {
    std::lock_guard lock(mutex);
    if (!seen.insert(directory).second) return;
  }
  DIR* listing = opendir(directory.c_str());
  if (listing == nullptr) return;
  while (dirent* entry = readdir(listing)) {
    if (!is_temporary(entry->d_name)) continue;
    std::string path = directory + "/" + entry->d_name;
    int fd = retried([&] { return open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK); });
    if (fd < 0) continue;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) unlink(path.c_str());
    close(fd);
  }
  closedir(listing);
}

}  // namespace

void fail_with_errno(int number, const std::string& what, const std::string& path) {
  fail(code_of(number), path, "; cannot ", what, ": ", std::generic_category().message(number));
}

std::string directory_of(const std::string& path) {
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

bool exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

void sync_directory(const std::string& directory) {
  int fd = retried([&] { return open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (fd < 0) return;
  // Some file systems refuse to sync a directory; they have nothing to sync, then.
  int result = retried([&] { return fsync(fd); });
  int number = errno;
  close(fd);
  if (result < 0 && number != EINVAL && number != EROFS && number != EBADF)
    fail_with_errno(number, "sync the directory", directory);
}

void rename_file(const std::string& from, const std::string& to) {
  if (rename(from.c_str(), to.c_str()) != 0) fail_with_errno(errno, "rename " + from + " to this name", to);
}

std::string read_file(const std::string& path) {
  ReadableFile file(path);
  std::string out(file.size(), '\0');
  int result = file.read(out.data(), out.size(), 0);
  if (result > 0) fail_with_errno(result, "read", path);
  if (result < 0) fail(Code::data_loss, path, "; the file became shorter while it was read");
  return out;
}

DirectoryLock::DirectoryLock(const std::string& directory) {
  fd_ = retried([&] { return open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (fd_ < 0) fail_with_errno(errno, "open the directory", directory);
  auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (flock(fd_, LOCK_EX | LOCK_NB) != 0 && (errno == EWOULDBLOCK || errno == EINTR)) {
    if (std::chrono::steady_clock::now() > give_up) {
      close(fd_);
      fail(Code::unavailable, directory, "; another process has kept this directory locked for a minute");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

DirectoryLock::~DirectoryLock() {
  if (fd_ < 0) return;
  // A child that was forked meanwhile holds the lock, too: closing alone would not release it.
  flock(fd_, LOCK_UN);
  close(fd_);
}

PendingFile::PendingFile(const std::string& target, bool locked) {
  std::string directory = directory_of(target);
  std::optional<DirectoryLock> lock;
  if (!locked) lock.emplace(directory);
  remove_abandoned(directory);
  uint64_t random = 0;
  do {
    if (getrandom(&random, sizeof(random), 0) != sizeof(random))
      random = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
    char digits[kMarkDigits + 1];
    std::snprintf(digits, sizeof(digits), "%016llx", static_cast<unsigned long long>(random));
    path_ = cat(target, kMark, digits);
    fd_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (fd_ < 0 && (errno == EEXIST || errno == EINTR));
  if (fd_ < 0) fail_with_errno(errno, "create", path_);
  flock(fd_, LOCK_EX | LOCK_NB);
}

PendingFile::~PendingFile() {
  if (!path_.empty()) unlink(path_.c_str());
  if (fd_ >= 0) close(fd_);
}

void PendingFile::append(const void* data, size_t size) {
  const char* from = static_cast<const char*>(data);
  size_ += size;
  if (buffer_.size() + size <= kWriteBuffer) {
    buffer_.append(from, size);
    return;
  }
  flush();
  if (size < kWriteBuffer)
    buffer_.append(from, size);
  else
    write_out(from, size);
}

void PendingFile::flush() {
  write_out(buffer_.data(), buffer_.size());
  buffer_.clear();
}

void PendingFile::write_out(const char* data, size_t size) {
  while (size > 0) {
    ssize_t count = retried([&] { return write(fd_, data, std::min<size_t>(size, 1 << 30)); });
    if (count < 0) fail_with_errno(errno, "write", path_);
    data += count;
    size -= static_cast<size_t>(count);
    written_ += static_cast<uint64_t>(count);
  }
  // Lets the disk work while the rest is being checksummed and copied; sync() waits for the remainder only.
  if (written_ - started_ >= kWriteBehind) {
    sync_file_range(fd_, static_cast<off_t>(started_), static_cast<off_t>(written_ - started_), SYNC_FILE_RANGE_WRITE);
    started_ = written_;
  }
}

void PendingFile::sync() {
  flush();
  if (retried([&] { return fsync(fd_); }) != 0) fail_with_errno(errno, "sync", path_);
}

void PendingFile::rename_to(const std::string& path) {
  rename_file(path_, path);
  path_.clear();
}

ReadableFile::ReadableFile(const std::string& path) : path_(path) {
  // Not blocking: a pipe under this name must not hang the program.
  fd_ = retried([&] { return open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); });
  if (fd_ < 0) fail_with_errno(errno, "open", path);
  struct stat info;
  if (fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd_);
    fail(Code::failed_precondition, path, "; not a regular file");
  }
  size_ = static_cast<uint64_t>(info.st_size);
}

ReadableFile::~ReadableFile() { close(fd_); }

int ReadableFile::read(void* to, size_t size, uint64_t offset) const {
  char* at = static_cast<char*>(to);
  while (size > 0) {
    ssize_t count = pread(fd_, at, std::min<size_t>(size, 1 << 30), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    if (count == 0) return -1;
    at += count;
    size -= static_cast<size_t>(count);
    offset += static_cast<uint64_t>(count);
  }
  return 0;
}

}  // namespace thalweg
