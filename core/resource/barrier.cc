// Barriers: inserting components, taking complete elements, closing.
#include "resource/barrier.h"

#include <algorithm>

#include "resource/queue_batch.h"

namespace thalweg {

void Barrier::insert_many(int64_t component, const Tensor& keys, const Tensor& values) {
  const auto components = static_cast<int64_t>(options_.dtypes.size());
  require(component >= 0 && component < components, "The component ID is out of range ", component,
          " > num_components (=", components, ")");
  require(values.dtype() == options_.dtypes[component], "Component ", component, " of barrier '", options_.name,
          "' has type ", options_.dtypes[component], ", the values have ", values.dtype());
  require(keys.rank() == 1 && values.rank() >= 1 && values.dim(0) == keys.dim(0), "keys must be a vector, and values ",
          "must have as many rows; got shapes ", keys.shape(), " and ", values.shape());
  if (!options_.shapes.empty()) {
    Shape row = values.shape().removed(0);
    require(options_.shapes[component].accepts(row), "Shape mismatch in tuple component ", component, ". Expected ",
            options_.shapes[component], ", got ", row);
  }
  Finished finished;
  std::optional<Error> error;
  {
    std::lock_guard lock(mutex_);
    if (closed_ && incomplete_.empty())
      fail(Code::cancelled, "Barrier ", options_.name, " is closed.  Pending enqueues cancelled: ", cancelled_,
           ".  Number of new insertions: ", keys.num_elements(), ".  Number of incomplete keys: 0.");
    const int64_t index = next_index_;
    const size_t before = incomplete_.size() + ready_.size();
    try {
      for (int64_t i = 0; i < keys.num_elements(); ++i)
        insert(component, keys.strings()[i], index, take_row(values, i));
    } catch (const Error& problem) {
      error = problem;
    }
    if (incomplete_.size() + ready_.size() > before) ++next_index_;
    flush(finished);
  }
  report(finished);
  if (error) throw *error;
}

void Barrier::insert(int64_t component, const std::string& key, int64_t index, Tensor value) {
  auto found = incomplete_.find(key);
  if (found == incomplete_.end()) {
    if (closed_)
      fail(Code::cancelled, "Barrier ", options_.name, " is closed, but attempted to insert a brand new key: ", key,
           ".  Pending enqueues cancelled: ", cancelled_, ".  Number of incomplete keys: ", incomplete_.size(), ".");
    found = incomplete_.emplace(key, Element{index, key, Tuple(options_.dtypes.size())}).first;
  }
  Element& element = found->second;
  Tensor& place = element.values[component];
  require(!place.defined(), "Key ", key, " already has a value for component ", component, " in barrier ",
          options_.name);
  place = std::move(value);
  if (++element.present < options_.dtypes.size()) return;
  ready_.emplace(element.index, std::move(element));
  incomplete_.erase(found);
}

Waitable::Progress Barrier::advance_take(int64_t count, bool allow_small_batch, std::vector<Element>& taken) {
  const auto ready = static_cast<int64_t>(ready_.size());
  if (closed_) {
    if (allow_small_batch) count = std::min(count, ready);
    const int64_t all = allow_small_batch ? ready : ready + static_cast<int64_t>(incomplete_.size());
    if (all < std::max<int64_t>(count, 1))
      fail(Code::out_of_range, "Barrier '", options_.name, "' is closed and has insufficient elements (requested ",
           count, ", total size ", all, ")");
  }
  if (ready < count) return Progress::none;
  for (int64_t i = 0; i < count; ++i) {
    taken.push_back(std::move(ready_.begin()->second));
    ready_.erase(ready_.begin());
  }
  return Progress::complete;
}

void Barrier::take_many(int64_t count, bool allow_small_batch, Cancellation& cancellation, Taken taken) {
  require(count >= 0, "the number of elements to take must not be negative, got ", count);
  auto elements = std::make_shared<std::vector<Element>>();
  begin(
      0, [this, count, allow_small_batch, elements] { return advance_take(count, allow_small_batch, *elements); },
      cancellation,
      [this, elements, taken = std::move(taken)](std::optional<Error> error) {
        Tuple result;
        if (!error) {
          try {
            result = stack(std::move(*elements));
          } catch (const Error& problem) {
            error = problem;
          } catch (const std::bad_alloc&) {
            error = Error(Code::resource_exhausted, "out of memory for a batch of elements");
          }
        }
        taken(std::move(error), std::move(result));
      });
}

Barrier::Tuple Barrier::stack(std::vector<Element> elements) const {
  const auto rows = static_cast<int64_t>(elements.size());
  Tuple out{Tensor(DType::int64, Shape{rows}), Tensor(DType::string, Shape{rows})};
  for (int64_t i = 0; i < rows; ++i) {
    out[0].flat<int64_t>()[i] = elements[i].index;
    out[1].strings()[i] = std::move(elements[i].key);
  }
  for (size_t c = 0; c < options_.dtypes.size(); ++c) {
    Shape shape;
    if (rows > 0)
      shape = elements[0].values[c].shape();
    else if (!options_.shapes.empty() && options_.shapes[c].fully_defined())
      shape = Shape(options_.shapes[c].dims);
    Tensor batch = new_batch(options_.dtypes[c], rows, shape);
    for (int64_t i = 0; i < rows; ++i) {
      Tensor& value = elements[i].values[c];
      require(value.shape() == shape, "the elements of a batch must have one shape, got ", shape, " and ",
              value.shape(), " for component ", c);
      put_row(batch, i, value);
    }
    out.push_back(std::move(batch));
  }
  return out;
}

void Barrier::close(bool cancel_pending) {
  Finished finished;
  {
    std::lock_guard lock(mutex_);
    if (!cancel_pending && closed_) fail(Code::cancelled, "Barrier '", options_.name, "' is already closed.");
    closed_ = true;
    if (cancel_pending) {
      cancelled_ = true;
      incomplete_.clear();
    }
    flush(finished);
  }
  report(finished);
}

int64_t Barrier::ready_size() {
  std::lock_guard lock(mutex_);
  return static_cast<int64_t>(ready_.size());
}

int64_t Barrier::incomplete_size() {
  std::lock_guard lock(mutex_);
  return static_cast<int64_t>(incomplete_.size());
}

}  // namespace thalweg
