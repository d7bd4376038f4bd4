// ParseExample, ParseExampleV2 and ParseSingleExample: serialized tf.Examples to tensors.
#include <mutex>

#include "compute/parsing/example_features.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

// Where the keys of the three ops stand, and which of their inputs are defaults.
enum class Keys { as_vectors, as_scalars, as_attributes };

template <Keys keys>
struct ParseExample : Kernel {
  explicit ParseExample(const Construction& c)
      : sparse_types(c.attr<std::vector<DType>>("sparse_types")),
        dense_types(c.attr<std::vector<DType>>("Tdense")),
        dense_shapes(c.attr<std::vector<PartialShape>>("dense_shapes")) {
    require(dense_types.size() == dense_shapes.size(), "Tdense has ", dense_types.size(), " types, dense_shapes ",
            dense_shapes.size(), " shapes");
    int64_t num_sparse = c.attr<int64_t>(keys == Keys::as_scalars ? "Nsparse" : "num_sparse");
    require(num_sparse == static_cast<int64_t>(sparse_types.size()), "there are ", num_sparse,
            " sparse features, but sparse_types has ", sparse_types.size());
    if constexpr (keys == Keys::as_scalars)
      require(c.attr<int64_t>("Ndense") == static_cast<int64_t>(dense_types.size()), "Ndense is ",
              c.attr<int64_t>("Ndense"), ", but Tdense has ", dense_types.size(), " types");
    if constexpr (keys == Keys::as_vectors) {
      ragged_types = c.attr<std::vector<DType>>("ragged_value_types");
      split_types = c.attr<std::vector<DType>>("ragged_split_types");
      require(ragged_types.size() == split_types.size(), "ragged_value_types has ", ragged_types.size(),
              " types, ragged_split_types ", split_types.size());
    }
    if constexpr (keys == Keys::as_attributes)
      wanted =
          make(c.attr<std::vector<std::string>>("sparse_keys"), c.attr<std::vector<std::string>>("dense_keys"), {});
  }

  std::shared_ptr<const WantedFeatures> make(const std::vector<std::string>& sparse_keys,
                                             const std::vector<std::string>& dense_keys,
                                             const std::vector<std::string>& ragged_keys) const {
    return std::make_shared<WantedFeatures>(
        list_wanted(sparse_keys, sparse_types, dense_keys, dense_types, dense_shapes, ragged_keys, ragged_types));
  }

  // The bytes of each example are somewhere else in memory: prefetch those of a later one.
  static constexpr int64_t kAhead = 8;
  static void prefetch(const std::string& text) {
    for (size_t at = 0, end = std::min<size_t>(text.size(), 512); at < end; at += 64)
      __builtin_prefetch(text.data() + at);
  }

  // The keys rarely change between steps: the parsed features are cached by the stamps of the keys' buffers.
  std::shared_ptr<const WantedFeatures> find_wanted(Context& ctx) {
    if constexpr (keys == Keys::as_attributes) return wanted;
    int first = 2, count = keys == Keys::as_vectors ? 3 : static_cast<int>(sparse_types.size() + dense_types.size());
    std::vector<uint64_t> stamps;
    for (int i = first; i < first + count; ++i) {
      const Tensor& t = ctx.input(i);
      stamps.insert(stamps.end(), {t.buffer() == nullptr ? 0 : t.buffer()->stamp(),
                                   reinterpret_cast<uintptr_t>(t.raw()), static_cast<uint64_t>(t.num_elements())});
    }
    {
      std::lock_guard lock(mutex);
      if (wanted && stamps == wanted_stamps) return wanted;
    }
    std::shared_ptr<const WantedFeatures> made;
    if constexpr (keys == Keys::as_vectors) {
      made = make(key_vector(ctx.input(2), "sparse_keys"), key_vector(ctx.input(3), "dense_keys"),
                  key_vector(ctx.input(4), "ragged_keys"));
    } else {
      std::vector<std::string> sparse, dense;
      for (int i = first; i < first + count; ++i)
        (sparse.size() < sparse_types.size() ? sparse : dense).push_back(ctx.input(i).item<std::string>());
      made = make(sparse, dense, {});
    }
    std::lock_guard lock(mutex);
    wanted = made;
    wanted_stamps = std::move(stamps);
    return made;
  }

