// Files of other file systems: paths with a scheme, such as s3://bucket/file, which the interpreter reaches.
//
// The binding installs a RemoteFiles when the module is loaded; without one, such paths are refused. `open_source` is
// the way to read any file in order, local or not.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "io/byte_source.h"

namespace thalweg {

class RemoteFiles {
 public:
  virtual ~RemoteFiles() = default;
  virtual std::unique_ptr<ByteSource> open(const std::string& path) const = 0;
  // Replaces or creates a file; it appears whole.
  virtual void write(const std::string& path, std::string_view content) const = 0;
  // The same with the content of a local file.
  virtual void upload(const std::string& local, const std::string& path) const = 0;
  virtual bool exists(const std::string& path) const = 0;
};

// Before any thread reads files. Lives as long as the process.
void set_remote_files(const RemoteFiles* files);
// The file system of a path that has a scheme other than file://; null for a local path, or if none is installed.
const RemoteFiles* remote_files_of(const std::string& path);

std::unique_ptr<ByteSource> open_source(const std::string& path);

}  // namespace thalweg
