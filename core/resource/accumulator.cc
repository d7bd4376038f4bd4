// Accumulating gradients, dense and sparse.
#include "resource/accumulator.h"

#include <algorithm>
#include <cstring>

namespace thalweg {
namespace {

// The sum of two numbers; integers wrap around.
template <typename T>
T sum_of(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b));
  else
    return static_cast<T>(a + b);
}

void add_to(DType dtype, void* sum, const void* more, int64_t count) {
  dispatch(dtype, Numbers{}, [&]<typename T>() {
    T* to = static_cast<T*>(sum);
    const T* from = static_cast<const T*>(more);
    for (int64_t i = 0; i < count; ++i) to[i] = sum_of(to[i], from[i]);
  });
}

void divide(DType dtype, void* values, int64_t count, int64_t by) {
  if (by == 1) return;
  dispatch(dtype, Numbers{}, [&]<typename T>() {
    T* to = static_cast<T*>(values);
    // A count that the type cannot hold is wider than it: the quotient is taken in 64 bits.
    if constexpr (std::is_integral_v<T>) {
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(static_cast<int64_t>(to[i]) / by);
    } else {
      const T divisor = static_cast<T>(static_cast<float>(by));
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(to[i] / divisor);
    }
  });
}

}  // namespace

void Accumulator::apply(int64_t local_step, Gradient gradient, std::optional<int64_t> contributor) {
  Finished finished;
  {
    std::lock_guard lock(mutex_);
    if (local_step < global_step_) return;
    require(count_ == 0 || contributor.has_value() != contributions_.empty(),
            "gradients with and without a contributor cannot be accumulated together");
    check(gradient, summed_ == 0);
    if (!contributor) {
      sum_up(std::move(gradient));
    } else {
      require(*contributor >= 0, "a contributor must not be negative, got ", *contributor);
      if (contributions_.contains(*contributor)) return;
      for (Tensor& each : gradient) each = each.owned();
      contributions_.emplace(*contributor, Contribution{local_step, std::move(gradient)});
      sum_up_contributions(false);
    }
    ++count_;
    flush(finished);
  }
  report(finished);
}

void Accumulator::sum_up(Gradient gradient) {
  add(std::move(gradient), summed_ == 0);
  ++summed_;
}

void Accumulator::sum_up_contributions(bool all) {
  int64_t next = 0;
  for (auto& [contributor, contribution] : contributions_) {
    if (contributor != next++ && !all) return;
    if (contribution.gradient.empty()) continue;
    try {
      // Contributions that were kept apart have not been compared with each other.
      check(contribution.gradient, summed_ == 0);
    } catch (const Error&) {
      if (!all) return;  // The taker is told.
      throw;
    }
    sum_up(std::exchange(contribution.gradient, {}));
  }
}

void Accumulator::take(int64_t required, Cancellation& cancellation, Taken taken) {
  require(required > 0, "Argument num_required must be positive, got ", required);
  auto result = std::make_shared<Gradient>();
  begin(
      0,
      [this, required, result] {
        if (count_ < required) return Progress::none;
        ++global_step_;
        std::optional<Error> misfit;
        try {
          sum_up_contributions(true);
        } catch (const Error& error) {
          misfit = error;
        }
        *result = start_anew();
        if (misfit) throw *misfit;
        return Progress::complete;
      },
      cancellation,
      [result, taken = std::move(taken)](std::optional<Error> error) { taken(std::move(error), std::move(*result)); });
}

Accumulator::Gradient Accumulator::start_anew() {
  contributions_.clear();
  count_ = 0;
  const int64_t summed = std::exchange(summed_, 0);
  return summed > 0 ? finish(summed) : Gradient();
}

int64_t Accumulator::count() {
  std::lock_guard lock(mutex_);
  return count_;
}

void Accumulator::set_global_step(int64_t step, bool ends_takers) {
  Finished finished;
  {
    std::lock_guard lock(mutex_);
    global_step_ = step;
    // Contributions come for the accumulator's step only, so that all of them are stale, or none.
    if (!contributions_.empty() && contributions_.begin()->second.step < step) start_anew();
    if (ends_takers)
      end_all(0, Error(Code::aborted, cat("the accumulator '", options_.name, "' has begun a new round")), finished);
  }
  report(finished);
}

void DenseAccumulator::check(const Gradient& gradient, bool first) const {
  const Shape& shape = gradient[0].shape();
  require(options_.shape.accepts(shape), "Shape mismatch: expected ", options_.shape, ", got ", shape);
  require(first || sum_.shape() == shape, "Shape mismatch: expected ", sum_.shape(), ", got ", shape);
}

void DenseAccumulator::add(Gradient gradient, bool first) {
  Tensor& value = gradient[0];
  if (first) {
    sum_ = value.owned();
    return;
  }
  if (!sum_.writable()) sum_ = sum_.clone();
  add_to(options_.dtype, sum_.raw(), value.raw(), value.num_elements());
}