  void compute(Context& ctx) override {
    const Tensor& serialized = ctx.input(0);
    bool single = serialized.rank() == 0;
    if constexpr (keys == Keys::as_attributes)
      require(single, "Expected serialized to be a scalar, got shape: ", serialized.shape());
    else if constexpr (keys == Keys::as_scalars)
      require(serialized.rank() == 1, "Expected serialized to be a vector, got shape: ", serialized.shape());
    else
      require(serialized.rank() <= 1, "Expected serialized to be a scalar or vector, got shape: ", serialized.shape());
    Tensor no_names(DType::string, Shape{0});
    const Tensor& names = keys == Keys::as_attributes ? no_names : ctx.input(1);
    require(names.num_elements() == 0 || names.shape() == serialized.shape(),
            "Expected names have the same shape as serialized: name.shape=", names.shape(),
            ", serialized.shape=", serialized.shape());

    std::shared_ptr<const WantedFeatures> features = find_wanted(ctx);
    int num_sparse = static_cast<int>(sparse_types.size()), num_dense = static_cast<int>(dense_types.size());
    int num_ragged = static_cast<int>(ragged_types.size());
    std::vector<Tensor> defaults(features->size());
    for (int i = 0; i < num_dense; ++i) {
      Tensor& value = defaults[static_cast<size_t>(num_sparse + i)];
      value = ctx.input(ctx.num_inputs() - num_dense + i);
      check_default((*features)[static_cast<size_t>(num_sparse + i)], value, i);
    }

    RecordBlocks blocks(serialized);
    FeatureReader reader(*features, std::move(defaults), blocks, {names, single, false});
    const std::string* examples = serialized.strings();
    std::vector<example::Joiner> joiners(static_cast<size_t>(blocks.count()));
    blocks.for_each_row([&](int64_t block, int64_t row) {
      if (row + kAhead < blocks.rows()) prefetch(examples[row + kAhead]);
      example::Joiner& joiner = joiners[static_cast<size_t>(block)];
      joiner.clear();
      std::string_view message, ignored;
      if (!example::read_pair(examples[row], joiner, &message, &ignored) || !reader.read(block, row, message))
        fail(Code::invalid_argument, names.num_elements() > 0 ? cat("Name: ", excerpt(names.strings()[row]), ", ") : "",
             "Could not parse example input, value: '", excerpt(examples[row]), "'");
    });

    for (int i = 0; i < num_sparse; ++i) {
      Tensor indices, values, shape;
      reader.sparse(static_cast<size_t>(i), &indices, &values, &shape);
      ctx.set_output(i, std::move(indices));
      ctx.set_output(num_sparse + i, std::move(values));
      ctx.set_output(2 * num_sparse + i, std::move(shape));
    }
    int out = 3 * num_sparse;
    for (int i = 0; i < num_dense; ++i) ctx.set_output(out++, reader.dense(static_cast<size_t>(num_sparse + i)));
    for (int i = 0; i < num_ragged; ++i, ++out) {
      Tensor values, splits;
      reader.ragged(static_cast<size_t>(num_sparse + num_dense + i), split_types[static_cast<size_t>(i)], &values,
                    &splits);
      ctx.set_output(out, std::move(values));
      ctx.set_output(out + num_ragged, std::move(splits));
    }
  }

  const std::vector<DType> sparse_types, dense_types;
  const std::vector<PartialShape> dense_shapes;
  std::vector<DType> ragged_types, split_types;
  std::mutex mutex;  // guards the rest
  std::shared_ptr<const WantedFeatures> wanted;
  std::vector<uint64_t> wanted_stamps;
};

REGISTER(kernel("ParseExampleV2").make<ParseExample<Keys::as_vectors>>());
REGISTER(kernel("ParseExample").make<ParseExample<Keys::as_scalars>>());
REGISTER(kernel("ParseSingleExample").make<ParseExample<Keys::as_attributes>>());

}  // namespace
}  // namespace thalweg
