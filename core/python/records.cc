// Readers of record, text and fixed-length files for Python, as iterators over bytes.
#include "python/records.h"

#include <nanobind/nanobind.h>

#include <mutex>
#include <optional>

#include "io/fixed_length_reader.h"
#include "io/line_reader.h"
#include "io/record_reader.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace thalweg {
namespace {

// Text that need not be UTF-8, such as a path.
std::string to_string(nb::bytes bytes) { return {bytes.c_str(), bytes.size()}; }

// A reader that several Python threads may use. Nobody waits for the lock while holding the GIL.
template <typename Reader>
class FileIterator {
 public:
  template <typename... Args>
  explicit FileIterator(std::in_place_t place, Args&&... args) : reader_(place, std::forward<Args>(args)...) {}

  nb::bytes next() {
    std::unique_lock lock = locked();
    std::string_view record;
    bool found = reader_.has_value();
    if (ready()) {  // What is in memory is not worth giving the GIL away.
      found = reader_->next(record);
    } else if (found) {
      nb::gil_scoped_release release;
      found = reader_->next(record);
    }
    if (!found) throw nb::stop_iteration();
    return nb::bytes(record.data(), record.size());
  }
  uint64_t position() {
    std::unique_lock lock = locked();
    return open().position();
  }
  void seek(uint64_t position) {
    std::unique_lock lock = locked();
    Reader& reader = open();
    nb::gil_scoped_release release;
    reader.seek(position);
  }
  void close() {
    std::unique_lock lock = locked();
    reader_.reset();
  }

 private:
  std::unique_lock<std::mutex> locked() {
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) {
      nb::gil_scoped_release release;
      lock.lock();
    }
    return lock;
  }
  Reader& open() {
    if (!reader_) fail(Code::failed_precondition, "the reader is closed");
    return *reader_;
  }
  bool ready() const {
    if constexpr (requires { reader_->ready(); }) return reader_ && reader_->ready();
    return false;
  }

  std::mutex mutex_;
  std::optional<Reader> reader_;
};

template <typename Reader>
nb::class_<FileIterator<Reader>> bind(nb::module_& m, const char* name, const char* doc) {
  using Iterator = FileIterator<Reader>;
  return nb::class_<Iterator>(m, name, doc)
      .def("__iter__", [](nb::handle self) { return nb::borrow(self); })
      .def("__next__", &Iterator::next)
      .def("close", &Iterator::close, "Closes the file; there are no more records then.")
      .def("seek", &Iterator::seek, "position"_a, "Goes on at a position that was asked for before.")
      .def_prop_ro("position", &Iterator::position, "Where the next record begins, in decompressed bytes.");
}

}  // namespace

void bind_records(nb::module_& m) {
  bind<RecordReader>(m, "RecordReader", "The records of a TFRecord file.")
      .def(nb::new_([](nb::bytes path, nb::bytes compression, size_t buffer_bytes) {
             return new FileIterator<RecordReader>(std::in_place, to_string(path),
                                                   compression_from_name(to_string(compression)), buffer_bytes);
           }),
           "path"_a, "compression"_a = nb::bytes(""), "buffer_bytes"_a = 0);
  bind<LineReader>(m, "LineReader", "The lines of a text file.")
      .def(nb::new_([](nb::bytes path, nb::bytes compression, size_t buffer_bytes) {
             return new FileIterator<LineReader>(std::in_place, to_string(path),
                                                 compression_from_name(to_string(compression)), buffer_bytes);
           }),
           "path"_a, "compression"_a = nb::bytes(""), "buffer_bytes"_a = 0);
  bind<FixedLengthReader>(m, "FixedLengthReader", "Records of one size.")
      .def(nb::new_([](nb::bytes path, int64_t record_bytes, int64_t header_bytes, int64_t footer_bytes,
                       int64_t hop_bytes, nb::bytes compression, size_t buffer_bytes) {
             FixedLengthFormat format{record_bytes, header_bytes, footer_bytes, hop_bytes};
             return new FileIterator<FixedLengthReader>(std::in_place, to_string(path), format,
                                                        compression_from_name(to_string(compression)), buffer_bytes);
           }),
           "path"_a, "record_bytes"_a, "header_bytes"_a = 0, "footer_bytes"_a = 0, "hop_bytes"_a = 0,
           "compression"_a = nb::bytes(""), "buffer_bytes"_a = 0);
}

}  // namespace thalweg
