// Reading the Features of a batch of examples: keys, blocks, columns, and the outputs made of them.
#include "compute/parsing/example_features.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include "thread/parallel.h"

namespace thalweg {

WantedFeatures::WantedFeatures(std::vector<Wanted> wanted) : wanted_(std::move(wanted)) {
  size_t size = 8;
  while (size < 2 * wanted_.size()) size *= 2;
  slots_.assign(size, -1);
  for (size_t i = 0; i < wanted_.size(); ++i) {
    require(find(wanted_[i].key) < 0, "the key '", wanted_[i].key, "' is given twice");
    size_t at = quick_hash(std::string_view(wanted_[i].key)) & (size - 1);
    while (slots_[at] >= 0) at = (at + 1) & (size - 1);
    slots_[at] = static_cast<int>(i);
  }
}

int WantedFeatures::find(std::string_view key) const {
  size_t mask = slots_.size() - 1;
  for (size_t at = quick_hash(key) & mask; slots_[at] >= 0; at = (at + 1) & mask)
    if (same_text(wanted_[static_cast<size_t>(slots_[at])].key, key)) return slots_[at];
  return -1;
}

int KeyGuesser::search(const WantedFeatures& wanted, std::string_view key, size_t place) {
  if (place >= count_) {
    guesses_.resize(place + 1);
    count_ = place + 1;
  }
  guesses_[place].key.assign(key);
  return guesses_[place].found = wanted.find(key);
}

Wanted dense_feature(std::string key, DType dtype, const PartialShape& declared, int i) {
  Wanted wanted{std::move(key), dtype, Wanted::Form::fixed, declared, {}};
  require(declared.known_rank, "dense_shapes[", i, "] has an unknown rank");
  std::vector<int64_t> dims = declared.dims;
  if (!dims.empty() && dims[0] < 0) {
    wanted.form = Wanted::Form::padded;
    dims.erase(dims.begin());
  }
  for (int64_t d : dims) require(d >= 0, "dense_shapes[", i, "] has unknown inner dimensions: ", declared);
  wanted.row = Shape(dims);
  return wanted;
}

std::vector<Wanted> list_wanted(const std::vector<std::string>& sparse_keys, const std::vector<DType>& sparse_types,
                                const std::vector<std::string>& dense_keys, const std::vector<DType>& dense_types,
                                const std::vector<PartialShape>& dense_shapes,
                                const std::vector<std::string>& ragged_keys, const std::vector<DType>& ragged_types) {
  auto check = [](const char* kind, size_t keys, size_t types) {
    require(keys == types, "Expected len(", kind, "_keys) == num_", kind, " but got: ", keys, " vs. ", types);
  };
  check("sparse", sparse_keys.size(), sparse_types.size());
  check("dense", dense_keys.size(), dense_types.size());
  check("ragged", ragged_keys.size(), ragged_types.size());
  std::vector<Wanted> all;
  for (size_t i = 0; i < sparse_keys.size(); ++i)
    all.push_back({sparse_keys[i], sparse_types[i], Wanted::Form::sparse, {}, {}});
  for (size_t i = 0; i < dense_keys.size(); ++i)
    all.push_back(dense_feature(dense_keys[i], dense_types[i], dense_shapes[i], static_cast<int>(i)));
  for (size_t i = 0; i < ragged_keys.size(); ++i)
    all.push_back({ragged_keys[i], ragged_types[i], Wanted::Form::ragged, {}, {}});
  return all;
}

std::vector<std::string> key_vector(const Tensor& keys, const char* what) {
  require(keys.rank() == 1, what, " must be a vector, got shape ", keys.shape());
  return {keys.strings(), keys.strings() + keys.num_elements()};
}

void check_default(const Wanted& wanted, const Tensor& value, int i) {
  require(value.dtype() == wanted.dtype, "the default of '", wanted.key, "' is ", value.dtype(),
          ", but the feature is ", wanted.dtype);
  if (wanted.form == Wanted::Form::padded)
    require(value.num_elements() == 1, "dense_shape[", i, "] is a variable length shape: ", wanted.declared,
            ", therefore def_value[", i,
            "] must contain a single element (the padding element).  But its shape is: ", value.shape());
  else if (value.num_elements() > 0)
    require(value.shape() == wanted.row, "def_value[", i, "].shape() == ", value.shape(),
            " is not compatible with dense_shapes_[", i, "] == ", wanted.row);
}

std::string ExampleName::of(int64_t row) const {
  return names.num_elements() == 0 ? "<unknown>" : excerpt(names.strings()[row]);
}

std::string ExampleName::at(int64_t row, std::string_view key) const {
  if (sequence) return cat("Name: ", of(row), ", Context feature: ", key, ".  ");
  return single ? cat("Key: ", key, ".  ") : cat("Name: ", of(row), ", Key: ", key, ", Index: ", row, ".  ");
}

const char* list_name(DType dtype) { return dtype == DType::float32 ? "float" : name_of(dtype); }

const char* list_name(example::Kind kind) {
  constexpr const char* kNames[] = {"none", "string", "float", "int64"};
  return kNames[static_cast<int>(kind)];
}

std::string excerpt(std::string_view bytes) {
  constexpr size_t kMost = 200;
  std::string out;
  for (char c : bytes.substr(0, kMost)) {
    auto code = static_cast<unsigned char>(c);
    if (code >= 0x20 && code < 0x7f) {
      out.push_back(c);
    } else {
      constexpr char kDigits[] = "0123456789abcdef";
      out.append("\\x").append(1, kDigits[code >> 4]).append(1, kDigits[code & 15]);
    }
  }
  if (bytes.size() > kMost) out.append(cat("... (", bytes.size(), " bytes)"));
  return out;
}

std::vector<int64_t> starts_of_values(std::span<Column> columns) {
  std::vector<int64_t> starts{0};
  for (const Column& column : columns)
    starts.push_back(std::accumulate(column.counts.begin(), column.counts.end(), starts.back()));
  return starts;
}

Tensor join_values(DType dtype, std::span<Column> columns) {
  std::vector<int64_t> starts = starts_of_values(columns);
  Tensor out(dtype, Shape{starts.back()});
  dispatch(dtype, ExampleTypes{}, [&]<typename T>() {
    parallel_for(static_cast<int64_t>(columns.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        CachedVector<T>& values = columns[static_cast<size_t>(b)].template values<T>();
        std::move(values.begin(), values.end(), out.flat<T>() + starts[static_cast<size_t>(b)]);
      }
    });
  });
  return out;
}