Accumulator::Gradient DenseAccumulator::finish(int64_t count) {
  if (options_.mean && count > 1) {
    if (!sum_.writable()) sum_ = sum_.clone();
    divide(options_.dtype, sum_.raw(), sum_.num_elements(), count);
  }
  Gradient out;
  out.push_back(std::move(sum_));
  sum_.reset();
  return out;
}

void SparseAccumulator::check(const Gradient& gradient, bool first) const {
  const Tensor &indices = gradient[0], &values = gradient[1];
  require(indices.rank() == 1, "Input indices should be a vector but received shape: ", indices.shape());
  require(values.rank() >= 1, "Values must be at least a vector, got shape ", values.shape());
  require(values.dim(0) == indices.dim(0), "Number of values must match number of indices, got ", values.dim(0),
          " values, ", indices.dim(0), " indices");
  Shape row = values.shape().removed(0);
  require(first || row == row_shape_, "Shape mismatch: expected values of shape ", row_shape_, " for an index, got ",
          row);
  int64_t limit = std::numeric_limits<int64_t>::max();
  if (options_.shape.known_rank) {
    const std::vector<int64_t>& declared = options_.shape.dims;
    PartialShape expected = options_.shape;
    if (!expected.dims.empty()) expected.dims[0] = -1;
    // No gradient is a scalar: such a shape stands for none.
    require(expected.dims.empty() || expected.accepts(values.shape()), "Shape mismatch: expected values of shape ",
            expected, ", got ", values.shape());
    if (!declared.empty() && declared[0] >= 0) limit = declared[0];
  }
  if (gradient.size() > 2) {
    const Tensor& shape = gradient[2];
    require(shape.rank() == 1 && shape.dim(0) == values.rank(), "the shape of a gradient must be a vector of ",
            values.rank(), " sizes, got shape ", shape.shape());
    std::vector<int64_t> dims = to_int64s(shape);
    require((options_.shape.known_rank && options_.shape.dims.empty()) || options_.shape.accepts(Shape(dims)),
            "Shape mismatch: expected ", options_.shape, ", got ", Shape(dims));
    require(std::equal(dims.begin() + 1, dims.end(), row.begin(), row.end()), "the shape of a gradient, ", Shape(dims),
            ", does not fit its values, of shape ", values.shape());
    limit = std::min(limit, dims[0]);
  }
  const int64_t* at = indices.flat<int64_t>();
  for (int64_t i = 0; i < indices.num_elements(); ++i)
    require(at[i] >= 0 && at[i] < limit, "Index ", at[i], " at position ", i, " is out of range: the tensor has ",
            limit, " rows");
}

void SparseAccumulator::add(Gradient gradient, bool first) {
  const Tensor &indices = gradient[0], &values = gradient[1];
  if (first) {
    row_shape_ = values.shape().removed(0);
    rows_.clear();
    sums_.clear();
    added_ = 0;
  }
  const int64_t width = row_shape_.num_elements();
  const size_t bytes = static_cast<size_t>(width) * size_of(options_.dtype);
  const char* from = static_cast<const char*>(values.raw());
  for (int64_t i = 0; i < indices.num_elements(); ++i, from += bytes) {
    auto [found, is_new] = rows_.try_emplace(indices.flat<int64_t>()[i]);
    Row& row = found->second;
    if (is_new) {
      row.at = static_cast<int64_t>(rows_.size()) - 1;
      sums_.insert(sums_.end(), from, from + bytes);
    } else {
      add_to(options_.dtype, sums_.data() + static_cast<size_t>(row.at) * bytes, from, width);
    }
    // An index that occurs twice in one gradient is a sum, not two contributions.
    if (row.newest != added_) ++row.count;
    row.newest = added_;
  }
  ++added_;
}

Accumulator::Gradient SparseAccumulator::finish(int64_t) {
  std::vector<std::pair<int64_t, Row>> sorted(rows_.begin(), rows_.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  const auto count = static_cast<int64_t>(sorted.size());
  Tensor indices(DType::int64, Shape{count}), values(options_.dtype, row_shape_.inserted(0, count));
  const int64_t width = row_shape_.num_elements();
  const size_t bytes = static_cast<size_t>(width) * size_of(options_.dtype);
  char* to = static_cast<char*>(values.raw());
  for (int64_t i = 0; i < count; ++i, to += bytes) {
    const auto& [index, row] = sorted[static_cast<size_t>(i)];
    indices.flat<int64_t>()[i] = index;
    if (bytes > 0) std::memcpy(to, sums_.data() + static_cast<size_t>(row.at) * bytes, bytes);
    if (options_.mean) divide(options_.dtype, to, width, row.count);
  }
  // The number of rows of the whole tensor is only known if it was declared.
  std::vector<int64_t> dims = row_shape_.to_vector();
  bool declared = options_.shape.known_rank && !options_.shape.dims.empty();
  dims.insert(dims.begin(), declared ? options_.shape.dims[0] : -1);
  rows_.clear();
  sums_.clear();
  return {std::move(indices), std::move(values), Tensor::vector<int64_t>(dims)};
}

}  // namespace thalweg
