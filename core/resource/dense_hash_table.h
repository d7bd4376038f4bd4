// DenseHashTable: a mutable table with two keys that never occur, and a content that is exported as buckets.
//
// TensorFlow keeps such a table as an array of buckets: empty ones hold the empty key, those of removed entries the
// deleted one, and both arrays go into checkpoints as they are. Here only the exported form has buckets: the places of
// keys follow TensorFlow's hashes and probing, so that TensorFlow finds them again.
#pragma once

#include "resource/hash_table.h"

namespace thalweg {

class DenseHashTable : public HashTable {
 public:
  // Keys have the shape of the two special ones.
  DenseHashTable(std::string name, const Tensor& empty_key, const Tensor& deleted_key, DType value, Shape value_shape,
                 int64_t buckets, double max_load);
  const char* kind() const override { return "a dense hash table"; }
  // Buckets with the empty or the deleted key are left out.
  void import(const Tensor& keys, const Tensor& values) override;
  std::pair<Tensor, Tensor> export_all() const override;

 protected:
  void refuse(const Tensor& keys) const override;

 private:
  bool is(const Tensor& special, const Tensor& keys, int64_t i) const;
  uint64_t bucket_hash(std::string_view key) const;

  const Tensor empty_key_, deleted_key_;
  const int64_t buckets_;
  const double max_load_;
};

}  // namespace thalweg