FeatureReader::FeatureReader(const WantedFeatures& wanted, std::vector<Tensor> defaults, const RecordBlocks& blocks,
                             ExampleName name)
    : wanted_(wanted), defaults_(std::move(defaults)), blocks_(blocks), name_(name) {
  fixed_.resize(wanted.size());
  columns_.resize(wanted.size());
  for (size_t f = 0; f < wanted.size(); ++f) {
    if (wanted[f].form == Wanted::Form::fixed)
      fixed_[f] = Tensor(wanted[f].dtype, batched(wanted[f].row));
    else
      columns_[f].resize(static_cast<size_t>(blocks.count()));
    bool is_fixed = wanted[f].form == Wanted::Form::fixed;
    readings_.push_back(wanted[f].dtype == DType::float32 ? (is_fixed ? Reading::fixed_floats : Reading::floats)
                        : wanted[f].dtype == DType::int64 ? (is_fixed ? Reading::fixed_ints : Reading::ints)
                                                          : (is_fixed ? Reading::fixed_strings : Reading::strings));
    for (size_t b = 0; b < columns_[f].size(); ++b) {
      auto first = blocks.first_row(static_cast<int64_t>(b)), end = blocks.first_row(static_cast<int64_t>(b) + 1);
      columns_[f][b].counts.reserve(static_cast<size_t>(end - first));
    }
  }
  state_.resize(static_cast<size_t>(blocks.count()));
  for (Block& block : state_) {
    block.found.resize(wanted.size());
    block.round_of.resize(wanted.size());
  }
}

Shape FeatureReader::batched(const Shape& row) const { return name_.single ? row : row.inserted(0, blocks_.rows()); }

bool FeatureReader::find_entries(Block& block, std::string_view features) {
  const char *at = features.data(), *end = at + features.size();
  auto keep = [&](int f, const Found& found) {
    if (f < 0) return;
    block.found[static_cast<size_t>(f)] = found;
    block.round_of[static_cast<size_t>(f)] = block.round;
  };
  for (size_t place = 0; at != end;) {
    std::string_view values, entry, key;
    if (place < block.layouts.size() && block.layouts[place].matches(at, end, &values)) [[likely]] {
      const example::EntryLayout& layout = block.layouts[place++];
      keep(layout.found(), {values, layout.kind()});
      at = values.data() + values.size();
      continue;
    }
    example::Cursor cursor({at, static_cast<size_t>(end - at)});
    uint32_t tag;
    if (!cursor.tag(&tag)) return false;
    if (tag == example::bytes_tag(1)) {
      if (!cursor.bytes(&entry) || !example::read_entry(entry, block.joiner, &key, &values)) return false;
      int f = block.guesser.find(wanted_, key, place);
      keep(f, {values});
      if (place >= block.layouts.size()) block.layouts.resize(place + 1);
      block.layouts[place++].learn(at, end, f);
    } else if (!cursor.skip(tag)) {
      return false;
    }
    at = cursor.at();
  }
  return true;
}

