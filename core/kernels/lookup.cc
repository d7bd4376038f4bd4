// Lookup tables: the ops on hash tables, and filling one from a text file.
#include <charconv>
#include <fstream>

#include "kernel/registry.h"
#include "resource/handle_tensor.h"
#include "resource/hash_table.h"

namespace thalweg {
namespace {

template <bool is_static>
struct Create : Kernel {
  explicit Create(const Construction& c)
      : key(c.attr<DType>("key_dtype")),
        value(c.attr<DType>("value_dtype")),
        container(c.attr<std::string>("container", "")),
        name(c.attr<std::string>("shared_name", "")) {
    PartialShape declared = c.attr<PartialShape>("value_shape", PartialShape{true, {}});
    require(declared.fully_defined(), "value_shape must be fully defined, got ", declared);
    value_shape = Shape(declared.dims);
    if (name.empty()) name = c.def().name;
    if (container.empty()) cached = make(c.device());
  }
  // A named container may have been reset since the last step, so the table is looked up again.
  void compute(Context& ctx) override { ctx.set_output(0, cached.defined() ? cached : make(ctx.device())); }

  Tensor make(Device& device) const {
    auto table = device.resources.find_or_make<HashTable>(
        container, name, [&] { return std::make_shared<HashTable>(name, key, value, value_shape, is_static); });
    require(table->key_dtype() == key && table->value_dtype() == value, "table '", name, "' exists with keys of type ",
            table->key_dtype(), " and values of type ", table->value_dtype(), ", this node declares ", key, " and ",
            value);
    return handle_tensor({device.name, container, name, std::move(table)});
  }
  DType key, value;
  std::string container, name;
  Shape value_shape;
  Tensor cached;
};

void find(Context& ctx) { ctx.set_output(0, ctx.resource<HashTable>(0).find(ctx.input(1), ctx.input(2))); }
void insert(Context& ctx) { ctx.resource<HashTable>(0).insert(ctx.input(1), ctx.input(2)); }
void remove(Context& ctx) { ctx.resource<HashTable>(0).remove(ctx.input(1)); }
void import(Context& ctx) { ctx.resource<HashTable>(0).import(ctx.input(1), ctx.input(2)); }
void size(Context& ctx) { ctx.set_output(0, Tensor::scalar(ctx.resource<HashTable>(0).size())); }

void initialize(Context& ctx) {
  require(ctx.input(1).rank() <= 1, "keys must be a vector, got shape ", ctx.input(1).shape());
  ctx.resource<HashTable>(0).initialize(ctx.input(1), ctx.input(2));
}

void export_all(Context& ctx) {
  auto [keys, values] = ctx.resource<HashTable>(0).export_all();
  require(keys.dtype() == ctx.output_dtype(0) && values.dtype() == ctx.output_dtype(1), "the table holds ",
          keys.dtype(), " and ", values.dtype(), ", the op exports ", ctx.output_dtype(0), " and ",
          ctx.output_dtype(1));
  ctx.set_output(0, std::move(keys));
  ctx.set_output(1, std::move(values));
}

struct FromTextFile : Kernel {
  static constexpr int64_t kWholeLine = -2, kLineNumber = -1;

  explicit FromTextFile(const Construction& c)
      : key_index(c.attr<int64_t>("key_index")),
        value_index(c.attr<int64_t>("value_index")),
        vocab_size(c.attr<int64_t>("vocab_size", -1)),
        offset(c.attr<int64_t>("offset", 0)),
        delimiter(c.attr<std::string>("delimiter", "\t")) {
    require(delimiter.size() == 1, "the delimiter must be one character, got '", delimiter, "'");
  }

  void compute(Context& ctx) override {
    HashTable& table = ctx.resource<HashTable>(0);
    require(ctx.input(1).num_elements() == 1, "filename must be one string, got shape ", ctx.input(1).shape());
    const std::string& path = *ctx.input(1).strings();
    std::ifstream file(path, std::ios::binary);
    if (!file) fail(Code::not_found, path, "; No such file or directory");
    std::vector<std::string> keys, values;
    std::string line;
    int64_t number = 0;
    for (; (vocab_size < 0 || number < vocab_size) && std::getline(file, line); ++number) {
      if (!line.empty() && line.back() == '\r') line.pop_back();
      keys.push_back(pick(line, key_index, number, path));
      values.push_back(pick(line, value_index, number, path));
    }
    require(vocab_size < 0 || number == vocab_size, "Invalid vocab_size in ", path, ": expected ", vocab_size,
            " but got ", number);
    table.initialize(parse(keys, table.key_dtype(), path), parse(values, table.value_dtype(), path));
  }

  std::string pick(const std::string& line, int64_t index, int64_t number, const std::string& path) const {
    if (index == kWholeLine) return line;
    if (index == kLineNumber) return std::to_string(number + offset);
    size_t begin = 0;
    for (int64_t i = 0; i < index; ++i) {
      size_t next = line.find(delimiter[0], begin);
      require(next != std::string::npos, "Invalid number of columns in ", path, " line ", number, " (", line,
              ") : expected at least ", index + 1, " got ", i + 1);
      begin = next + 1;
    }
    return line.substr(begin, line.find(delimiter[0], begin) - begin);
  }

  static Tensor parse(std::vector<std::string>& texts, DType dtype, const std::string& path) {
    Tensor out(dtype, Shape{static_cast<int64_t>(texts.size())});
    if (dtype == DType::string) {
      std::move(texts.begin(), texts.end(), out.strings());
      return out;
    }
    dispatch(dtype, Types<DType::int32, DType::int64, DType::float32, DType::float64>{}, [&]<typename T>() {
      for (size_t i = 0; i < texts.size(); ++i) {
        const char *begin = texts[i].data(), *end = begin + texts[i].size();
        auto [stop, error] = std::from_chars(begin, end, out.flat<T>()[i]);
        require(error == std::errc() && stop == end, "Field ", texts[i], " in line ", i, " of ", path,
                " is not a valid ", dtype, ".");
      }
    });
    return out;
  }

  int64_t key_index, value_index, vocab_size, offset;
  std::string delimiter;
};

REGISTER(kernel("HashTableV2").make<Create<true>>());
REGISTER(kernel("MutableHashTableV2").make<Create<false>>());
REGISTER(kernel("MutableHashTableOfTensorsV2").make<Create<false>>());
REGISTER(kernel("LookupTableFindV2").function<find>());
REGISTER(kernel("LookupTableInsertV2").function<insert>());
REGISTER(kernel("LookupTableRemoveV2").function<remove>());
REGISTER(kernel("LookupTableImportV2").function<import>());
REGISTER(kernel("LookupTableSizeV2").function<size>());
REGISTER(kernel("LookupTableExportV2").function<export_all>());
REGISTER(kernel("InitializeTableV2").function<initialize>());
REGISTER(kernel("InitializeTableFromTextFileV2").make<FromTextFile>());

}  // namespace
}  // namespace thalweg
