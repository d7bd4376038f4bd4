// Hash tables: entries and slots, and the operations on them.
#include "resource/hash_table.h"

#include <cmath>
#include <cstring>
#include <mutex>

#include "strings/quick_hash.h"
#include "thread/parallel.h"

namespace thalweg {

HashIndex::HashIndex(DType key, int64_t key_elements, DType value, int64_t value_elements)
    : text_key_(key == DType::string),
      text_value_(value == DType::string),
      key_bytes_(text_key_ ? 0 : size_of(key) * static_cast<size_t>(key_elements)),
      value_bytes_(text_value_ ? 0 : size_of(value) * static_cast<size_t>(value_elements)),
      value_elements_(static_cast<size_t>(value_elements)) {
  rebuild(8);
}

uint64_t HashIndex::hash_of(std::string_view key) const {
  return !text_key_ && key_bytes_ == 8 ? quick_hash(quick::load(key.data(), 8)) : quick_hash(key);
}

void HashIndex::rebuild(size_t slots) {
  slots_.assign(slots, Slot{0, 0});
  mask_ = slots - 1;
  for (size_t e = 0; e < hashes_.size(); ++e) occupy(hashes_[e], e);
}

void HashIndex::occupy(uint64_t hash, size_t entry) {
  uint64_t at = hash & mask_;
  while (slots_[at].entry != 0) at = (at + 1) & mask_;
  slots_[at] = {static_cast<uint32_t>(hash >> 32), static_cast<uint32_t>(entry + 1)};
}

void HashIndex::reserve(int64_t entries) {
  if (entries >= UINT32_MAX) fail(Code::resource_exhausted, "a table cannot hold ", entries, " entries");
  size_t wanted = slots_.size();
  while (wanted < 2 * static_cast<size_t>(entries)) wanted *= 2;
  if (wanted != slots_.size()) rebuild(wanted);
}

int64_t HashIndex::find(std::string_view text, uint64_t hash) const {
  auto tag = static_cast<uint32_t>(hash >> 32);
  for (uint64_t at = hash & mask_;; at = (at + 1) & mask_) {
    Slot slot = slots_[at];
    if (slot.entry == 0) return -1;
    if (slot.tag == tag && same_text(key(slot.entry - 1), text)) return slot.entry - 1;
  }
}

void HashIndex::prefetch_entry(uint64_t hash) const {
  Slot slot = slots_[hash & mask_];
  if (slot.entry == 0) return;
  size_t e = slot.entry - 1;
  __builtin_prefetch(text_key_ ? static_cast<const void*>(&text_keys_[e]) : &plain_keys_[e * key_bytes_]);
  if (value_elements_ > 0)
    __builtin_prefetch(text_value_ ? static_cast<const void*>(&text_values_[e * value_elements_])
                                   : &plain_values_[e * value_bytes_]);
}

void HashIndex::set_value(size_t e, const Tensor& values, int64_t i) {
  auto row = static_cast<size_t>(i);
  if (text_value_)
    std::copy_n(values.strings() + row * value_elements_, value_elements_, text_values_.data() + e * value_elements_);
  else if (value_bytes_ > 0)
    std::memcpy(&plain_values_[e * value_bytes_], static_cast<const char*>(values.raw()) + row * value_bytes_,
                value_bytes_);
}

void HashIndex::put(std::string_view text, const Tensor& values, int64_t i) {
  uint64_t hash = hash_of(text);
  int64_t found = find(text, hash);
  if (found < 0) {
    reserve(size() + 1);
    found = size();
    occupy(hash, hashes_.size());
    hashes_.push_back(hash);
    if (text_key_)
      text_keys_.emplace_back(text);
    else
      plain_keys_.insert(plain_keys_.end(), text.begin(), text.end());
    text_values_.resize(text_value_ ? hashes_.size() * value_elements_ : 0);
    plain_values_.resize(hashes_.size() * value_bytes_);
  }
  set_value(static_cast<size_t>(found), values, i);
}

void HashIndex::erase(std::string_view text) {
  uint64_t hash = hash_of(text);
  int64_t found = find(text, hash);
  if (found < 0) return;
  auto slot_of = [&](uint64_t h, size_t entry) {
    uint64_t at = h & mask_;
    while (slots_[at].entry != entry + 1) at = (at + 1) & mask_;
    return at;
  };
  auto e = static_cast<size_t>(found), last = hashes_.size() - 1;
  uint64_t hole = slot_of(hash, e);
  if (e != last) {
    slots_[slot_of(hashes_[last], last)].entry = static_cast<uint32_t>(e + 1);
    hashes_[e] = hashes_[last];
    if (text_key_)
      text_keys_[e] = std::move(text_keys_[last]);
    else
      std::memcpy(&plain_keys_[e * key_bytes_], &plain_keys_[last * key_bytes_], key_bytes_);
    if (text_value_)
      std::move(text_values_.end() - static_cast<int64_t>(value_elements_), text_values_.end(),
                text_values_.begin() + static_cast<int64_t>(e * value_elements_));
    else if (value_bytes_ > 0)
      std::memcpy(&plain_values_[e * value_bytes_], &plain_values_[last * value_bytes_], value_bytes_);
  }
  hashes_.pop_back();
  if (text_key_) text_keys_.pop_back();
  plain_keys_.resize(last * key_bytes_);
  if (text_value_) text_values_.resize(last * value_elements_);
  plain_values_.resize(last * value_bytes_);
  // Entries behind the hole that were pushed over it move back, so that no search ends too early.
  for (uint64_t at = (hole + 1) & mask_; slots_[at].entry != 0; at = (at + 1) & mask_) {
    uint64_t home = hashes_[slots_[at].entry - 1] & mask_;
    if (((at - home) & mask_) < ((at - hole) & mask_)) continue;
    slots_[hole] = slots_[at];
    hole = at;
  }
  slots_[hole] = {0, 0};
}

bool HashIndex::has_value(int64_t entry, const Tensor& values, int64_t i) const {
  auto e = static_cast<size_t>(entry), row = static_cast<size_t>(i);
  if (text_value_)
    return std::equal(text_values_.begin() + static_cast<int64_t>(e * value_elements_),
                      text_values_.begin() + static_cast<int64_t>((e + 1) * value_elements_),
                      values.strings() + row * value_elements_);
  return value_bytes_ == 0 ||
         std::memcmp(&plain_values_[e * value_bytes_], static_cast<const char*>(values.raw()) + row * value_bytes_,
                     value_bytes_) == 0;
}

void HashIndex::copy_key(int64_t entry, Tensor& out, int64_t i) const {
  std::string_view bytes = key(entry);
  if (text_key_)
    out.strings()[i].assign(bytes);
  else
    std::memcpy(static_cast<char*>(out.raw()) + static_cast<size_t>(i) * key_bytes_, bytes.data(), key_bytes_);
}

void HashIndex::copy_value(int64_t entry, Tensor& out, int64_t i) const {
  auto e = static_cast<size_t>(entry), row = static_cast<size_t>(i);
  if (text_value_)
    std::copy_n(text_values_.data() + e * value_elements_, value_elements_, out.strings() + row * value_elements_);
  else if (value_bytes_ == 8)
    std::memcpy(static_cast<char*>(out.raw()) + row * 8, &plain_values_[e * 8], 8);
  else if (value_bytes_ > 0)
    std::memcpy(static_cast<char*>(out.raw()) + row * value_bytes_, &plain_values_[e * value_bytes_], value_bytes_);
}

HashTable::HashTable(std::string name, DType key, DType value, Shape value_shape, bool is_static, Shape key_shape)
    : name_(std::move(name)),
      key_(key),
      value_(value),
      key_shape_(std::move(key_shape)),
      value_shape_(std::move(value_shape)),
      static_(is_static),
      initialized_(!is_static),
      content_(empty()) {
  for (DType dtype : {key, value})
    require(dtype == DType::string || (is_plain(dtype) && size_of(dtype) > 0), "a table cannot hold elements of type ",
            dtype);
  require(key != DType::string || key_shape_.num_elements() == 1, "keys of type string must be scalars, got shape ",
          key_shape_);
  require(key_shape_.num_elements() > 0, "keys must not be empty, got shape ", key_shape_);
}

HashIndex HashTable::empty() const {
  return HashIndex(key_, key_shape_.num_elements(), value_, value_shape_.num_elements());
}

Shape HashTable::shape_of_values(const Shape& shape) const {
  std::vector<int64_t> dims(shape.begin(), shape.end() - key_shape_.rank());
  dims.insert(dims.end(), value_shape_.begin(), value_shape_.end());
  return Shape(dims);
}

// Zeros of both signs are one key: the keys with all of them positive.
static Tensor without_negative_zeros(const Tensor& keys) {
  Tensor copy;
  dispatch(keys.dtype(), WideFloats{}, [&]<typename T>() {
    for (int64_t i = 0; i < keys.num_elements(); ++i) {
      if (keys.flat<T>()[i] != 0 || !std::signbit(keys.flat<T>()[i])) continue;
      if (!copy.defined()) copy = keys.clone();
      copy.flat<T>()[i] = 0;
    }
  });
  return copy.defined() ? copy : keys;
}

Tensor HashTable::checked(const Tensor& keys, const Tensor* values) const {
  require(keys.dtype() == key_, "table '", name_, "' has keys of type ", key_, ", got ", keys.dtype());
  int rank = key_shape_.rank();
  bool fits = keys.rank() >= rank;
  for (int i = 0; fits && i < rank; ++i) fits = keys.dim(keys.rank() - rank + i) == key_shape_[i];
  require(fits, "table '", name_, "' has keys of shape ", key_shape_, ", which ", keys.shape(), " does not end with");
  if (values != nullptr) {
    require(values->dtype() == value_, "table '", name_, "' has values of type ", value_, ", got ", values->dtype());
    Shape expected = shape_of_values(keys.shape());
    require(values->shape() == expected, "keys of shape ", keys.shape(), " need values of shape ", expected,
            " in table '", name_, "', got ", values->shape());
  }
  refuse(keys);
  return key_ == DType::float32 || key_ == DType::float64 ? without_negative_zeros(keys) : keys;
}

void HashTable::require_initialized() const {
  if (!initialized_)
    fail(Code::failed_precondition, "Table not initialized: run the initializer of table '", name_,
         "' first, as with tf.tables_initializer()");
}

Tensor HashTable::find(const Tensor& given, const Tensor& otherwise) const {
  Tensor keys = checked(given, nullptr);
  require(otherwise.dtype() == value_ && otherwise.shape() == value_shape_, "the default value of table '", name_,
          "' must be ", value_, value_shape_, ", got ", otherwise.dtype(), otherwise.shape());
  Tensor out(value_, shape_of_values(keys.shape()));
  HashIndex missing(DType::string, 1, value_, value_shape_.num_elements());
  missing.put({}, otherwise, 0);
  std::shared_lock lock(mutex_);
  require_initialized();
  int64_t n = keys.num_elements() / key_shape_.num_elements();
  parallel_for(n, 4096, [&](int64_t begin, int64_t end) {
    // In groups, so that the memory of one key is prefetched while others are looked up.
    constexpr int64_t kGroup = 16;
    uint64_t hashes[kGroup];
    for (int64_t first = begin; first < end; first += kGroup) {
      int64_t count = std::min(kGroup, end - first);
      for (int64_t i = 0; i < count; ++i) {
        hashes[i] = content_.hash_of(content_.key_of(keys, first + i));
        content_.prefetch_slot(hashes[i]);
      }
      for (int64_t i = 0; i < count; ++i) content_.prefetch_entry(hashes[i]);
      for (int64_t i = 0; i < count; ++i) {
        int64_t entry = content_.find(content_.key_of(keys, first + i), hashes[i]);
        if (entry >= 0)
          content_.copy_value(entry, out, first + i);
        else
          missing.copy_value(0, out, first + i);
      }
    }
  });
  return out;
}

void HashTable::insert(const Tensor& given, const Tensor& values) {
  Tensor keys = checked(given, &values);
  std::unique_lock lock(mutex_);
  int64_t n = keys.num_elements() / key_shape_.num_elements();
  for (int64_t i = 0; i < n; ++i) content_.put(content_.key_of(keys, i), values, i);
}

void HashTable::remove(const Tensor& given) {
  Tensor keys = checked(given, nullptr);
  std::unique_lock lock(mutex_);
  int64_t n = keys.num_elements() / key_shape_.num_elements();
  for (int64_t i = 0; i < n; ++i) content_.erase(content_.key_of(keys, i));
}

void HashTable::import(const Tensor& given, const Tensor& values) {
  if (static_) return initialize(given, values);
  Tensor keys = checked(given, &values);
  HashIndex fresh = empty();
  int64_t n = keys.num_elements() / key_shape_.num_elements();
  fresh.reserve(n);
  for (int64_t i = 0; i < n; ++i) fresh.put(fresh.key_of(keys, i), values, i);
  std::unique_lock lock(mutex_);
  std::swap(content_, fresh);
}

// An element as error messages show it.
static std::string show(const Tensor& t, int64_t i) {
  if (t.dtype() == DType::string) return t.strings()[i];
  std::string out = cat("element ", i);
  if (t.dtype() == DType::int64) out = cat(t.flat<int64_t>()[i]);
  if (t.dtype() == DType::int32) out = cat(t.flat<int32_t>()[i]);
  if (t.dtype() == DType::float32) out = cat(t.flat<float>()[i]);
  return out;
}

void HashTable::initialize(const Tensor& given, const Tensor& values) {
  if (!static_) return import(given, values);
  Tensor keys = checked(given, &values);
  HashIndex fresh = empty();
  int64_t n = keys.num_elements();
  fresh.reserve(n);
  for (int64_t i = 0; i < n; ++i) {
    std::string_view key = fresh.key_of(keys, i);
    int64_t found = fresh.find(key, fresh.hash_of(key));
    if (found >= 0 && !fresh.has_value(found, values, i)) {
      Tensor before(value_, value_shape_);
      fresh.copy_value(found, before, 0);
      fail(Code::failed_precondition, "HashTable has different value for same key. Key ", show(keys, i), " has ",
           show(before, 0), " and trying to add value ", show(values, i), " in table '", name_, "'");
    }
    if (found < 0) fresh.put(key, values, i);
  }
  std::unique_lock lock(mutex_);
  if (initialized_) {
    bool same = fresh.size() == content_.size();
    for (int64_t i = 0; same && i < n; ++i) {
      std::string_view key = content_.key_of(keys, i);
      int64_t found = content_.find(key, content_.hash_of(key));
      same = found >= 0 && content_.has_value(found, values, i);
    }
    if (!same) fail(Code::failed_precondition, "Table '", name_, "' was already initialized with different data.");
    return;
  }
  std::swap(content_, fresh);
  initialized_ = true;
}

int64_t HashTable::size() const {
  std::shared_lock lock(mutex_);
  return content_.size();
}

std::pair<Tensor, Tensor> HashTable::export_all() const {
  std::shared_lock lock(mutex_);
  require_initialized();
  Shape shape = key_shape_.inserted(0, content_.size());
  Tensor keys(key_, shape), values(value_, shape_of_values(shape));
  for (int64_t i = 0; i < content_.size(); ++i) {
    content_.copy_key(i, keys, i);
    content_.copy_value(i, values, i);
  }
  return {std::move(keys), std::move(values)};
}

}  // namespace thalweg
