// Fuzzes the parsers of files and texts: any bytes (make fuzz-native).
//
// The first byte chooses the parser: readers of records, lines and fixed lengths with each compression, an index of a
// checkpoint, a TensorProto, comma-separated values, a regular expression with a text.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <string>
#include <string_view>

#include "checkpoint/table.h"
#include "error.h"
#include "io/fixed_length_reader.h"
#include "io/line_reader.h"
#include "io/record_reader.h"
#include "io/record_writer.h"
#include "io/tensor_proto.h"
#include "regex/regex.h"
#include "strings/csv_fields.h"

namespace {

using namespace thalweg;

// A file in memory, under a name that readers can open.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view content) : fd_(memfd_create("fuzz", MFD_CLOEXEC)) {
    if (write(fd_, content.data(), content.size()) != static_cast<ssize_t>(content.size())) std::abort();
  }
  ~MemoryFile() { close(fd_); }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  const int fd_;
};

template <typename Reader>
void read_all(Reader reader) {
  std::string_view record;
  size_t bytes = 0;
  // A small compressed file may hold gigabytes.
  while (bytes < (1 << 22) && reader.next(record)) bytes += record.size() + 1;
}

// The parts of an input that a byte splits.
std::pair<std::string_view, std::string_view> halves(std::string_view input) {
  const size_t first = input.empty() ? 0 : std::min<size_t>(static_cast<uint8_t>(input[0]), input.size() - 1);
  return {input.substr(!input.empty(), first), input.substr(std::min(input.size(), first + 1))};
}

void parse(uint8_t kind, std::string_view input) {
  const Compression compression = std::array{Compression::none, Compression::zlib, Compression::gzip}[kind / 8 % 3];
  switch (kind % 8) {
    case 0:
      return read_all(RecordReader(MemoryFile(input).path(), compression, 64));
    case 1: {
      // With checksums that hold, so that the content reaches the reader.
      std::string framed;
      auto [first, second] = halves(input);
      append_record(framed, first);
      append_record(framed, second);
      return read_all(RecordReader(MemoryFile(framed).path(), Compression::none, 64));
    }
    case 2:
      return read_all(LineReader(MemoryFile(input).path(), compression, 32));
    case 3:
      return read_all(
          FixedLengthReader(MemoryFile(input).path(), {kind / 32 + 1, kind / 64, kind / 128, 0}, compression));
    case 4:
      Table(std::string(input), "index");
      return;
    case 5: {
      tensor_proto::Values values;
      for (DType dtype : {DType::float32, DType::int64, DType::string})
        if (tensor_proto::read(input, dtype, values) && values.given(dtype) < 1000) {
          Tensor out(dtype, Shape({8}));
          tensor_proto::fill(values, out);
        }
      return;
    }
    case 6:
      for (CsvFields fields(input, ',', kind & 8); fields.next();) fields.value();
      return;
    default: {
      auto [pattern, text] = halves(input);
      const regex::Regex compiled(pattern);
      compiled.matches_all_of(text);
      compiled.replaced(text, "\\0", kind & 8);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  try {
    parse(data[0], {reinterpret_cast<const char*>(data) + 1, size - 1});
  } catch (const thalweg::Error&) {
    // Refused, as it should be.
  }
  return 0;
}
