// The records and lines of files, one file after the other.
#include "data/dataset.h"
#include "io/fixed_length_reader.h"
#include "io/line_reader.h"
#include "io/record_reader.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

struct Opening {
  std::vector<std::string> files;
  Compression compression = Compression::none;
  size_t buffer_bytes = 0;
  FixedLengthFormat format;
};

struct Lines {
  static constexpr const char* kTag = "TextLineDataset";
  using Reader = LineReader;
  static Reader* open(const Opening& o, const std::string& file) {
    return new LineReader(file, o.compression, o.buffer_bytes);
  }
  static void check(const Reader&) {}
};

struct Records {
  static constexpr const char* kTag = "TFRecordDataset";
  using Reader = RecordReader;
  static Reader* open(const Opening& o, const std::string& file) {
    return new RecordReader(file, o.compression, o.buffer_bytes);
  }
  static void check(const Reader&) {}
};

struct FixedLength {
  static constexpr const char* kTag = "FixedLengthRecordDataset";
  using Reader = FixedLengthReader;
  static Reader* open(const Opening& o, const std::string& file) {
    return new FixedLengthReader(file, o.format, o.compression, o.buffer_bytes);
  }
  static void check(const Reader& reader) {
    require(reader.remainder() == 0, "Excess bytes of ", reader.remainder(), " in input file ", reader.path(),
            ": it does not consist of whole records");
  }
};

template <typename Kind>
class Files final : public Dataset {
 public:
  explicit Files(Opening opening)
      : Dataset({{DType::string}, {PartialShape{true, {}}}}),
        opening_(std::make_shared<const Opening>(std::move(opening))) {}
  std::unique_ptr<DatasetIterator> iterate(const Making&) const override { return std::make_unique<Walk>(opening_); }

 private:
  struct Walk final : DatasetIterator {
    explicit Walk(std::shared_ptr<const Opening> opening) : opening(std::move(opening)) {}
    Pulled next(Pull&, Element& out) override {
      while (file < opening->files.size()) {
        try {
          if (!reader) reader.reset(Kind::open(*opening, opening->files[file]));
          out.resize(1);
          Tensor record(DType::string, Shape{});
          if (reader->next(*record.strings())) {
            out[0] = std::move(record);
            return Pulled::element;
          }
          Kind::check(*reader);
        } catch (...) {
          // A file that is missing or damaged is passed over by the next pull.
          reader.reset();
          ++file;
          throw;
        }
        reader.reset();
        ++file;
      }
      return Pulled::end;
    }
    void save(StateWriter& out) override {
      out.tag(Kind::kTag);
      out.integer(static_cast<int64_t>(file));
      out.integer(reader ? static_cast<int64_t>(reader->position()) : -1);
    }
    void restore(StateReader& in) override {
      in.tag(Kind::kTag);
      file = static_cast<size_t>(std::max<int64_t>(0, in.integer()));
      int64_t position = in.integer();
      reader.reset();
      if (position >= 0 && file < opening->files.size()) {
        reader.reset(Kind::open(*opening, opening->files[file]));
        reader->seek(static_cast<uint64_t>(position));
      }
    }
    const std::shared_ptr<const Opening> opening;
    std::unique_ptr<typename Kind::Reader> reader;
    size_t file = 0;
  };
  const std::shared_ptr<const Opening> opening_;
};

std::vector<std::string> names(Context& ctx) {
  const Tensor& files = ctx.input(0);
  require(files.dtype() == DType::string && files.rank() <= 1, "`filenames` must be a scalar or a vector, got shape ",
          files.shape());
  return {files.strings(), files.strings() + files.num_elements()};
}

size_t buffer_bytes(Context& ctx, int i) {
  int64_t bytes = int_input(ctx, i, "buffer_size");
  require(bytes >= 0, "`buffer_size` must be >= 0 (0 == default), got ", bytes);
  // The default of the readers is better than small ones; a claim beyond this is not worth its memory.
  constexpr int64_t kMost = 64 << 20, kLeast = 64 << 10;
  return bytes == 0 ? 0 : static_cast<size_t>(std::clamp(bytes, kLeast, kMost));
}

template <typename Kind>
void files(Context& ctx) {
  Opening opening;
  opening.files = names(ctx);
  opening.compression = compression_from_name(string_input(ctx, 1, "compression_type"));
  opening.buffer_bytes = buffer_bytes(ctx, 2);
  set_dataset<Files<Kind>>(ctx, std::move(opening));
}

void fixed_length(Context& ctx) {
  Opening opening;
  opening.files = names(ctx);
  opening.format.header_bytes = int_input(ctx, 1, "header_bytes");
  opening.format.record_bytes = int_input(ctx, 2, "record_bytes");
  opening.format.footer_bytes = int_input(ctx, 3, "footer_bytes");
  opening.format.check();
  opening.buffer_bytes = buffer_bytes(ctx, 4);
  if (ctx.num_inputs() > 5) opening.compression = compression_from_name(string_input(ctx, 5, "compression_type"));
  set_dataset<Files<FixedLength>>(ctx, std::move(opening));
}

REGISTER(kernel("TextLineDataset").function<files<Lines>>());
REGISTER(kernel("TFRecordDataset").function<files<Records>>());
REGISTER(kernel("FixedLengthRecordDataset").function<fixed_length>());
REGISTER(kernel("FixedLengthRecordDatasetV2").function<fixed_length>());

}  // namespace
}  // namespace thalweg
