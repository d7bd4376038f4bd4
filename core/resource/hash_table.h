// HashTable: a map from keys of one element type to values of another, each a scalar or a small tensor.
//
// A static table is filled once, by its initializer, and then only read; filling it again with the same content is
// allowed. A mutable one can be changed at any time. Entries keep the order of their insertion, except that removing
// one moves the last into its place. Thread-safe; an operation over several keys is atomic.
#pragma once

#include <shared_mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensor/resource_handle.h"
#include "tensor/tensor.h"

namespace thalweg {

// Entries by number, and where their keys are found: open addressing with linear probing. A slot keeps half of its
// entry's hash, so that a key is compared with one entry, or none, nearly always. Not thread-safe.
class HashIndex {
 public:
  HashIndex(DType key, int64_t key_elements, DType value, int64_t value_elements);

  int64_t size() const { return static_cast<int64_t>(hashes_.size()); }
  void reserve(int64_t entries);
  // Key i of a tensor of keys, as bytes that live as long as the tensor.
  std::string_view key_of(const Tensor& keys, int64_t i) const {
    if (text_key_) return keys.strings()[i];
    return {static_cast<const char*>(keys.raw()) + static_cast<size_t>(i) * key_bytes_, key_bytes_};
  }
  uint64_t hash_of(std::string_view key) const;
  // The entry of a key, or -1.
  int64_t find(std::string_view key, uint64_t hash) const;
  // Prefetches the memory that `find` will read: first the slot, then, from the slot, the entry.
  void prefetch_slot(uint64_t hash) const { __builtin_prefetch(&slots_[hash & mask_]); }
  void prefetch_entry(uint64_t hash) const;

  // Adds or replaces an entry, with row `i` of `values`.
  void put(std::string_view key, const Tensor& values, int64_t i);
  void erase(std::string_view key);
  // Whether an entry has the value in row `i`.
  bool has_value(int64_t entry, const Tensor& values, int64_t i) const;
  std::string_view key(int64_t entry) const {
    auto e = static_cast<size_t>(entry);
    return text_key_ ? std::string_view(text_keys_[e])
                     : std::string_view(plain_keys_.data() + e * key_bytes_, key_bytes_);
  }
  void copy_key(int64_t entry, Tensor& out, int64_t i) const;
  void copy_value(int64_t entry, Tensor& out, int64_t i) const;

 private:
  struct Slot {
    uint32_t tag;    // the upper half of the hash
    uint32_t entry;  // its number plus one; 0 where the slot is empty
  };
  void rebuild(size_t slots);
  void occupy(uint64_t hash, size_t entry);
  void set_value(size_t entry, const Tensor& values, int64_t i);

  bool text_key_, text_value_;
  size_t key_bytes_, value_bytes_, value_elements_;
  std::vector<std::string> text_keys_, text_values_;  // one of these, or
  std::vector<char> plain_keys_, plain_values_;       // one of these, for keys and for values
  std::vector<uint64_t> hashes_;
  std::vector<Slot> slots_;
  uint64_t mask_ = 0;
};

class HashTable : public Resource {
 public:
  HashTable(std::string name, DType key, DType value, Shape value_shape, bool is_static, Shape key_shape = {});
  const char* kind() const override { return "a hash table"; }
  DType key_dtype() const { return key_; }
  DType value_dtype() const { return value_; }
  const Shape& value_shape() const { return value_shape_; }

  // The values of the keys, `otherwise` where there is none.
  Tensor find(const Tensor& keys, const Tensor& otherwise) const;
  void insert(const Tensor& keys, const Tensor& values);
  void remove(const Tensor& keys);
  // Replaces the whole content; fills a static table.
  virtual void import(const Tensor& keys, const Tensor& values);
  // Fills a static table; in any other, replaces the content.
  void initialize(const Tensor& keys, const Tensor& values);
  int64_t size() const;
  virtual std::pair<Tensor, Tensor> export_all() const;

 protected:
  // Throws if one of the keys can not be in the table.
  virtual void refuse(const Tensor&) const {}
  // `shape` without the dimensions of a key, then those of a value.
  Shape shape_of_values(const Shape& shape) const;
  HashIndex empty() const;

  const std::string name_;
  const DType key_, value_;
  const Shape key_shape_, value_shape_;
  const bool static_;
  mutable std::shared_mutex mutex_;  // guards the rest
  bool initialized_;
  HashIndex content_;

 private:
  Tensor checked(const Tensor& keys, const Tensor* values) const;
  void require_initialized() const;
};

}  // namespace thalweg