bool FeatureReader::read(int64_t b, int64_t row, std::string_view features) {
  Block& block = state_[static_cast<size_t>(b)];
  block.joiner.clear();
  ++block.round;
  if (!find_entries(block, features)) return false;
  for (size_t f = 0, count = readings_.size(); f < count; ++f) {
    Reading reading = readings_[f];
    if (block.round_of[f] != block.round) {
      if (reading <= Reading::fixed_strings)
        missing(row, f);
      else
        columns_[f][static_cast<size_t>(b)].counts.push_back(0);
      continue;
    }
    const Found& feature = block.found[f];
    auto column = [&]() -> Column& { return columns_[f][static_cast<size_t>(b)]; };
    switch (reading) {
      case Reading::fixed_floats:
        read_fixed<float>(block, row, f, feature);
        break;
      case Reading::fixed_ints:
        read_fixed<int64_t>(block, row, f, feature);
        break;
      case Reading::fixed_strings:
        read_fixed<std::string>(block, row, f, feature);
        break;
      case Reading::floats:
        read_column<float>(block, column(), row, f, feature);
        break;
      case Reading::ints:
        read_column<int64_t>(block, column(), row, f, feature);
        break;
      case Reading::strings:
        read_column<std::string>(block, column(), row, f, feature);
        break;
    }
  }
  return true;
}

void FeatureReader::missing(int64_t row, size_t f) {
  const Wanted& wanted = wanted_[f];
  const Tensor& otherwise = defaults_[f];
  if (otherwise.num_elements() == 0) {
    std::string who = name_.single && !name_.sequence ? "" : cat("Name: ", name_.of(row), ", ");
    fail(Code::invalid_argument, who, name_.sequence ? "Context feature: " : "Feature: ", wanted.key,
         " (data type: ", list_name(wanted.dtype), ") is required but could not be found.");
  }
  int64_t stride = wanted.row.num_elements();
  auto* to = static_cast<char*>(fixed_[f].raw()) + static_cast<size_t>(row * stride) * size_of(wanted.dtype);
  copy_elements(wanted.dtype, to, otherwise.raw(), stride);
}

void FeatureReader::wrong_kind(int64_t row, size_t f, example::Kind found) const {
  const Wanted& wanted = wanted_[f];
  const char* expected = list_name(wanted.dtype);
  std::string at = name_.at(row, wanted.key);
  if (wanted.form == Wanted::Form::fixed || wanted.form == Wanted::Form::padded)
    fail(Code::invalid_argument, at, "Data types don't match. Data type: ", list_name(found),
         " but expected type: ", expected);
  fail(Code::invalid_argument, at, "Data types don't match. Expected type: ", expected,
       ", Actual type: ", list_name(found));
}

void FeatureReader::malformed(int64_t row, size_t f) const {
  fail(Code::invalid_argument, name_.at(row, wanted_[f].key), "Can't parse serialized Example.");
}

template <typename T, typename Sink>
bool FeatureReader::read_found(Block& block, int64_t row, size_t f, const Found& found, Sink&& sink) {
  if (found.kind == example::kind_of<T>) [[likely]] {
    if (!example::read_values<T>(found.bytes, sink)) malformed(row, f);
    return true;
  }
  example::Kind kind = found.kind;
  std::string_view list;
  if (kind == example::Kind::none && !example::read_feature(found.bytes, block.joiner, &kind, &list)) malformed(row, f);
  if (kind == example::Kind::none) return false;
  if (kind != example::kind_of<T>) wrong_kind(row, f, kind);
  if (!example::read_list<T>(list, sink)) malformed(row, f);
  return true;
}

template <typename T>
void FeatureReader::read_fixed(Block& block, int64_t row, size_t f, const Found& found) {
  const Shape& shape = wanted_[f].row;
  example::Filled<T> sink{fixed_[f].template flat<T>() + row * shape.num_elements(), shape.num_elements()};
  if (!read_found<T>(block, row, f, found, sink)) return missing(row, f);
  // The text of the place costs time: it is made for errors only, here and below.
  if (sink.seen != sink.room)
    fail(Code::invalid_argument, name_.at(row, wanted_[f].key), "Number of ",
         std::is_same_v<T, std::string> ? "bytes" : list_name(example::kind_of<T>),
         " values != expected.  Values size: ", sink.seen, " but output shape: ", shape);
}

