// ParseSequenceExample, ParseSequenceExampleV2 and ParseSingleSequenceExample: context features, and feature lists,
// whose steps are a dimension of their own.
#include <algorithm>
#include <optional>
#include <set>

#include "compute/parsing/example_features.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

// Reads FeatureLists messages, and makes the outputs of them.
class ListReader {
 public:
  ListReader(const WantedFeatures& wanted, const std::vector<bool>& may_be_missing, const RecordBlocks& blocks,
             ExampleName name)
      : wanted_(wanted), may_be_missing_(may_be_missing), blocks_(blocks), name_(name) {
    columns_.resize(wanted.size());
    for (auto& of_feature : columns_) of_feature.resize(static_cast<size_t>(blocks.count()));
    state_.resize(static_cast<size_t>(blocks.count()));
    for (Block& block : state_) block.found.resize(wanted.size());
  }

  bool read(int64_t b, int64_t row, std::string_view lists) {
    Block& block = state_[static_cast<size_t>(b)];
    block.joiner.clear();
    for (auto& found : block.found) found.reset();
    size_t place = 0;
    bool ok = example::each_field_1(lists, [&](std::string_view entry) {
      std::string_view key, value;
      if (!example::read_entry(entry, block.joiner, &key, &value)) return false;
      int f = block.guesser.find(wanted_, key, place++);
      if (f >= 0) block.found[static_cast<size_t>(f)] = value;
      return true;
    });
    for (size_t f = 0; ok && f < wanted_.size(); ++f) {
      Column& column = columns_[f][static_cast<size_t>(b)];
      if (!block.found[f]) {
        if (!may_be_missing_[f])
          fail(Code::invalid_argument, "Name: ", name_.of(row), ", Feature list '", wanted_[f].key,
               "' is required but could not be found.  Did you mean to include it in "
               "feature_list_dense_missing_assumed_empty or feature_list_dense_defaults?");
        column.steps.push_back(0);
      } else {
        dispatch(wanted_[f].dtype, ExampleTypes{},
                 [&]<typename T>() { ok = read_list<T>(block, column, row, f, *block.found[f]); });
      }
    }
    return ok;
  }

  // [row, step, element] of each value, the values, and the shape that holds them.
  void sparse(size_t f, Tensor* indices, Tensor* values, Tensor* shape) {
    std::vector<Column>& columns = columns_[f];
    *values = join_values(wanted_[f].dtype, columns);
    int64_t rank = name_.single ? 2 : 3, most = 0;
    *indices = Tensor(DType::int64, Shape{values->num_elements(), rank});
    int64_t* to = indices->flat<int64_t>();
    int64_t row = 0;
    for (const Column& column : columns) {
      auto count = column.counts.begin();
      for (int64_t steps : column.steps) {
        for (int64_t step = 0; step < steps; ++step, ++count) {
          for (int64_t i = 0; i < *count; ++i) {
            if (rank == 3) *to++ = row;
            *to++ = step;
            *to++ = i;
          }
          most = std::max(most, *count);
        }
        ++row;
      }
    }
    *shape = Tensor(DType::int64, Shape{rank});
    int64_t* dims = shape->flat<int64_t>();
    if (rank == 3) *dims++ = blocks_.rows();
    *dims++ = longest(f);
    *dims = most;
  }

  // Rows filled up with zeros or empty strings, and how many steps each has.
  void dense(size_t f, Tensor* values, Tensor* lengths) {
    const Wanted& wanted = wanted_[f];
    int64_t stride = wanted.row.num_elements(), steps = longest(f), width = steps * stride;
    Shape shape = wanted.row.inserted(0, steps);
    *values = Tensor(wanted.dtype, name_.single ? shape : shape.inserted(0, blocks_.rows()));
    *lengths = Tensor(DType::int64, name_.single ? Shape{} : Shape{blocks_.rows()});
    int64_t* length = lengths->flat<int64_t>();
    for (const Column& column : columns_[f]) length = std::copy(column.steps.begin(), column.steps.end(), length);
    dispatch(wanted.dtype, ExampleTypes{}, [&]<typename T>() {
      blocks_.for_each([&](int64_t b) {
        Column& column = columns_[f][static_cast<size_t>(b)];
        auto from = column.values<T>().begin();
        T* to = values->flat<T>() + blocks_.first_row(b) * width;
        for (int64_t row_steps : column.steps) {
          int64_t n = row_steps * stride;
          std::move(from, from + n, to);
          std::fill(to + n, to + width, T{});
          from += n;
          to += width;
        }
      });
    });
  }

