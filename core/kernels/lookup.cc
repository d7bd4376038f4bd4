// Lookup tables: the ops on hash tables, and filling one from a text file.
#include <algorithm>

#include "io/whole_file.h"
#include "kernel/registry.h"
#include "resource/dense_hash_table.h"
#include "resource/hash_table.h"
#include "strings/numbers.h"
#include "tensor/handle_tensor.h"

namespace thalweg {
namespace {

// The base of all nodes that output the handle of a table.
struct Declared : Kernel {
  explicit Declared(const Construction& c)
      : key(c.attr<DType>("key_dtype")),
        value(c.attr<DType>("value_dtype")),
        container(c.attr<std::string>("container", "")),
        name(c.attr<std::string>("shared_name", "")) {
    PartialShape declared = c.attr<PartialShape>("value_shape", PartialShape{true, {}});
    require(declared.fully_defined(), "value_shape must be fully defined, got ", declared);
    value_shape = Shape(declared.dims);
    if (name.empty()) name = c.def().name;
  }

  template <typename Make>
  Tensor find_or_make(Device& device, const Make& make) const {
    auto table = device.resources.find_or_make<HashTable>(container, name, make);
    require(table->key_dtype() == key && table->value_dtype() == value, "table '", name, "' exists with keys of type ",
            table->key_dtype(), " and values of type ", table->value_dtype(), ", this node declares ", key, " and ",
            value);
    return handle_tensor({device.name, container, name, std::move(table)});
  }
  DType key, value;
  std::string container, name;
  Shape value_shape;
};

template <bool is_static>
struct Create : Declared {
  explicit Create(const Construction& c) : Declared(c) {
    if (container.empty()) cached = make(c.device());
  }
  // A named container may have been reset since the last step, so the table is looked up again.
  void compute(Context& ctx) override { ctx.set_output(0, cached.defined() ? cached : make(ctx.device())); }
  Tensor make(Device& device) const {
    return find_or_make(device, [&] { return std::make_shared<HashTable>(name, key, value, value_shape, is_static); });
  }
  Tensor cached;
};

// An anonymous table: a new one each time that the node runs.
template <bool is_static>
struct CreateAnonymous : Declared {
  using Declared::Declared;
  void compute(Context& ctx) override {
    auto table = std::make_shared<HashTable>(name, key, value, value_shape, is_static);
    ctx.set_output(0, handle_tensor({ctx.device().name, container, name, std::move(table)}));
  }
};

template <bool anonymous>
struct CreateDense : Declared {
  explicit CreateDense(const Construction& c)
      : Declared(c), buckets(c.attr<int64_t>("initial_num_buckets")), max_load(c.attr<double>("max_load_factor")) {}
  void compute(Context& ctx) override {
    auto make = [&] {
      return std::make_shared<DenseHashTable>(name, ctx.input(0), ctx.input(1), value, value_shape, buckets, max_load);
    };
    if constexpr (anonymous)
      ctx.set_output(0, handle_tensor({ctx.device().name, container, name, make()}));
    else
      ctx.set_output(0, find_or_make(ctx.device(), make));
  }
  int64_t buckets;
  double max_load;
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
    require(delimiter.size() == 1, "delimiter should be only 1 char, got '", delimiter, "'");
  }

  void compute(Context& ctx) override {
    HashTable& table = ctx.resource<HashTable>(0);
    require(ctx.input(1).num_elements() == 1, "filename must be one string, got shape ", ctx.input(1).shape());
    const std::string& path = *ctx.input(1).strings();
    std::string text = read_whole_file(path);
    require(!text.empty(), "Invalid content in ", path, ": the file is empty.");
    std::vector<std::string_view> lines = split(text, path);
    auto count = static_cast<int64_t>(lines.size());
    require(vocab_size < 0 || count == vocab_size, "Invalid vocab_size in ", path, ": expected ", vocab_size,
            " but got ", count);
    table.initialize(column(lines, key_index, table.key_dtype(), path),
                     column(lines, value_index, table.value_dtype(), path));
  }

  // As many lines as are wanted; none of them is empty.
  std::vector<std::string_view> split(std::string_view text, const std::string& path) const {
    std::vector<std::string_view> lines;
    for (size_t at = 0; at < text.size() && static_cast<int64_t>(lines.size()) != vocab_size;) {
      size_t end = std::min(text.find('\n', at), text.size());
      std::string_view line = text.substr(at, end - at);
      at = end + 1;
      if (line.ends_with('\r')) line.remove_suffix(1);
      require(!line.empty(), "Invalid content in ", path, ": empty line found at position ", at, ".");
      lines.push_back(line);
    }
    return lines;
  }

  std::string_view pick(std::string_view line, int64_t index, int64_t number, const std::string& path) const {
    if (index == kWholeLine) return line;
    size_t begin = 0;
    for (int64_t i = 0; i < index; ++i) {
      size_t next = line.find(delimiter[0], begin);
      require(next != std::string_view::npos, "Invalid number of columns in ", path, " line ", number, " (", line,
              ") : expected at least ", index + 1, " got ", i + 1);
      begin = next + 1;
    }
    return line.substr(begin, line.find(delimiter[0], begin) - begin);
  }

  Tensor column(const std::vector<std::string_view>& lines, int64_t index, DType dtype, const std::string& path) const {
    Tensor out(dtype, Shape{static_cast<int64_t>(lines.size())});
    if (index == kLineNumber) {
      require(dtype == DType::int64, "line numbers are int64, but the table holds ", dtype);
      for (int64_t i = 0; i < out.num_elements(); ++i) out.flat<int64_t>()[i] = i + offset;
      return out;
    }
    using Parsed = Types<DType::int32, DType::int64, DType::float32, DType::float64>;
    for (int64_t i = 0; dtype == DType::string && i < out.num_elements(); ++i)
      out.strings()[i].assign(pick(lines[static_cast<size_t>(i)], index, i, path));
    if (dtype == DType::string) return out;
    dispatch(dtype, Parsed{}, [&]<typename T>() {
      for (int64_t i = 0; i < out.num_elements(); ++i) {
        std::string_view field = pick(lines[static_cast<size_t>(i)], index, i, path);
        require(parse_number(field, out.flat<T>() + i), "Field ", field, " in line ", i, " is not a valid ", dtype,
                ". File: ", path);
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
REGISTER(kernel("MutableDenseHashTableV2").make<CreateDense<false>>());
REGISTER(kernel("AnonymousHashTable").make<CreateAnonymous<true>>());
REGISTER(kernel("AnonymousMutableHashTable").make<CreateAnonymous<false>>());
REGISTER(kernel("AnonymousMutableHashTableOfTensors").make<CreateAnonymous<false>>());
REGISTER(kernel("AnonymousMutableDenseHashTable").make<CreateDense<true>>());
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
