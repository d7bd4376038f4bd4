// CSVDataset: the records of files of comma-separated values, one tensor per column.
#include "data/dataset.h"
#include "io/line_reader.h"
#include "kernel/registry.h"
#include "strings/csv_fields.h"
#include "strings/numbers.h"

namespace thalweg {
namespace {

struct Format {
  std::vector<std::string> files;
  Compression compression = Compression::none;
  size_t buffer_bytes = 0;
  bool header = false, quotes = true;
  char delimiter = ',';
  std::string missing;
  std::vector<int64_t> selected, excluded;
  std::vector<DType> types;
  Element defaults;
};

class Csv final : public Dataset {
 public:
  Csv(Signature signature, Format format)
      : Dataset(std::move(signature)), format_(std::make_shared<const Format>(std::move(format))) {}
  std::unique_ptr<DatasetIterator> iterate(const Making&) const override { return std::make_unique<Walk>(format_); }

 private:
  struct Walk final : DatasetIterator {
    explicit Walk(std::shared_ptr<const Format> format) : format(std::move(format)) {}
    Pulled next(Pull&, Element& out) override {
      while (file < format->files.size()) {
        if (!reader) open();
        if (next_record()) {
          parse(out);
          return Pulled::element;
        }
        reader.reset();
        ++file;
      }
      return Pulled::end;
    }
    void open() {
      std::string_view line;
      try {
        reader = std::make_unique<LineReader>(format->files[file], format->compression, format->buffer_bytes);
        if (format->header)
          require(reader->next(line), "Can't read header of file ", format->files[file], ": it is empty");
      } catch (...) {
        // The next pull goes on with the next file.
        reader.reset();
        ++file;
        throw;
      }
    }
    // A quoted field may contain line ends: lines belong together while a quote is open.
    bool next_record() {
      if (!reader->next(record)) return false;
      if (!format->quotes) return true;
      auto quotes = std::count(record.begin(), record.end(), '"');
      while (quotes % 2 != 0) {
        if (!reader->next(line)) break;
        quotes += std::count(line.begin(), line.end(), '"');
        record.append("\n").append(line);
      }
      return true;
    }
    void parse(Element& out) {
      CsvFields fields(record, format->delimiter, format->quotes);
      out.resize(format->types.size());
      size_t output = 0, choice = 0;
      for (int64_t column = 0; fields.next(); ++column) {
        if (!format->selected.empty()) {
          if (choice == format->selected.size()) break;
          if (format->selected[choice] != column) continue;
          ++choice;
        } else if (std::binary_search(format->excluded.begin(), format->excluded.end(), column)) {
          continue;
        }
        if (output < out.size()) out[output] = value(fields.value(), output);
        ++output;
      }
      require(output == out.size(), "Expect ", out.size(), " fields but have ", output, " in record");
    }
    Tensor value(std::string_view field, size_t i) const {
      const Tensor& otherwise = format->defaults[i];
      if (field.empty() || field == format->missing) {
        require(otherwise.num_elements() == 1, "Field ", i, " is required but missing in record!");
        return otherwise.reshaped(Shape{});
      }
      Tensor out(format->types[i], Shape{});
      if (out.dtype() == DType::string) {
        out.strings()->assign(field);
        return out;
      }
      dispatch(out.dtype(), Types<DType::float32, DType::float64, DType::int32, DType::int64>{}, [&]<typename T>() {
        require(parse_number(field, out.flat<T>()), "Field ", i, " in record is not a valid ", out.dtype(), ": ",
                field);
      });
      return out;
    }
    void save(StateWriter& out) override {
      out.tag("CSVDataset");
      out.integer(static_cast<int64_t>(file));
      out.integer(reader ? static_cast<int64_t>(reader->position()) : -1);
    }
    void restore(StateReader& in) override {
      in.tag("CSVDataset");
      file = static_cast<size_t>(std::max<int64_t>(0, in.integer()));
      int64_t position = in.integer();
      reader.reset();
      if (position >= 0 && file < format->files.size()) {
        open();
        reader->seek(static_cast<uint64_t>(position));
      }
    }
    const std::shared_ptr<const Format> format;
    std::unique_ptr<LineReader> reader;
    size_t file = 0;
    std::string record, line;
  };
  const std::shared_ptr<const Format> format_;
};

std::vector<int64_t> columns(const Tensor& input, const char* what) {
  require(input.rank() == 1, "`", what, "` must be a vector, got shape ", input.shape());
  std::vector<int64_t> out = to_int64s(input);
  for (size_t i = 0; i < out.size(); ++i) {
    require(out[i] >= 0, what, " should be non-negative indices, got ", out[i]);
    require(i == 0 || out[i - 1] < out[i], what, " should be strictly increasing indices, got ", out[i], " after ",
            out[i - 1]);
  }
  return out;
}

void csv(Context& ctx) {
  Signature signature = declared_signature(ctx.def());
  Format format;
  const Tensor& files = ctx.input(0);
  require(files.rank() <= 1, "`filenames` must be a scalar or a vector, got shape ", files.shape());
  format.files.assign(files.strings(), files.strings() + files.num_elements());
  format.compression = compression_from_name(string_input(ctx, 1, "compression_type"));
  int64_t bytes = int_input(ctx, 2, "buffer_size");
  require(bytes >= 0, "buffer_size should be positive, got ", bytes);
  format.buffer_bytes = static_cast<size_t>(std::min<int64_t>(bytes, 64 << 20));
  format.header = bool_input(ctx, 3, "header");
  const std::string& delimiter = string_input(ctx, 4, "field_delim");
  require(delimiter.size() == 1, "field_delim should be only 1 char, got '", delimiter, "'");
  format.delimiter = delimiter[0];
  format.quotes = bool_input(ctx, 5, "use_quote_delim");
  format.missing = string_input(ctx, 6, "na_value");
  format.selected = columns(ctx.input(7), "select_cols");
  const int count = static_cast<int>(signature.types.size());
  for (int i = 0; i < count; ++i) {
    const Tensor& value = ctx.input(8 + i);
    require(value.dtype() == signature.types[static_cast<size_t>(i)], "record default ", i, " has type ",
            value.dtype());
    require(value.rank() <= 1 && value.num_elements() <= 1,
            "Each record default should be a scalar or empty, but field ", i, " has shape ", value.shape());
    format.defaults.push_back(value.owned());
  }
  if (ctx.num_inputs() > 8 + count) format.excluded = columns(ctx.input(8 + count), "exclude_cols");
  require(format.selected.empty() || format.excluded.empty(), "Either select_cols or exclude_cols should be empty");
  require(format.selected.empty() || format.selected.size() == signature.types.size(),
          "select_cols should match output size: ", format.selected.size(), " columns for ", count, " outputs");
  format.types = signature.types;
  set_dataset<Csv>(ctx, std::move(signature), std::move(format));
}

REGISTER(kernel("CSVDataset").function<csv>());
REGISTER(kernel("ExperimentalCSVDataset").function<csv>());
REGISTER(kernel("CSVDatasetV2").function<csv>());

}  // namespace
}  // namespace thalweg