  void ragged(size_t f, DType split_dtype, Tensor* values, Tensor* outer, Tensor* inner) {
    std::vector<Column>& columns = columns_[f];
    *values = join_values(wanted_[f].dtype, columns);
    int64_t steps = 0;
    for (const Column& column : columns) steps += static_cast<int64_t>(column.counts.size());
    *inner = Tensor(split_dtype, Shape{steps + 1});
    *outer = Tensor(split_dtype, name_.single ? Shape{} : Shape{blocks_.rows() + 1});
    int64_t most = std::max(values->num_elements(), steps);
    dispatch(split_dtype, Indices{}, [&]<typename I>() {
      require(static_cast<int64_t>(static_cast<I>(most)) == most, "the ", most, " values of '", wanted_[f].key,
              "' are more than row splits of type ", split_dtype, " can count");
      I *to_outer = outer->flat<I>(), *to_inner = inner->flat<I>();
      int64_t value_count = 0, step_count = 0;
      if (!name_.single) *to_outer++ = 0;
      *to_inner++ = 0;
      for (const Column& column : columns) {
        for (int64_t row_steps : column.steps) *to_outer++ = static_cast<I>(step_count += row_steps);
        for (int64_t count : column.counts) *to_inner++ = static_cast<I>(value_count += count);
      }
    });
  }

 private:
  struct alignas(128) Block {
    KeyGuesser guesser;
    example::Joiner joiner;
    std::vector<std::optional<std::string_view>> found;
  };

  template <typename T>
  bool read_list(Block& block, Column& column, int64_t row, size_t f, std::string_view list) {
    const Wanted& wanted = wanted_[f];
    CachedVector<T>& values = column.values<T>();
    int64_t step = 0;
    bool ok = example::each_field_1(list, [&](std::string_view feature) {
      example::Kind kind;
      std::string_view content;
      if (!example::read_feature(feature, block.joiner, &kind, &content)) return false;
      size_t before = values.size();
      if (kind != example::Kind::none) {
        if (kind != example::kind_of<T>)
          fail(Code::invalid_argument, "Name: ", name_.of(row), ", Feature list: ", wanted.key, ", Index: ", step,
               ".  Data types don't match. Expected type: ", list_name(wanted.dtype),
               ", Actual type: ", list_name(kind));
        if (!example::read_list<T>(content, example::Appended<T, CachedVector<T>>{values})) return false;
      }
      auto count = static_cast<int64_t>(values.size() - before);
      if (wanted.form == Wanted::Form::fixed && count != wanted.row.num_elements())
        fail(Code::invalid_argument, "Name: ", name_.of(row), ", Key: ", wanted.key, ", Index: ", step,
             ".  Number of values != expected.  values size: ", count, " but output shape: ", wanted.row);
      column.counts.push_back(count);
      ++step;
      return true;
    });
    column.steps.push_back(step);
    return ok;
  }

  int64_t longest(size_t f) const {
    int64_t most = 0;
    for (const Column& column : columns_[f])
      for (int64_t steps : column.steps) most = std::max(most, steps);
    return most;
  }

  const WantedFeatures& wanted_;
  const std::vector<bool>& may_be_missing_;
  const RecordBlocks& blocks_;
  const ExampleName name_;
  std::vector<std::vector<Column>> columns_;  // by feature list and block
  std::vector<Block> state_;
};

enum class Version { first, second, single };

// The features of one half of an op (context or feature lists).
struct Half {
  Half(const Construction& c, const std::string& prefix, bool is_context, bool with_ragged)
      : sparse_types(c.attr<std::vector<DType>>(prefix + "sparse_types")),
        dense_types(c.attr<std::vector<DType>>(is_context ? "Tcontext_dense" : prefix + "dense_types")),
        dense_shapes(c.attr<std::vector<PartialShape>>(prefix + "dense_shapes")) {
    require(dense_types.size() == dense_shapes.size(), prefix, "dense: ", dense_types.size(), " types, but ",
            dense_shapes.size(), " shapes");
    int64_t declared = c.attr<int64_t>("N" + prefix + "sparse");
    require(declared == static_cast<int64_t>(sparse_types.size()), "N", prefix, "sparse is ", declared, ", but ",
            prefix, "sparse_types has ", sparse_types.size());
    // The second version does not count the dense features of the context.
    if (c.def().find("N" + prefix + "dense") != nullptr) {
      declared = c.attr<int64_t>("N" + prefix + "dense");
      require(declared == static_cast<int64_t>(dense_types.size()), "N", prefix, "dense is ", declared, ", but ",
              prefix, "dense_types has ", dense_types.size());
    }
    if (!with_ragged) return;
    ragged_types = c.attr<std::vector<DType>>(prefix + "ragged_value_types");
    split_types = c.attr<std::vector<DType>>(prefix + "ragged_split_types");
    require(ragged_types.size() == split_types.size(), prefix, "ragged: ", ragged_types.size(),
            " types of values, but ", split_types.size(), " of splits");
  }

