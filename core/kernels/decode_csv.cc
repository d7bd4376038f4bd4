// DecodeCSV: records of comma-separated values, quoted as RFC 4180 says, to one tensor per column.
#include "compute/parsing/record_blocks.h"
#include "kernel/registry.h"
#include "strings/csv_fields.h"
#include "strings/numbers.h"

namespace thalweg {
namespace {

using Columns = Types<DType::float32, DType::float64, DType::int32, DType::int64, DType::string>;

struct DecodeCsv : Kernel {
  explicit DecodeCsv(const Construction& c)
      : types(c.attr<std::vector<DType>>("OUT_TYPE")),
        quotes(c.attr<bool>("use_quote_delim", true)),
        missing(c.attr<std::string>("na_value", "")),
        selected(c.attr<std::vector<int64_t>>("select_cols", {})) {
    std::string delimiters = c.attr<std::string>("field_delim", ",");
    require(delimiters.size() == 1, "field_delim should be only 1 char, got '", delimiters, "'");
    delimiter = delimiters[0];
    require(selected.empty() || selected.size() == types.size(),
            "select_cols should match output size: ", selected.size(), " columns for ", types.size(), " outputs");
    for (size_t i = 0; i < selected.size(); ++i) {
      require(selected[i] >= 0, "select_cols should be non-negative indices, got ", selected[i]);
      require(i == 0 || selected[i - 1] < selected[i], "select_cols should be strictly increasing indices, got ",
              selected[i], " after ", selected[i - 1]);
    }
  }

  void compute(Context& ctx) override {
    const Tensor& records = ctx.input(0);
    std::vector<const Tensor*> defaults;
    std::vector<Tensor*> outputs;
    for (int i = 0; i < static_cast<int>(types.size()); ++i) {
      const Tensor& value = ctx.input(i + 1);
      require(value.rank() <= 1 && value.num_elements() <= 1, "There should only be 1 default per field but field ", i,
              " has ", value.num_elements());
      defaults.push_back(&value);
      outputs.push_back(&ctx.allocate(i, records.shape()));
    }
    RecordBlocks(records).for_each_row([&](int64_t, int64_t row) {
      CsvFields fields(records.strings()[row], delimiter, quotes);
      size_t column = 0, output = 0;
      for (; (selected.empty() || output < selected.size()) && fields.next(); ++column) {
        if (!selected.empty() && selected[output] != static_cast<int64_t>(column)) continue;
        // Fields beyond the last output are counted, for the message below.
        if (output < types.size()) store(fields.value(), output, row, *defaults[output], *outputs[output]);
        ++output;
      }
      require(output == types.size(), "Expect ", types.size(), " fields but have ", output, " in record ", row);
    });
  }

  void store(std::string_view field, size_t i, int64_t row, const Tensor& otherwise, Tensor& out) const {
    bool absent = field.empty() || field == missing;
    require(!absent || otherwise.num_elements() == 1, "Field ", i, " is required but missing in record ", row, "!");
    switch (types[i]) {
      case DType::string:
        if (absent)
          out.strings()[row] = *otherwise.strings();
        else
          out.strings()[row].assign(field);
        return;
      case DType::float32:
        return number<float>(field, absent, i, row, otherwise, out, "float");
      case DType::float64:
        return number<double>(field, absent, i, row, otherwise, out, "double");
      case DType::int32:
        return number<int32_t>(field, absent, i, row, otherwise, out, "int32");
      case DType::int64:
        return number<int64_t>(field, absent, i, row, otherwise, out, "int64");
      default:
        fail(Code::invalid_argument, "csv: data type ", types[i], " not supported in field ", i);
    }
  }

  template <typename T>
  static void number(std::string_view field, bool absent, size_t i, int64_t row, const Tensor& otherwise, Tensor& out,
                     const char* what) {
    T* to = out.flat<T>() + row;
    if (absent)
      *to = *otherwise.flat<T>();
    else
      require(parse_number(field, to), "Field ", i, " in record ", row, " is not a valid ", what, ": ", field);
  }

  const std::vector<DType> types;
  const bool quotes;
  const std::string missing;
  const std::vector<int64_t> selected;
  char delimiter;
};

REGISTER(kernel("DecodeCSV").make<DecodeCsv>());

}  // namespace
}  // namespace thalweg
