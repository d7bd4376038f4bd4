// Readers of record, text and fixed-length files for Python, as iterators over bytes, and the writer of records.
#include "python/records.h"

#include <nanobind/nanobind.h>

#include <mutex>
#include <optional>

#include "io/fixed_length_reader.h"
#include "io/line_reader.h"
#include "io/record_reader.h"
#include "io/record_writer.h"
#include "python/gil.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace thalweg {
namespace {

// Text that need not be UTF-8, such as a path.
std::string to_string(nb::bytes bytes) { return {bytes.c_str(), bytes.size()}; }

// Releases the GIL while waiting for the lock: the lock's holder may need the GIL.
std::unique_lock<std::mutex> locked(std::mutex& mutex) {
  std::unique_lock lock(mutex, std::try_to_lock);
  if (!lock) {
    WithoutGil released;
    lock.lock();
  }
  return lock;
}

// A reader that several Python threads may use.
template <typename Reader>
class FileIterator {
 public:
  template <typename... Args>
  explicit FileIterator(std::in_place_t place, Args&&... args) : reader_(place, std::forward<Args>(args)...) {}

  nb::bytes next() {
    std::unique_lock lock = locked(mutex_);
    std::string_view record;
    bool found = reader_.has_value();
    if (ready()) {  // A record in memory is not worth releasing the GIL.
      found = reader_->next(record);
    } else if (found) {
      WithoutGil released;
      found = reader_->next(record);
    }
    if (!found) throw nb::stop_iteration();
    return nb::bytes(record.data(), record.size());
  }
  uint64_t position() {
    std::unique_lock lock = locked(mutex_);
    return open().position();
  }
  void seek(uint64_t position) {
    std::unique_lock lock = locked(mutex_);
    Reader& reader = open();
    WithoutGil released;
    reader.seek(position);
  }
  void close() {
    std::unique_lock lock = locked(mutex_);
    reader_.reset();
  }

 private:
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

// A writer that several Python threads may use, on the same terms.
class FileWriter {
 public:
  explicit FileWriter(std::string path) : writer_(std::move(path)) {}

  void write(nb::bytes record) {
    auto lock = locked(mutex_);
    constexpr size_t kWorthIt = 64 * 1024;  // Below that, releasing the GIL costs more than it gains.
    std::string_view content(record.c_str(), record.size());
    if (content.size() < kWorthIt) return writer_.write(content);
    WithoutGil released;
    writer_.write(content);
  }
  void flush() {
    auto lock = locked(mutex_);
    WithoutGil released;
    writer_.flush();
  }
  void close() {
    auto lock = locked(mutex_);
    WithoutGil released;
    writer_.close();
  }

 private:
  std::mutex mutex_;
  RecordWriter writer_;
};

template <typename Reader>
nb::class_<FileIterator<Reader>> bind(nb::module_& m, const char* name, const char* doc) {
  using Iterator = FileIterator<Reader>;
  return nb::class_<Iterator>(m, name, doc)
      .def(
          "__iter__", [](nb::handle self) { return nb::borrow(self); },
          nb::sig("def __iter__(self) -> collections.abc.Iterator[bytes]"))
      .def("__next__", &Iterator::next, nb::call_guard<NativeCall>())
      .def("close", &Iterator::close, nb::call_guard<NativeCall>(), "Closes the file; there are no more records then.")
      .def("seek", &Iterator::seek, "position"_a, nb::call_guard<NativeCall>(), "Continues at a `position` of before.")
      .def_prop_ro("position", &Iterator::position, nb::call_guard<NativeCall>(),
                   "Where the next record begins, in decompressed bytes.");
}

}  // namespace

void bind_records(nb::module_& m) {
  m.def(
      "framed_record",
      [](nb::bytes content) {
        std::string out;
        out.reserve(content.size() + RecordReader::kHeader + RecordReader::kFooter);
        append_record(out, {content.c_str(), content.size()});
        return nb::bytes(out.data(), out.size());
      },
      "content"_a, "A record with its length and checksums, as it stands in a TFRecord file.");
  nb::class_<FileWriter>(m, "RecordWriter", "Writes a TFRecord file.")
      .def(nb::new_([](nb::bytes path) { return new FileWriter(to_string(path)); }), "path"_a)
      .def("write", &FileWriter::write, "record"_a, nb::call_guard<NativeCall>())
      .def("flush", &FileWriter::flush, nb::call_guard<NativeCall>())
      .def("close", &FileWriter::close, nb::call_guard<NativeCall>());
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
