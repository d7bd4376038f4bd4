// Files of other file systems for the core: each call takes the GIL, which Python gives away while it waits.
#include "python/remote_files.h"

#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstring>

#include "io/remote_files.h"
#include "python/gil.h"
#include "python/python_kernel.h"

namespace nb = nanobind;

namespace thalweg {
namespace {

constexpr const char* kModule = "thalweg.platform.remote_files";

// Calls a method of `object` and returns its result; throws the Error equivalent of an exception. With the GIL.
template <typename... Args>
nb::object call(nb::handle object, const char* method, const Args&... args) {
  try {
    nb::object name = nb::str(method);
    nb::object result = nb::steal(
        or_rest([&] { return PyObject_CallMethodObjArgs(object.ptr(), name.ptr(), args.ptr()..., nullptr); }));
    if (!result.is_valid()) throw nb::python_error();
    return result;
  } catch (nb::python_error& exception) {
    throw error_from_python(exception);
  }
}

nb::object module() {
  try {
    return nb::module_::import_(kModule);
  } catch (nb::python_error& exception) {
    throw error_from_python(exception);
  }
}

nb::bytes bytes_of(std::string_view text) { return nb::bytes(text.data(), text.size()); }

// A file object of Python's.
class PythonSource final : public ByteSource {
 public:
  explicit PythonSource(const std::string& path) {
    WithGil gil;
    file_ = call(module(), "open_remote", bytes_of(path));
  }
  ~PythonSource() override {
    if (!nb::is_alive()) {
      file_.release();
      return;
    }
    WithGil gil;
    try {
      call(file_, "close");
    } catch (const Error&) {
      // Nothing was written to it.
    }
    file_.reset();
  }
  size_t read(char* to, size_t size) override {
    WithGil gil;
    nb::object data = call(file_, "read", nb::int_(size));
    if (!PyBytes_Check(data.ptr()))
      fail(Code::internal, "a file object of Python's read ", Py_TYPE(data.ptr())->tp_name, " in place of bytes");
    const size_t count = std::min(size, static_cast<size_t>(PyBytes_GET_SIZE(data.ptr())));
    std::memcpy(to, PyBytes_AS_STRING(data.ptr()), count);
    return count;
  }
  void seek(uint64_t position) override {
    WithGil gil;
    call(file_, "seek", nb::int_(position));
  }

 private:
  nb::object file_;
};

class PythonFiles final : public RemoteFiles {
 public:
  std::unique_ptr<ByteSource> open(const std::string& path) const override {
    return std::make_unique<PythonSource>(path);
  }
  void write(const std::string& path, std::string_view content) const override {
    WithGil gil;
    call(module(), "write_remote", bytes_of(path), bytes_of(content));
  }
  void upload(const std::string& local, const std::string& path) const override {
    WithGil gil;
    call(module(), "upload", bytes_of(local), bytes_of(path));
  }
  bool exists(const std::string& path) const override {
    WithGil gil;
    return call(module(), "exists_remotely", bytes_of(path)).is(nb::handle(Py_True));
  }
};

}  // namespace

void install_remote_files() {
  static const PythonFiles files;
  set_remote_files(&files);
}

}  // namespace thalweg
