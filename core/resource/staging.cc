// Staging areas: putting, getting, peeking.
#include "resource/staging.h"

#include <algorithm>

namespace thalweg {
namespace {

constexpr size_t kPuts = 0, kGets = 1, kPeeks = 2;
constexpr const char* kPutCancelled = "Stage operation was cancelled";
constexpr const char* kGetCancelled = "Unstage operation was cancelled";
constexpr const char* kPeekCancelled = "Peek operation was cancelled";

}  // namespace

int64_t StagingStore::bytes_of(const Tuple& tuple) {
  int64_t total = 0;
  for (const Tensor& t : tuple) {
    total += static_cast<int64_t>(t.bytes());
    if (t.dtype() == DType::string)
      for (int64_t i = 0; i < t.num_elements(); ++i) total += static_cast<int64_t>(t.strings()[i].size());
  }
  return total;
}

void StagingStore::check_fits(int64_t bytes) const {
  if (limits_.bytes > 0 && bytes > limits_.bytes)
    fail(Code::resource_exhausted, "Attempted to insert tensors with combined size of '", bytes,
         "' bytes into Staging Area with a memory limit of '", limits_.bytes, "'.");
}

void StagingStore::begin_taking(size_t line, std::function<Progress(Tuple&)> advance, Cancellation& cancellation,
                                Taken taken) {
  auto result = std::make_shared<Tuple>();
  begin(
      line, [result, advance = std::move(advance)] { return advance(*result); }, cancellation,
      [result, taken = std::move(taken)](std::optional<Error> error) { taken(std::move(error), std::move(*result)); });
}

StagingArea::StagingArea(StagingLimits limits)
    : StagingStore(limits, {{kPutCancelled}, {kGetCancelled}, {kPeekCancelled, false}}) {}

void StagingArea::put(Tuple tuple, Cancellation& cancellation, Done done) {
  for (Tensor& t : tuple) t = t.owned();
  const int64_t bytes = bytes_of(tuple);
  check_fits(bytes);
  auto held = std::make_shared<Tuple>(std::move(tuple));
  begin(
      kPuts,
      [this, held, bytes] {
        if (!has_room(static_cast<int64_t>(elements_.size()), bytes)) return Progress::none;
        bytes_ += bytes;
        elements_.push_back(std::move(*held));
        return Progress::complete;
      },
      cancellation, std::move(done));
}

void StagingArea::get(Cancellation& cancellation, Taken taken) {
  begin_taking(
      kGets,
      [this](Tuple& result) {
        if (elements_.empty()) return Progress::none;
        result = std::move(elements_.front());
        elements_.pop_front();
        bytes_ -= bytes_of(result);
        return Progress::complete;
      },
      cancellation, std::move(taken));
}

void StagingArea::peek(int64_t index, Cancellation& cancellation, Taken taken) {
  require(index >= 0, "the place of an element must not be negative, got ", index);
  begin_taking(
      kPeeks,
      [this, index](Tuple& result) {
        if (index >= static_cast<int64_t>(elements_.size())) return Progress::none;
        result = elements_[static_cast<size_t>(index)];
        return Progress::complete;
      },
      cancellation, std::move(taken));
}

int64_t StagingArea::size() {
  std::lock_guard lock(mutex_);
  return static_cast<int64_t>(elements_.size());
}

void StagingArea::clear() {
  Finished finished;
  {
    std::lock_guard lock(mutex_);
    elements_.clear();
    bytes_ = 0;
    flush(finished);
  }
  report(finished);
}

MapStagingArea::MapStagingArea(StagingLimits limits, size_t components)
    : StagingStore(limits, {{kPutCancelled}, {kGetCancelled, false}, {kPeekCancelled, false}}),
      components_(components) {}

void MapStagingArea::check_components(const std::vector<int64_t>& components) const {
  for (int64_t component : components)
    require(component >= 0 && component < static_cast<int64_t>(components_), "Index '", component,
            "' is out of bounds: the elements have ", components_, " components");
}

void MapStagingArea::put(int64_t key, std::vector<int64_t> components, Tuple values, Cancellation& cancellation,
                         Done done) {
  require(components.size() == values.size(), "Number of tensors '", values.size(),
          "' does not match the number of indices '", components.size(), "'");
  check_components(components);
  for (size_t i = 0; i < components.size(); ++i)
    require(std::find(components.begin(), components.begin() + static_cast<int64_t>(i), components[i]) ==
                components.begin() + static_cast<int64_t>(i),
            "Index '", components[i], "' is given twice");
  for (Tensor& t : values) t = t.owned();
  const int64_t bytes = bytes_of(values);
  check_fits(bytes);
  auto held = std::make_shared<Tuple>(std::move(values));
  begin(
      kPuts,
      [this, key, held, bytes, components = std::move(components)] {
        require(!complete_.contains(key), "Key '", key, "' is already in the staging area");
        auto found = incomplete_.find(key);
        if (found != incomplete_.end())
          for (int64_t component : components)
            require(!found->second.values[component].defined(), "The tensor for index '", component, "' for key '", key,
                    "' was already initialized '", components_, "'.");
        // The first component of an element makes it one; the others belong to it and never wait for a place.
        const bool is_new = found == incomplete_.end();
        if (!has_room(is_new ? static_cast<int64_t>(complete_.size() + incomplete_.size()) : -1, bytes))
          return Progress::none;
        Element& element = incomplete_[key];
        element.values.resize(components_);
        for (size_t i = 0; i < components.size(); ++i) {
          Tensor& place = element.values[components[i]];
          element.present += place.defined() ? 0 : 1;
          place = std::move((*held)[i]);
        }
        bytes_ += bytes;
        if (element.present == components_) complete_.insert(incomplete_.extract(key));
        return Progress::complete;
      },
      cancellation, std::move(done));
}

MapStagingArea::Tuple MapStagingArea::take(Elements::iterator at, const std::vector<int64_t>& components, bool copy) {
  Element& element = at->second;
  for (int64_t component : components)
    require(element.values[component].defined(), "Tensor at index '", component, "' for key '", at->first,
            "' has already been removed.");
  Tuple out;
  for (int64_t component : components) out.push_back(element.values[component]);
  if (copy) return out;
  for (int64_t component : components) {
    if (!element.values[component].defined()) continue;
    element.values[component].reset();
    --element.present;
  }
  bytes_ -= bytes_of(out);
  if (element.present == 0) complete_.erase(at);
  return out;
}

void MapStagingArea::get(int64_t key, std::vector<int64_t> components, Cancellation& cancellation, Taken taken) {
  check_components(components);
  begin_taking(
      kGets,
      [this, key, components = std::move(components)](Tuple& result) {
        auto found = complete_.find(key);
        if (found == complete_.end()) return Progress::none;
        result = take(found, components, false);
        return Progress::complete;
      },
      cancellation, std::move(taken));
}

void MapStagingArea::get_any(std::vector<int64_t> components, Cancellation& cancellation, Taken taken) {
  check_components(components);
  begin_taking(
      kGets,
      [this, components = std::move(components)](Tuple& result) {
        if (complete_.empty()) return Progress::none;
        auto first = complete_.begin();
        Tensor key = Tensor::scalar(first->first);
        result = take(first, components, false);
        result.insert(result.begin(), std::move(key));
        return Progress::complete;
      },
      cancellation, std::move(taken));
}

void MapStagingArea::peek(int64_t key, std::vector<int64_t> components, Cancellation& cancellation, Taken taken) {
  check_components(components);
  begin_taking(
      kPeeks,
      [this, key, components = std::move(components)](Tuple& result) {
        auto found = complete_.find(key);
        if (found == complete_.end()) return Progress::none;
        result = take(found, components, true);
        return Progress::complete;
      },
      cancellation, std::move(taken));
}

int64_t MapStagingArea::size() {
  std::lock_guard lock(mutex_);
  return static_cast<int64_t>(complete_.size());
}

int64_t MapStagingArea::incomplete_size() {
  std::lock_guard lock(mutex_);
  return static_cast<int64_t>(incomplete_.size());
}

void MapStagingArea::clear() {
  Finished finished;
  {
    std::lock_guard lock(mutex_);
    incomplete_.clear();
    complete_.clear();
    bytes_ = 0;
    flush(finished);
  }
  report(finished);
}

}  // namespace thalweg
