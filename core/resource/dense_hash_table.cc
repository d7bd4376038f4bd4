// Dense hash tables: the two special keys, and buckets in and out.
#include "resource/dense_hash_table.h"

#include <mutex>

#include "strings/hash.h"

namespace thalweg {

DenseHashTable::DenseHashTable(std::string name, const Tensor& empty_key, const Tensor& deleted_key, DType value,
                               Shape value_shape, int64_t buckets, double max_load)
    : HashTable(std::move(name), empty_key.dtype(), value, std::move(value_shape), false, empty_key.shape()),
      empty_key_(empty_key.clone()),
      deleted_key_(deleted_key.clone()),
      buckets_(buckets),
      max_load_(max_load) {
  require(empty_key.dtype() == deleted_key.dtype() && empty_key.shape() == deleted_key.shape(),
          "Empty and deleted keys must have same shape, got shapes: ", empty_key.shape(), " and ", deleted_key.shape());
  require(empty_key.rank() <= 1, "Empty key must be a scalar or a vector, got shape ", empty_key.shape());
  require(!is(empty_key_, deleted_key_, 0), "Empty and deleted keys cannot be equal");
  require(max_load > 0 && max_load < 1, "max_load_factor must be between 0 and 1, got: ", max_load);
  require(buckets >= 4 && (buckets & (buckets - 1)) == 0 && buckets <= int64_t{1} << 30,
          "Number of buckets must be at least 4 and a power of 2, got: ", buckets);
}

bool DenseHashTable::is(const Tensor& special, const Tensor& keys, int64_t i) const {
  return content_.key_of(special, 0) == content_.key_of(keys, i);
}

void DenseHashTable::refuse(const Tensor& keys) const {
  int64_t n = keys.num_elements() / key_shape_.num_elements();
  for (int64_t i = 0; i < n; ++i) {
    require(!is(empty_key_, keys, i), "Using the empty_key as a table key is not allowed");
    require(!is(deleted_key_, keys, i), "Using the deleted_key as a table key is not allowed");
  }
}

void DenseHashTable::import(const Tensor& keys, const Tensor& values) {
  require(keys.dtype() == key_ && values.dtype() == value_, "table '", name_, "' has keys of type ", key_,
          " and values of type ", value_, ", got ", keys.dtype(), " and ", values.dtype());
  // Scalars come as vectors of one: exports have them so.
  int64_t width = key_shape_.num_elements(), value_width = value_shape_.num_elements();
  int64_t n = keys.num_elements() / width;
  require(keys.rank() >= 1 && keys.dim(0) == n && n * width == keys.num_elements() &&
              values.num_elements() == n * value_width && values.rank() >= 1 && values.dim(0) == n,
          "Expected keys and values of as many buckets, got ", keys.shape(), " for keys of shape ", key_shape_, " and ",
          values.shape(), " for values of shape ", value_shape_);
  HashIndex fresh = empty();
  for (int64_t i = 0; i < n; ++i)
    if (!is(empty_key_, keys, i) && !is(deleted_key_, keys, i)) fresh.put(fresh.key_of(keys, i), values, i);
  std::unique_lock lock(mutex_);
  std::swap(content_, fresh);
}

// TensorFlow's: numbers are their own hash, vectors fold those of their elements.
uint64_t DenseHashTable::bucket_hash(std::string_view key) const {
  constexpr uint64_t kSeed = 0xDECAFCAFFE;
  if (key_ == DType::string) return murmur_hash64(key, kSeed);
  size_t width = size_of(key_);
  auto number = [&](size_t at) {
    uint64_t value = 0;
    std::memcpy(&value, key.data() + at, width);
    if (key_ == DType::int32 && value >> 31 != 0) value |= ~uint64_t{0} << 32;
    return value;
  };
  if (key_shape_.num_elements() == 1) return number(0);
  uint64_t h = 0;
  for (size_t at = 0; at < key.size(); at += width) {
    uint64_t other = number(at);
    h ^= other + 0x9e3779b97f4a7800u + (h << 10) + (h >> 4);
  }
  return h;
}

std::pair<Tensor, Tensor> DenseHashTable::export_all() const {
  std::shared_lock lock(mutex_);
  int64_t buckets = buckets_;
  while (static_cast<double>(content_.size()) > static_cast<double>(buckets) * max_load_) buckets *= 2;
  int64_t width = key_shape_.num_elements(), value_width = value_shape_.num_elements();
  Tensor keys(key_, Shape{buckets, width});
  Tensor values(value_, value_shape_.rank() == 0 ? Shape{buckets, 1} : value_shape_.inserted(0, buckets));
  for (int64_t i = 0; i < buckets; ++i)
    copy_elements(key_, static_cast<char*>(keys.raw()) + static_cast<size_t>(i * width) * size_of(key_),
                  empty_key_.raw(), width);
  if (value_ != DType::string)
    std::memset(values.raw(), 0, static_cast<size_t>(buckets * value_width) * size_of(value_));
  std::vector<bool> taken(static_cast<size_t>(buckets));
  auto mask = static_cast<uint64_t>(buckets - 1);
  for (int64_t entry = 0; entry < content_.size(); ++entry) {
    uint64_t at = bucket_hash(content_.key(entry)) & mask;
    for (uint64_t probes = 1; taken[at]; ++probes) at = (at + probes) & mask;
    taken[at] = true;
    content_.copy_key(entry, keys, static_cast<int64_t>(at));
    content_.copy_value(entry, values, static_cast<int64_t>(at));
  }
  return {std::move(keys), std::move(values)};
}

}  // namespace thalweg