  WantedFeatures wanted(const std::vector<std::string>& sparse_keys, const std::vector<std::string>& dense_keys,
                        const std::vector<std::string>& ragged_keys) const {
    std::vector<Wanted> all =
        list_wanted(sparse_keys, sparse_types, dense_keys, dense_types, dense_shapes, ragged_keys, ragged_types);
    for (const Wanted& wanted : all)
      require(wanted.form != Wanted::Form::padded, "the shape of '", wanted.key, "' must be fully defined, got ",
              wanted.declared);
    return WantedFeatures(std::move(all));
  }
  int num_sparse() const { return static_cast<int>(sparse_types.size()); }
  int num_dense() const { return static_cast<int>(dense_types.size()); }
  int num_ragged() const { return static_cast<int>(ragged_types.size()); }

  std::vector<DType> sparse_types, dense_types;
  std::vector<PartialShape> dense_shapes;
  std::vector<DType> ragged_types, split_types;
};

template <Version version>
struct ParseSequenceExample : Kernel {
  using Strings = std::vector<std::string>;

  explicit ParseSequenceExample(const Construction& c)
      : context(c, "context_", true, version == Version::second),
        lists(c, "feature_list_", false, version == Version::second) {
    if constexpr (version == Version::first) {
      context_sparse = c.attr<Strings>("context_sparse_keys");
      context_dense = c.attr<Strings>("context_dense_keys");
      list_sparse = c.attr<Strings>("feature_list_sparse_keys");
      list_dense = c.attr<Strings>("feature_list_dense_keys");
      missing = c.attr<Strings>("feature_list_dense_missing_assumed_empty");
    }
  }

  // One key after the other from scalar inputs, as the oldest of the ops has them.
  static Strings take(Context& ctx, int* next, int count) {
    Strings out;
    for (int i = 0; i < count; ++i) out.push_back(ctx.input((*next)++).item<std::string>());
    return out;
  }

  static std::vector<bool> missing_from(const Strings& keys, const WantedFeatures& wanted, const Half& half) {
    std::set<std::string> allowed(keys.begin(), keys.end());
    std::vector<bool> out;
    for (size_t f = 0; f < wanted.size(); ++f)
      out.push_back(wanted[f].form != Wanted::Form::fixed || allowed.erase(wanted[f].key) > 0);
    require(allowed.empty(), "feature_list_dense_missing_assumed_empty contains the key '",
            allowed.empty() ? "" : *allowed.begin(), "', which is none of the ", half.num_dense(), " dense keys");
    return out;
  }

  void compute(Context& ctx) override {
    const Tensor& serialized = ctx.input(0);
    bool single = serialized.rank() == 0;
    if constexpr (version == Version::single)
      require(single, "Serialized should be a scalar, got shape ", serialized.shape());
    else
      require(serialized.rank() <= 1, "Expected serialized to be a scalar or vector, got shape: ", serialized.shape());
    const Tensor& names = ctx.input(version == Version::single ? ctx.num_inputs() - 1 : 1);
    require(names.num_elements() == 0 || names.num_elements() == serialized.num_elements(),
            "Expected the names to have the shape of serialized: debug_name.shape=", names.shape(),
            ", serialized.shape=", serialized.shape());

    if constexpr (version == Version::first) {
      WantedFeatures wanted_context = context.wanted(context_sparse, context_dense, {});
      WantedFeatures wanted_lists = lists.wanted(list_sparse, list_dense, {});
      parse(ctx, names, wanted_context, wanted_lists, missing_from(missing, wanted_lists, lists), 2);
    } else if constexpr (version == Version::single) {
      int next = 2;
      Strings sparse = take(ctx, &next, context.num_sparse()), dense = take(ctx, &next, context.num_dense());
      WantedFeatures wanted_context = context.wanted(sparse, dense, {});
      sparse = take(ctx, &next, lists.num_sparse());
      dense = take(ctx, &next, lists.num_dense());
      WantedFeatures wanted_lists = lists.wanted(sparse, dense, {});
      Strings empty = key_vector(ctx.input(1), "feature_list_dense_missing_assumed_empty");
      parse(ctx, names, wanted_context, wanted_lists, missing_from(empty, wanted_lists, lists), next);
    } else {
      WantedFeatures wanted_context = context.wanted(key_vector(ctx.input(2), "context_sparse_keys"),
                                                     key_vector(ctx.input(3), "context_dense_keys"),
                                                     key_vector(ctx.input(4), "context_ragged_keys"));
      WantedFeatures wanted_lists = lists.wanted(key_vector(ctx.input(5), "feature_list_sparse_keys"),
                                                 key_vector(ctx.input(6), "feature_list_dense_keys"),
                                                 key_vector(ctx.input(7), "feature_list_ragged_keys"));
      const Tensor& empty = ctx.input(8);
      require(empty.rank() == 1 && empty.num_elements() == lists.num_dense(),
              "Expected len(feature_list_dense_missing_assumed_empty) == ", lists.num_dense(), ", got shape ",
              empty.shape());
      std::vector<bool> may_be_missing(wanted_lists.size(), true);
      for (int i = 0; i < lists.num_dense(); ++i)
        may_be_missing[static_cast<size_t>(lists.num_sparse() + i)] = empty.flat<bool>()[i];
      parse(ctx, names, wanted_context, wanted_lists, may_be_missing, 9);
    }
  }

