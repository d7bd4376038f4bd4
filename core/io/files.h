// Files that appear whole or not at all: written under a temporary name, synced, and renamed.
//
// A PendingFile holds a lock on itself while it exists, so that the leftovers of a process that was killed can be told
// from the files of one that is still writing. DirectoryLock keeps two writers of one directory from interleaving their
// renames. Both locks vanish with the process. On file systems without locks, nothing is locked and nothing cleaned up.
#pragma once

#include <cstdint>
#include <string>

namespace thalweg {

// Throws the Error equivalent of an errno, naming the file.
[[noreturn]] void fail_with_errno(int number, const std::string& what, const std::string& path);

std::string directory_of(const std::string& path);
bool exists(const std::string& path);
void sync_directory(const std::string& directory);
void rename_file(const std::string& from, const std::string& to);
// All bytes of a file.
std::string read_file(const std::string& path);

class DirectoryLock {
 public:
  explicit DirectoryLock(const std::string& directory);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;

 private:
  int fd_ = -1;
};

class PendingFile {
 public:
  // Creates a file beside `target`. With `locked`, the caller holds the lock of the directory.
  PendingFile(const std::string& target, bool locked);
  // Removes the file, unless it was renamed.
  ~PendingFile();
  PendingFile(const PendingFile&) = delete;

  void append(const void* data, size_t size);
  uint64_t size() const { return size_; }
  const std::string& path() const { return path_; }
  // Flushes all data to the disk.
  void sync();
  // Gives up ownership: the destructor will not remove the file, which the caller has renamed.
  void forget() { path_.clear(); }
  // Gives it its name; the data must be synced.
  void rename_to(const std::string& path);

 private:
  void flush();
  void write_out(const char* data, size_t size);

  std::string path_;
  std::string buffer_;
  uint64_t size_ = 0;
  uint64_t started_ = 0;  // How far the disk was told to begin writing.
  uint64_t written_ = 0;
  int fd_ = -1;
};

// A file open for reading at any place, by several threads.
class ReadableFile {
 public:
  explicit ReadableFile(const std::string& path);
  ~ReadableFile();
  ReadableFile(const ReadableFile&) = delete;
  uint64_t size() const { return size_; }
  const std::string& path() const { return path_; }
  // Reads exactly `size` bytes; returns 0, an errno, or -1 at the end of the file. Does not throw.
  int read(void* to, size_t size, uint64_t offset) const;

 private:
  std::string path_;
  int fd_;
  uint64_t size_;
};

}  // namespace thalweg
