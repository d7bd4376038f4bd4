// Hash tables: keys and values as bytes.
#include "resource/hash_table.h"

#include <mutex>

namespace thalweg {

HashTable::HashTable(std::string name, DType key, DType value, Shape value_shape, bool is_static)
    : name_(std::move(name)),
      key_(key),
      value_(value),
      value_shape_(std::move(value_shape)),
      static_(is_static),
      initialized_(!is_static) {
  for (DType dtype : {key, value})
    require(dtype == DType::string || (is_plain(dtype) && size_of(dtype) > 0), "a table cannot hold elements of type ",
            dtype);
}

void HashTable::Content::put(Entry entry) {
  auto [found, added] = index.emplace(entry.key, entries.size());
  if (added)
    entries.push_back(std::move(entry));
  else
    entries[found->second].value = std::move(entry.value);
}

Shape HashTable::with_value_shape(const Shape& shape) const {
  std::vector<int64_t> dims = shape.to_vector();
  dims.insert(dims.end(), value_shape_.begin(), value_shape_.end());
  return Shape(dims);
}

void HashTable::check(const Tensor& keys, const Tensor* values) const {
  require(keys.dtype() == key_, "table '", name_, "' has keys of type ", key_, ", got ", keys.dtype());
  if (values == nullptr) return;
  require(values->dtype() == value_, "table '", name_, "' has values of type ", value_, ", got ", values->dtype());
  Shape expected = with_value_shape(keys.shape());
  require(values->shape() == expected, "keys of shape ", keys.shape(), " need values of shape ", expected,
          " in table '", name_, "', got ", values->shape());
}

void HashTable::require_initialized() const {
  if (!initialized_)
    fail(Code::failed_precondition, "Table not initialized: run the initializer of table '", name_,
         "' first, as with tf.tables_initializer()");
}

std::string HashTable::key_at(const Tensor& keys, int64_t i) const {
  if (key_ == DType::string) return keys.strings()[i];
  // Zeros of both signs are one key.
  if (key_ == DType::float32 && keys.flat<float>()[i] == 0) return std::string(sizeof(float), '\0');
  if (key_ == DType::float64 && keys.flat<double>()[i] == 0) return std::string(sizeof(double), '\0');
  size_t size = size_of(key_);
  return {static_cast<const char*>(keys.raw()) + static_cast<size_t>(i) * size, size};
}

std::vector<std::string> HashTable::value_at(const Tensor& values, int64_t i) const {
  int64_t count = value_shape_.num_elements();
  if (value_ == DType::string) return {values.strings() + i * count, values.strings() + (i + 1) * count};
  size_t bytes = size_of(value_) * static_cast<size_t>(count);
  return {std::string(static_cast<const char*>(values.raw()) + static_cast<size_t>(i) * bytes, bytes)};
}

void HashTable::store(const std::vector<std::string>& value, Tensor& out, int64_t i) const {
  int64_t count = value_shape_.num_elements();
  if (value_ == DType::string)
    std::copy(value.begin(), value.end(), out.strings() + i * count);
  else
    std::memcpy(static_cast<char*>(out.raw()) + static_cast<size_t>(i) * value[0].size(), value[0].data(),
                value[0].size());
}

Tensor HashTable::find(const Tensor& keys, const Tensor& otherwise) const {
  check(keys, nullptr);
  require(otherwise.dtype() == value_ && otherwise.shape() == value_shape_, "the default value of table '", name_,
          "' must be ", value_, value_shape_, ", got ", otherwise.dtype(), otherwise.shape());
  Tensor out(value_, with_value_shape(keys.shape()));
  std::vector<std::string> fallback = value_at(otherwise, 0);
  std::shared_lock lock(mutex_);
  require_initialized();
  for (int64_t i = 0; i < keys.num_elements(); ++i) {
    auto found = content_.index.find(key_at(keys, i));
    store(found == content_.index.end() ? fallback : content_.entries[found->second].value, out, i);
  }
  return out;
}

void HashTable::insert(const Tensor& keys, const Tensor& values) {
  check(keys, &values);
  std::unique_lock lock(mutex_);
  for (int64_t i = 0; i < keys.num_elements(); ++i) content_.put({key_at(keys, i), value_at(values, i)});
}

void HashTable::remove(const Tensor& keys) {
  check(keys, nullptr);
  std::unique_lock lock(mutex_);
  for (int64_t i = 0; i < keys.num_elements(); ++i) {
    auto found = content_.index.find(key_at(keys, i));
    if (found == content_.index.end()) continue;
    size_t place = found->second;
    content_.index.erase(found);
    if (place + 1 != content_.entries.size()) {
      content_.entries[place] = std::move(content_.entries.back());
      content_.index[content_.entries[place].key] = place;
    }
    content_.entries.pop_back();
  }
}

void HashTable::import(const Tensor& keys, const Tensor& values) {
  check(keys, &values);
  Content fresh;
  for (int64_t i = 0; i < keys.num_elements(); ++i) fresh.put({key_at(keys, i), value_at(values, i)});
  std::unique_lock lock(mutex_);
  std::swap(content_, fresh);
}

void HashTable::initialize(const Tensor& keys, const Tensor& values) {
  check(keys, &values);
  Content fresh;
  for (int64_t i = 0; i < keys.num_elements(); ++i) {
    Entry entry{key_at(keys, i), value_at(values, i)};
    auto found = fresh.index.find(entry.key);
    require(found == fresh.index.end() || fresh.entries[found->second] == entry, "table '", name_,
            "' has different values for the same key, element ", i, " of the keys",
            key_ == DType::string ? cat(" ('", entry.key, "')") : "");
    fresh.put(std::move(entry));
  }
  std::unique_lock lock(mutex_);
  if (initialized_ && static_) {
    if (fresh.entries != content_.entries)
      fail(Code::failed_precondition, "Table '", name_, "' was already initialized with different data.");
    return;
  }
  std::swap(content_, fresh);
  initialized_ = true;
}

int64_t HashTable::size() const {
  std::shared_lock lock(mutex_);
  return static_cast<int64_t>(content_.entries.size());
}

std::pair<Tensor, Tensor> HashTable::export_all() const {
  std::shared_lock lock(mutex_);
  require_initialized();
  Shape shape{static_cast<int64_t>(content_.entries.size())};
  Tensor keys(key_, shape), values(value_, with_value_shape(shape));
  for (size_t i = 0; i < content_.entries.size(); ++i) {
    const Entry& entry = content_.entries[i];
    if (key_ == DType::string)
      keys.strings()[i] = entry.key;
    else
      std::memcpy(static_cast<char*>(keys.raw()) + i * entry.key.size(), entry.key.data(), entry.key.size());
    store(entry.value, values, static_cast<int64_t>(i));
  }
  return {std::move(keys), std::move(values)};
}

}  // namespace thalweg