  void parse(Context& ctx, const Tensor& names, const WantedFeatures& wanted_context,
             const WantedFeatures& wanted_lists, const std::vector<bool>& may_be_missing, int first_default) const {
    const Tensor& serialized = ctx.input(0);
    std::vector<Tensor> defaults(wanted_context.size());
    for (int i = 0; i < context.num_dense(); ++i) {
      auto f = static_cast<size_t>(context.num_sparse() + i);
      defaults[f] = ctx.input(first_default + i);
      check_default(wanted_context[f], defaults[f], i);
    }
    ExampleName name{names, serialized.rank() == 0, true};
    RecordBlocks blocks(serialized);
    FeatureReader features(wanted_context, std::move(defaults), blocks, name);
    ListReader list_reader(wanted_lists, may_be_missing, blocks, name);
    std::vector<example::Joiner> joiners(static_cast<size_t>(blocks.count()));
    blocks.for_each_row([&](int64_t block, int64_t row) {
      example::Joiner& joiner = joiners[static_cast<size_t>(block)];
      joiner.clear();
      std::string_view first, second;
      const std::string& message = serialized.strings()[row];
      if (!example::read_pair(message, joiner, &first, &second) || !features.read(block, row, first) ||
          !list_reader.read(block, row, second))
        fail(Code::invalid_argument, "Invalid protocol message input, example id: ", name.of(row), ", index ", row,
             ", value: '", excerpt(message), "'");
    });
    set_outputs(ctx, features, list_reader);
  }

  void set_outputs(Context& ctx, FeatureReader& features, ListReader& list_reader) const {
    int out = 0;
    size_t f = 0;
    Tensor a, b, c;
    for (int i = 0, n = context.num_sparse(); i < n; ++i) {
      features.sparse(f++, &a, &b, &c);
      ctx.set_output(out + i, std::move(a));
      ctx.set_output(out + n + i, std::move(b));
      ctx.set_output(out + 2 * n + i, std::move(c));
    }
    out += 3 * context.num_sparse();
    for (int i = 0; i < context.num_dense(); ++i) ctx.set_output(out++, features.dense(f++));
    for (int i = 0, n = context.num_ragged(); i < n; ++i) {
      features.ragged(f++, context.split_types[static_cast<size_t>(i)], &a, &b);
      ctx.set_output(out + i, std::move(a));
      ctx.set_output(out + n + i, std::move(b));
    }
    out += 2 * context.num_ragged();
    f = 0;
    for (int i = 0, n = lists.num_sparse(); i < n; ++i) {
      list_reader.sparse(f++, &a, &b, &c);
      ctx.set_output(out + i, std::move(a));
      ctx.set_output(out + n + i, std::move(b));
      ctx.set_output(out + 2 * n + i, std::move(c));
    }
    out += 3 * lists.num_sparse();
    for (int i = 0, n = lists.num_dense(); i < n; ++i) {
      list_reader.dense(f++, &a, &b);
      ctx.set_output(out + i, std::move(a));
      if (version != Version::single) ctx.set_output(out + n + i, std::move(b));
    }
    out += (version == Version::single ? 1 : 2) * lists.num_dense();
    for (int i = 0, n = lists.num_ragged(); i < n; ++i) {
      list_reader.ragged(f++, lists.split_types[static_cast<size_t>(i)], &a, &b, &c);
      ctx.set_output(out + i, std::move(a));
      ctx.set_output(out + n + i, std::move(b));
      ctx.set_output(out + 2 * n + i, std::move(c));
    }
  }

  Half context, lists;
  Strings context_sparse, context_dense, list_sparse, list_dense, missing;
};

REGISTER(kernel("ParseSequenceExample").make<ParseSequenceExample<Version::first>>());
REGISTER(kernel("ParseSequenceExampleV2").make<ParseSequenceExample<Version::second>>());
REGISTER(kernel("ParseSingleSequenceExample").make<ParseSequenceExample<Version::single>>());

}  // namespace
}  // namespace thalweg
