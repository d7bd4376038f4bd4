// Choosing between local files and those of other file systems.
#include "io/remote_files.h"

namespace thalweg {
namespace {

const RemoteFiles* installed = nullptr;

}  // namespace

void set_remote_files(const RemoteFiles* files) { installed = files; }

const RemoteFiles* remote_files_of(const std::string& path) {
  std::string_view scheme = scheme_of(path);
  return scheme.empty() || scheme == "file" ? nullptr : installed;
}

std::unique_ptr<ByteSource> open_source(const std::string& path) {
  if (const RemoteFiles* remote = remote_files_of(path)) return remote->open(path);
  return std::make_unique<FileSource>(path);
}

}  // namespace thalweg
