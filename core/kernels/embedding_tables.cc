// Embedding tables as ops. The updates by optimizers' rules are registered with the rules (compute/training).
#include "embedding/checkpoint.h"
#include "embedding/table.h"
#include "kernel/handle_kernel.h"
#include "kernel/registry.h"
#include "thread/parallel.h"

namespace thalweg {
namespace {

using embedding::EmbeddingTable;

embedding::Precision precision_of(const std::string& name) {
  if (name == "float32") return embedding::Precision::float32;
  if (name == "bfloat16") return embedding::Precision::bfloat16;
  require(name == "int8", "precision must be float32, bfloat16 or int8, got '", name, "'");
  return embedding::Precision::int8;
}

embedding::FirstValue::Kind kind_of(const std::string& name) {
  using Kind = embedding::FirstValue::Kind;
  if (name == "constant") return Kind::constant;
  if (name == "uniform") return Kind::uniform;
  if (name == "normal") return Kind::normal;
  require(name == "truncated_normal", "initializer must be constant, uniform, normal or truncated_normal, got '", name,
          "'");
  return Kind::truncated_normal;
}

embedding::Options options_of(const Construction& c) {
  embedding::Options out;
  out.key = c.attr<DType>("key_dtype");
  out.dim = c.attr<int64_t>("dim");
  require(out.dim > 0 && out.dim <= (1 << 24), "dim must be between 1 and 2^24, got ", out.dim);
  out.precision = precision_of(c.attr<std::string>("precision"));
  out.first = {kind_of(c.attr<std::string>("initializer")), static_cast<float>(c.attr<double>("initializer_a")),
               static_cast<float>(c.attr<double>("initializer_b")), static_cast<uint64_t>(c.attr<int64_t>("seed"))};
  out.admit_after = c.attr<int64_t>("admit_after");
  require(out.admit_after >= 1 && out.admit_after <= 255, "admit_after must be between 1 and 255, got ",
          out.admit_after);
  out.filter_bytes = c.attr<int64_t>("filter_bytes");
  require(out.filter_bytes >= 0 && out.filter_bytes <= (int64_t{1} << 40),
          "filter_bytes is out of range: ", out.filter_bytes);
  out.eviction = {c.attr<int64_t>("steps_to_live"), c.attr<int64_t>("idle_steps"), c.attr<int64_t>("min_count"),
                  static_cast<float>(c.attr<double>("min_norm")), c.attr<int64_t>("max_rows")};
  out.ram_bytes = c.attr<int64_t>("ram_bytes");
  out.folder = c.attr<std::string>("folder");
  require(out.ram_bytes <= 0 || !out.folder.empty(),
          "a table with a budget of memory needs a folder for the other rows");
  return out;
}

struct TableHandle : HandleKernel<EmbeddingTable> {
  explicit TableHandle(const Construction& c) : HandleKernel(c), options(options_of(c)) { prepare(c); }
  std::shared_ptr<EmbeddingTable> make() const override { return std::make_shared<EmbeddingTable>(name(), options); }
  void check(const EmbeddingTable& found) const override {
    require(found.options().key == options.key && found.options().dim == options.dim, "embedding table '", name(),
            "' exists with keys of type ", found.options().key, " and rows of ", found.options().dim,
            " elements; this node declares ", options.key, " and ", options.dim);
  }
  embedding::Options options;
};

std::shared_ptr<EmbeddingTable> shared_table(Context& ctx) {
  ctx.resource<EmbeddingTable>(0);
  return std::static_pointer_cast<EmbeddingTable>(ctx.input(0).flat<ResourceHandle>()->resource);
}

// One row of floats for each key: the shape of the keys, and then that of a row.
Shape shape_of_rows(const Tensor& keys, int64_t dim) {
  std::vector<int64_t> dims;
  for (int i = 0; i < keys.rank(); ++i) dims.push_back(keys.dim(i));
  dims.push_back(dim);
  return Shape(dims);
}

void check_rows(const EmbeddingTable& table, const Tensor& keys, const Tensor& rows, const char* what) {
  require(rows.shape() == shape_of_rows(keys, table.options().dim), "embedding table '", table.name(), "': ", what,
          " must be one row of ", table.options().dim, " elements for each key; got keys ", keys.shape(), " and ", what,
          " ", rows.shape());
}

void table_initialize(Context& ctx) { ctx.resource<EmbeddingTable>(0).initialize(); }

void table_is_initialized(Context& ctx) {
  ctx.set_output(0, Tensor::scalar(ctx.resource<EmbeddingTable>(0).initialized()));
}

struct TableLookup : Kernel {
  explicit TableLookup(const Construction& c) : average(c.attr<std::string>("average", "")) {}
  void compute(Context& ctx) override {
    auto& table = ctx.resource<EmbeddingTable>(0);
    const Tensor& keys = ctx.input(1);
    Tensor& out = ctx.allocate(0, shape_of_rows(keys, table.options().dim));
    table.lookup(keys, out.flat<float>(), average);
  }
  std::string average;
};

struct TableAverage : Kernel {
  explicit TableAverage(const Construction& c) : name(c.attr<std::string>("average")) {}
  void compute(Context& ctx) override {
    require(ctx.input(1).rank() == 0, "decay must be a scalar, got shape ", ctx.input(1).shape());
    ctx.resource<EmbeddingTable>(0).average(name, *ctx.input(1).flat<float>());
  }
  std::string name;
};

void table_insert(Context& ctx) {
  auto& table = ctx.resource<EmbeddingTable>(0);
  check_rows(table, ctx.input(1), ctx.input(2), "values");
  table.insert(ctx.input(1), ctx.input(2).flat<float>());
}

void table_remove(Context& ctx) { ctx.resource<EmbeddingTable>(0).remove(ctx.input(1)); }
void table_prefetch(Context& ctx) { ctx.resource<EmbeddingTable>(0).prefetch(ctx.input(1)); }

void table_evict(Context& ctx) {
  auto& table = ctx.resource<EmbeddingTable>(0);
  ctx.set_output(0, Tensor::scalar(table.evict(table.options().eviction)));
}

void table_statistics(Context& ctx) {
  const embedding::Statistics s = ctx.resource<EmbeddingTable>(0).statistics();
  const int64_t numbers[] = {s.rows,   s.disk_rows,  s.bytes,      s.disk_bytes, s.step,      s.hits,
                             s.misses, s.admissions, s.rejections, s.evictions,  s.promotions};
  ctx.set_output(0, Tensor::vector<int64_t>(numbers));
}

struct TableExport : Kernel {
  explicit TableExport(const Construction& c)
      : slots(c.attr<std::vector<std::string>>("slots")), average(c.attr<std::string>("average", "")) {}
  void compute(Context& ctx) override {
    auto& table = ctx.resource<EmbeddingTable>(0);
    require(table.options().key == ctx.output_dtype(0), "embedding table '", table.name(), "' has keys of type ",
            table.options().key, ", the op exports ", ctx.output_dtype(0));
    EmbeddingTable::Rows rows = table.export_rows(slots, average);
    ctx.set_output(0, std::move(rows.keys));
    ctx.set_output(1, std::move(rows.values));
    ctx.set_output(2, std::move(rows.counts));
    ctx.set_output(3, std::move(rows.steps));
    ctx.set_output(4, std::move(rows.slots));
  }
  std::vector<std::string> slots;
  std::string average;
};

struct TableImport : Kernel {
  explicit TableImport(const Construction& c) : names(c.attr<std::vector<std::string>>("slots")) {}
  void compute(Context& ctx) override {
    auto& table = ctx.resource<EmbeddingTable>(0);
    EmbeddingTable::Rows rows{ctx.input(1), ctx.input(2), ctx.input(3), ctx.input(4), ctx.input(5)};
    require(rows.keys.rank() == 1, "keys must be a vector, got shape ", rows.keys.shape());
    check_rows(table, rows.keys, rows.values, "values");
    require(rows.counts.shape() == rows.keys.shape() && rows.steps.shape() == rows.keys.shape(),
            "counts and steps must have the shape of the keys, ", rows.keys.shape(), ", got ", rows.counts.shape(),
            " and ", rows.steps.shape());
    const Shape expected{static_cast<int64_t>(names.size()), rows.keys.dim(0), table.options().dim};
    require(rows.slots.shape() == expected, "slots must have shape ", expected, ", got ", rows.slots.shape());
    std::vector<embedding::Slot> slots;
    for (const std::string& name : names) slots.push_back({name, 0, embedding::Slot::Kind::constant, true});
    table.import_rows(rows, slots);
  }
  std::vector<std::string> names;
};

// Which part of a partitioned table has a key: the same number on all tasks.
struct TablePart : Kernel {
  explicit TablePart(const Construction& c) : parts(c.attr<int64_t>("num_parts")) {
    require(parts >= 1, "num_parts must be at least 1, got ", parts);
  }
  void compute(Context& ctx) override {
    const Tensor& keys = ctx.input(0);
    Tensor& out = ctx.allocate(0, keys.shape());
    parallel_for(keys.num_elements(), 1 << 14, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        out.flat<int32_t>()[i] = static_cast<int32_t>(embedding::part_of(embedding::key_at(keys, i), parts));
    });
  }
  int64_t parts;
};

const std::string& prefix_of(Context& ctx) {
  require(ctx.input(1).rank() == 0, "prefix must be a scalar, got shape ", ctx.input(1).shape());
  return *ctx.input(1).strings();
}

struct TableSave : Kernel {
  explicit TableSave(const Construction& c)
      : key(embedding::list_name(c.attr<std::string>("tensor_name"), c.attr<int64_t>("part"),
                                 c.attr<int64_t>("num_parts"))),
        full(c.attr<bool>("full")) {}
  void compute(Context& ctx) override {
    ctx.set_output(0, Tensor::scalar(embedding::save_checkpoint(shared_table(ctx), prefix_of(ctx), key, full)));
  }
  std::string key;
  bool full;
};

struct TableRestore : Kernel {
  explicit TableRestore(const Construction& c)
      : name(c.attr<std::string>("tensor_name")),
        part(c.attr<int64_t>("part")),
        parts(c.attr<int64_t>("num_parts")),
        follow(c.attr<bool>("follow")) {
    require(part >= 0 && part < parts, "part ", part, " is not one of ", parts, " parts");
  }
  void compute(Context& ctx) override {
    ctx.set_output(
        0, Tensor::scalar(embedding::restore_checkpoint(shared_table(ctx), prefix_of(ctx), name, part, parts, follow)));
  }
  std::string name;
  int64_t part, parts;
  bool follow;
};

REGISTER(kernel("EmbeddingTableHandle").make<TableHandle>());
REGISTER(kernel("EmbeddingTableInitialize").function<table_initialize>());
REGISTER(kernel("EmbeddingTableIsInitialized").function<table_is_initialized>());
REGISTER(kernel("EmbeddingTableLookup").make<TableLookup>());
REGISTER(kernel("EmbeddingTableAverage").make<TableAverage>());
REGISTER(kernel("EmbeddingTableInsert").function<table_insert>());
REGISTER(kernel("EmbeddingTableRemove").function<table_remove>());
REGISTER(kernel("EmbeddingTablePrefetch").function<table_prefetch>());
REGISTER(kernel("EmbeddingTableEvict").function<table_evict>());
REGISTER(kernel("EmbeddingTableStatistics").function<table_statistics>());
REGISTER(kernel("EmbeddingTableExport").make<TableExport>());
REGISTER(kernel("EmbeddingTableImport").make<TableImport>());
REGISTER(kernel("EmbeddingTablePart").make<TablePart>());
REGISTER(kernel("EmbeddingTableSave").make<TableSave>());
REGISTER(kernel("EmbeddingTableRestore").make<TableRestore>());

}  // namespace
}  // namespace thalweg
