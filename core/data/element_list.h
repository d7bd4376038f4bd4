// ElementList: a dataset of elements in memory: windows, groups, buckets.
#pragma once

#include "data/dataset.h"

namespace thalweg {

class ElementList final : public Dataset {
 public:
  ElementList(Signature signature, std::vector<Element> elements)
      : Dataset(std::move(signature)), elements_(std::make_shared<const std::vector<Element>>(std::move(elements))) {}
  const std::vector<Element>& elements() const { return *elements_; }
  int64_t cardinality() const override { return static_cast<int64_t>(elements_->size()); }
  std::unique_ptr<DatasetIterator> iterate(const Making&) const override { return std::make_unique<Walk>(elements_); }

 private:
  struct Walk final : DatasetIterator {
    explicit Walk(std::shared_ptr<const std::vector<Element>> elements) : elements(std::move(elements)) {}
    Pulled next(Pull&, Element& out) override {
      if (at >= elements->size()) return Pulled::end;
      out = (*elements)[at++];
      return Pulled::element;
    }
    void save(StateWriter& out) override {
      out.tag("KeptElements");
      out.integer(static_cast<int64_t>(at));
    }
    void restore(StateReader& in) override {
      in.tag("KeptElements");
      at = static_cast<size_t>(std::max<int64_t>(0, in.integer()));
    }
    const std::shared_ptr<const std::vector<Element>> elements;
    size_t at = 0;
  };
  const std::shared_ptr<const std::vector<Element>> elements_;
};

}  // namespace thalweg