template <typename T>
void FeatureReader::read_column(Block& block, Column& column, int64_t row, size_t f, const Found& found) {
  CachedVector<T>& values = column.values<T>();
  size_t before = values.size();
  read_found<T>(block, row, f, found, example::Appended<T, CachedVector<T>>{values});
  auto count = static_cast<int64_t>(values.size() - before);
  if (wanted_[f].form == Wanted::Form::padded) {
    int64_t stride = wanted_[f].row.num_elements();
    if (stride == 0 ? count != 0 : count % stride != 0)
      fail(Code::invalid_argument, name_.at(row, wanted_[f].key), "Number of ",
           std::is_same_v<T, std::string> ? "bytes" : list_name(example::kind_of<T>),
           " values is not a multiple of stride length. Saw ", count,
           " values but output shape is: ", wanted_[f].declared);
  }
  column.counts.push_back(count);
}

namespace {

int64_t largest_count(std::span<Column> columns) {
  int64_t most = 0;
  for (const Column& column : columns)
    for (int64_t count : column.counts) most = std::max(most, count);
  return most;
}

}  // namespace

Tensor FeatureReader::dense(size_t f) {
  return wanted_[f].form == Wanted::Form::fixed ? std::move(fixed_[f]) : padded(f);
}

Tensor FeatureReader::padded(size_t f) {
  const Wanted& wanted = wanted_[f];
  std::vector<Column>& columns = columns_[f];
  int64_t stride = wanted.row.num_elements();
  int64_t longest = stride == 0 ? 0 : largest_count(columns) / stride;
  Tensor out(wanted.dtype, batched(wanted.row.inserted(0, longest)));
  int64_t width = longest * stride;
  dispatch(wanted.dtype, ExampleTypes{}, [&]<typename T>() {
    const T& padding = *defaults_[f].flat<T>();
    blocks_.for_each([&](int64_t b) {
      Column& column = columns[static_cast<size_t>(b)];
      auto from = column.values<T>().begin();
      T* to = out.flat<T>() + blocks_.first_row(b) * width;
      for (int64_t count : column.counts) {
        std::move(from, from + count, to);
        std::fill(to + count, to + width, padding);
        from += count;
        to += width;
      }
    });
  });
  return out;
}

void FeatureReader::sparse(size_t f, Tensor* indices, Tensor* values, Tensor* shape) {
  std::vector<Column>& columns = columns_[f];
  *values = join_values(wanted_[f].dtype, columns);
  int64_t rank = name_.single ? 1 : 2;
  *indices = Tensor(DType::int64, Shape{values->num_elements(), rank});
  *shape = Tensor(DType::int64, Shape{rank});
  int64_t* dims = shape->flat<int64_t>();
  if (!name_.single) *dims++ = blocks_.rows();
  *dims = largest_count(columns);
  std::vector<int64_t> starts = starts_of_values(columns);
  blocks_.for_each([&](int64_t b) {
    int64_t* to = indices->flat<int64_t>() + starts[static_cast<size_t>(b)] * rank;
    int64_t row = blocks_.first_row(b);
    for (int64_t count : columns[static_cast<size_t>(b)].counts) {
      for (int64_t i = 0; i < count; ++i) {
        if (rank == 2) *to++ = row;
        *to++ = i;
      }
      ++row;
    }
  });
}

void FeatureReader::ragged(size_t f, DType split_dtype, Tensor* values, Tensor* splits) {
  std::vector<Column>& columns = columns_[f];
  *values = join_values(wanted_[f].dtype, columns);
  // Of a single example there are no rows to split. SequenceExamples count its values instead.
  Shape shape = !name_.single ? Shape{blocks_.rows() + 1} : name_.sequence ? Shape{} : Shape{0};
  *splits = Tensor(split_dtype, shape);
  dispatch(split_dtype, Indices{}, [&]<typename I>() {
    I* to = splits->flat<I>();
    int64_t total = 0;
    if (!name_.single) *to++ = 0;
    for (const Column& column : columns)
      for (int64_t count : column.counts) {
        total += count;
        if (shape.num_elements() > 0) *to++ = static_cast<I>(total);
      }
    require(static_cast<int64_t>(static_cast<I>(total)) == total, "the ", total, " values of '", wanted_[f].key,
            "' are more than row splits of type ", split_dtype, " can count");
  });
}

}  // namespace thalweg
