// HashTable: a map from keys of one element type to values of another, each value a scalar or a small tensor.
//
// A static table is filled once, by its initializer, and then only read; filling it again with the same content is
// allowed. A mutable one can be changed at any time. Elements are kept as bytes, so that one implementation serves
// every type. Entries keep the order of their insertion, except that removing one moves the last into its place.
// Thread-safe; an operation over several keys is atomic.
#pragma once

#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "resource/handle.h"
#include "tensor/tensor.h"

namespace thalweg {

class HashTable : public Resource {
 public:
  HashTable(std::string name, DType key, DType value, Shape value_shape, bool is_static);
  const char* kind() const override { return "a hash table"; }
  DType key_dtype() const { return key_; }
  DType value_dtype() const { return value_; }

  // The values of the keys, `otherwise` where there is none.
  Tensor find(const Tensor& keys, const Tensor& otherwise) const;
  void insert(const Tensor& keys, const Tensor& values);
  void remove(const Tensor& keys);
  // Replaces the whole content.
  void import(const Tensor& keys, const Tensor& values);
  // Fills a static table.
  void initialize(const Tensor& keys, const Tensor& values);
  int64_t size() const;
  std::pair<Tensor, Tensor> export_all() const;

 private:
  struct Entry {
    std::string key;
    std::vector<std::string> value;  // Bytes of all elements in one string, or one string per element.
    bool operator==(const Entry&) const = default;
  };
  struct Content {
    std::unordered_map<std::string, size_t> index;
    std::vector<Entry> entries;
    void put(Entry entry);
  };
  void check(const Tensor& keys, const Tensor* values) const;
  void require_initialized() const;
  std::string key_at(const Tensor& keys, int64_t i) const;
  std::vector<std::string> value_at(const Tensor& values, int64_t i) const;
  void store(const std::vector<std::string>& value, Tensor& out, int64_t i) const;
  Shape with_value_shape(const Shape& shape) const;

  const std::string name_;
  const DType key_, value_;
  const Shape value_shape_;
  const bool static_;
  mutable std::shared_mutex mutex_;  // guards the rest
  bool initialized_;
  Content content_;
};

}  // namespace thalweg
